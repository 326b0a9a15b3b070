"""The module of deploy/ansible that writes configuration: what it reads, and what asks for a restart."""

from pathlib import Path
from typing import Any

import pytest

from agent import opts
from tests.ansible_modules import load_module

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLE = REPOSITORY / "etc" / "compute-agent" / "compute-agent.conf.sample"


@pytest.fixture
def oslo_conf(monkeypatch: pytest.MonkeyPatch) -> Any:
    return load_module("oslo_conf", monkeypatch)


def test_what_may_change_without_a_restart_is_what_the_program_says(oslo_conf: Any) -> None:
    declared = {
        (str(getattr(group, "name", group) or "DEFAULT"), option.dest)
        for group, options in opts.list_opts()
        for option in options
        if option.mutable
    }
    found = oslo_conf.mutable(SAMPLE)
    assert declared and declared <= found
    assert ("DEFAULT", "debug") in found
    assert ("DEFAULT", "compute_driver") not in found
    assert oslo_conf.mutable(SAMPLE.with_name("missing")) == set()


def test_a_file_that_was_written_reads_as_what_was_desired(oslo_conf: Any, tmp_path: Path) -> None:
    groups = {
        "registry": {"access": "rpc"},
        "DEFAULT": {"debug": True, "compute_driver": ["libvirt", "mine"], "host": None},
        "placement": {"password": "a%b = c"},
    }
    file = tmp_path / "conf"
    assert oslo_conf.current(file) == {}
    options = oslo_conf.desired(groups)
    assert options["DEFAULT", "debug"] == "true"
    assert options["DEFAULT", "compute_driver"] == "libvirt,mine"
    assert ("DEFAULT", "host") not in options
    file.write_text(oslo_conf.written(options))
    assert oslo_conf.current(file) == options
    file.write_text("not a configuration\n")
    assert oslo_conf.current(file) is None
