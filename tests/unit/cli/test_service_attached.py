"""A host whose root is another service's: its record says so, and switching it is Nova's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.registry.checks import Report
from computectl.app import ComputeCtl
from tests.registries import host_record


@pytest.fixture
def config(tmp_path: Path) -> Path:
    config = tmp_path / "agent.conf"
    config.write_text(f"[DEFAULT]\nhost = host1\nstate_path = {tmp_path}\n")
    host_record(tmp_path).heartbeat(Report("host1", "rack 1", None, [], attached=True))
    return config


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A host with a root of its own."""
    state = tmp_path / "other"
    state.mkdir()
    config = state / "agent.conf"
    config.write_text(f"[DEFAULT]\nhost = host2\nstate_path = {state}\n")
    more = {"agent_version": "1.2", "degraded": "disk: full\nbroker: away"}
    host_record(state).heartbeat(Report("host2", "rack 2", None, [], **more))
    return config


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("disable", "host1"), "--disable"),
        (("enable", "host1"), "--enable"),
    ],
)
def test_switching_it_is_refused_with_the_command_that_does(
    config: Path, words: tuple[str, ...], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ComputeCtl().run(["--config-file", str(config), "service", *words]) == 2
    said = capsys.readouterr().err
    assert f"openstack compute service set {command} host1 nova-compute" in said
    assert "nothing was changed" in said


def test_an_operator_can_always_force_it_down_and_delete_it(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the host says of itself: its key may be in somebody else's hands."""
    for words in (("force-down", "host1"), ("delete", "host1")):
        ComputeCtl().run(["--config-file", str(config), "service", *words])
    assert "the service record of host1 is deleted" in capsys.readouterr().out


def test_a_name_that_no_host_can_have_is_refused_before_the_registry_is_called(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = "transport_url = rabbit://nobody:x@127.0.0.1:1/\n[registry]\naccess = rpc\n"
    config.write_text(config.read_text() + nowhere)
    words = ["service", "disable", "h" * 256]
    assert ComputeCtl().run(["--config-file", str(config), *words]) == 2
    assert "not a valid name" in capsys.readouterr().err


def test_others_are_switched(other: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ComputeCtl().run(["--config-file", str(other), "service", "disable", "host2"])
    assert "host2 is disabled" in capsys.readouterr().out


def test_it_is_shown_as_attached(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ComputeCtl().run(["--config-file", str(config), "service", "list"])
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "host1" in one]
    assert "attached: Nova's" in line and "DIFFERS" not in line
    ComputeCtl().run(["--config-file", str(config), "service", "list", "-f", "json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["attached"], row["placement"]) == (True, "Nova's")


def test_the_agents_version_and_what_does_not_work_there_are_shown(
    other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ComputeCtl().run(["--config-file", str(other), "service", "list", "-f", "json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["agent_version"], row["attached"]) == ("1.2", False)
    assert row["degraded"] == ["disk: full", "broker: away"]
    ComputeCtl().run(["--config-file", str(other), "service", "show", "host2"])
    shown = capsys.readouterr().out
    assert (
        "  version   1.2\n" in shown
        and "  degraded  disk: full\n  degraded  broker: away\n" in shown
    )
