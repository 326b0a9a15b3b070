"""``tools/demo.sh --lab``: a tree, then a card that comes and goes, until Ctrl-C."""

import itertools
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.lab import CARD, NODE
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
CARD_DRAWN = f"{NODE}_{CARD}"


class Demo:
    """The script in a session of its own: a signal to its group is what Ctrl-C sends."""

    def __init__(self, directory: Path) -> None:
        self.environment = {
            **os.environ,
            "COMPUTE_AGENT_DEMO_DIR": str(directory / "demo"),
            "COMPUTE_AGENT_DEMO_SECONDS": "2",
        }
        self.log = directory / "log"

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [ROOT / "tools" / "demo.sh", "--lab", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.log.read_text()


@pytest.fixture
def demo(lab, tmp_path: Path) -> Demo:
    return Demo(tmp_path)


def card_in_trees(said: str) -> list[bool]:
    """Whether the card is in each tree that was drawn; the same again counts once."""
    found = [CARD_DRAWN in tree for tree in said.split("capacity\n")[1:]]
    return [key for key, _ in itertools.groupby(found)]


def until(demo: Demo, running: subprocess.Popen[bytes], condition: Callable[[str], bool]) -> None:
    eventually(lambda: condition(demo.said()), 120, process=running, otherwise=demo.said)


def test_a_card_comes_and_goes_until_ctrl_c_and_so_it_does_again(demo):
    for _ in range(2):
        running = demo.start()
        try:
            until(demo, running, lambda said: "now try it: " in said)
            until(demo, running, lambda said: card_in_trees(said) == [False, True, False])
            os.killpg(running.pid, signal.SIGINT)
            assert running.wait(60) == 0, demo.said()
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)


def test_one_period_ends_by_itself_and_plugs_nothing(demo, lab):
    running = demo.start("--once")
    assert running.wait(120) == 0, demo.said()
    assert f"{NODE}_numa1" in demo.said()
    assert "plugging" not in demo.said()
    assert lab.uri(), "the lab that ran before goes on"
