"""tools/subreaper.py: nothing of a daemon is left when it ends, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import eventually

pytestmark = pytest.mark.slow

SUBREAPER = Path(__file__).resolve().parents[3] / "tools" / "subreaper.py"
# A daemon with a child of its own and one that detached itself; it prints their pids.
DAEMON = "sleep 600 & echo $!; setsid sh -c 'sleep 600 & echo $!'; "


def start(script: str) -> tuple[subprocess.Popen[str], list[int]]:
    process = subprocess.Popen(
        [sys.executable, str(SUBREAPER), "sh", "-c", DAEMON + script],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, [int(process.stdout.readline()) for _ in range(2)]


def are_gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_its_exit_status_is_the_daemons_and_children_do_not_outlive_it():
    process, children = start("exit 3")
    assert process.wait(timeout=60) == 3
    eventually(lambda: are_gone(children))


@pytest.mark.parametrize("script", ["exec sleep 600", "kill -STOP $$; exec sleep 600"])
def test_sigterm_ends_all_of_it_also_a_daemon_that_is_stopped(script):
    process, children = start(script)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    eventually(lambda: are_gone(children))


def test_a_command_that_is_not_there_is_named():
    found = subprocess.run(
        [sys.executable, str(SUBREAPER), "/not/there"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 127
    assert "/not/there" in found.stderr
