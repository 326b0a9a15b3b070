"""The module of deploy/ansible that writes configuration: what it reads, and what asks for a restart."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from agent import opts

REPOSITORY = Path(__file__).resolve().parents[2]
MODULE = REPOSITORY / "deploy/ansible/roles/compute_common/library/oslo_conf.py"
SAMPLE = REPOSITORY / "etc" / "compute-agent" / "compute-agent.conf.sample"


@pytest.fixture
def oslo_conf(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module; of Ansible it needs only a name, which is not installed here."""
    basic = types.ModuleType("ansible.module_utils.basic")
    basic.AnsibleModule = object  # type: ignore[attr-defined]
    for name in ("ansible", "ansible.module_utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, basic.__name__, basic)
    spec = importlib.util.spec_from_file_location("oslo_conf", MODULE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
