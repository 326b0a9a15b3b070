"""docs/client.rst: what its commands say is what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.transcripts import Command, steps
from tests.servers.placement import RealPlacement
from tests.servers.reference import reference_python

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "client.rst").read_text()


def said(command: Command, **environment: str) -> str:
    """By this interpreter, whatever ``python`` is."""
    words = re.sub(r"\bpython(?= )", sys.executable, command.words)
    environment = {**os.environ, **environment, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        ["bash", "-c", words],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0
    return done.stdout.strip()


def test_a_stranger_hangs_devices_beneath_novas_root(placement: RealPlacement) -> None:
    root = placement.stranger.create_provider("compute1")
    placement.stranger.set_inventory(root, {"VCPU": {"total": 8}})
    placement.stranger.add_trait(root, "COMPUTE_NODE")
    environment = {"PLACEMENT_URL": placement.url, "PLACEMENT_TOKEN": "admin"}
    shown = [one for one in steps(PAGE) if isinstance(one, Command)]
    for command in (one for one in shown if "devices.py" in one.words):
        assert said(command, **environment) == command.output, command.words
    names = {
        row["name"] for row in placement.request("GET", "/resource_providers")["resource_providers"]
    }
    assert names == {"compute1", "compute1_accel_0000:82:00.0"}
    assert placement.stranger.traits(root) == {"COMPUTE_NODE"}
    assert set(placement.stranger.inventory(root)) == {"VCPU"}


@pytest.mark.faults
@pytest.mark.skipif(reference_python() is None, reason="no environment with nova")
def test_novas_quiet_period_is_one_call_when_allocations_are_read_lazily() -> None:
    [command] = [one for one in steps(PAGE) if isinstance(one, Command) and "lazily" in one.words]
    words = command.words.replace(".venv-nova/bin/python", str(reference_python()))
    assert said(Command(words, "")) == command.output
