"""What a configuration file says about the registry, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.registry import opts


def load(tmp_path: Path, text: str) -> opts.RegistrySettings:
    path = tmp_path / "r.conf"
    path.write_text(text)
    return opts.settings(opts.load(["--config-file", str(path)]))


def test_by_default_the_records_are_in_the_state_directory(tmp_path: Path) -> None:
    found = load(tmp_path, f"[DEFAULT]\nstate_path = {tmp_path}\n")
    assert found.connection == f"sqlite:///{tmp_path}/services.sqlite"
    assert (found.access, found.rest_port, found.auth_strategy) == ("direct", None, "keystone")
    assert (found.down_after, found.report_interval) == (60.0, 10.0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("report_interval = 60", "report_interval"),
        ("service_down_time = 5", "service_down_time"),
        ("access = telepathy", "telepathy"),
        ("rest_port = 70000", "rest_port"),
        ("auth_strategy = none", "auth_strategy"),
        ("service_down_time = long", "service_down_time"),
    ],
)
def test_what_can_not_be_is_said_at_the_start(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(opts.RegistryConfigError, match=said):
        load(tmp_path, f"[registry]\n{line}\n")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(opts.RegistryConfigError, match="/no/such/file"):
        opts.load(["--config-file", "/no/such/file"])
