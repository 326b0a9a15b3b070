"""A host whose root is another service's: its record is followed by nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.cli.app import ComputeCtl


@pytest.fixture
def config(tmp_path: Path) -> Path:
    config = tmp_path / "agent.conf"
    config.write_text(
        f"[DEFAULT]\nhost = host1\nstate_path = {tmp_path}\n[compute]\nroot_provider = attach\n"
    )
    return config


@pytest.mark.parametrize("how", ["disable", "enable"])
def test_switching_it_is_refused_with_the_command_that_does(
    config: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ComputeCtl().run(["--config-file", str(config), "service", how, "host1"]) == 2
    said = capsys.readouterr().err
    assert f"openstack compute service set --{how} host1 nova-compute" in said
    assert "nothing was changed" in said
    assert not list(config.parent.glob("services.sqlite*")), "no record was made"


def test_others_are_not(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ComputeCtl().run(["--config-file", str(config), "service", "disable", "host2"]) == 2
    assert "no service has the host name host2" in capsys.readouterr().err
