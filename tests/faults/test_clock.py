"""The machine's clock jumps by an hour, both ways, under a running agent."""

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.site import Site

SOURCE = Path(__file__).with_name("wrong_clock.c")
HOUR = 3600
pytestmark = [pytest.mark.faults, pytest.mark.needs("gcc")]


@pytest.fixture
def wrong_by(site: Site, tmp_path: Path) -> Path:
    """The file that says by how many seconds the agent's clock is wrong."""
    library, file = tmp_path / "wrong_clock.so", tmp_path / "wrong_by"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O", "-o", library, SOURCE], check=True)
    file.write_text("0")
    site.agent.environment |= {"LD_PRELOAD": str(library), "WRONG_BY": str(file)}
    return file


def hours(log: str) -> list[int]:
    """By the agent's clock, of each line of its log."""
    return [int(line[11:13]) for line in log.splitlines() if line[:2] == "20"]


def test_periods_and_verifications_go_on(site: Site, wrong_by: Path) -> None:
    site.begin()
    for seconds in (HOUR, 0, -HOUR, HOUR):
        wrong_by.write_text(str(seconds))
        site.changes()
        # A verification finds what somebody else changed: its time has to come as well.
        site.placement.stranger.remove_trait(site.root, "HW_CPU_X86_AVX2")
        site.converges()
    jumps = {(later - earlier) % 24 for earlier, later in pairwise(hours(site.agent.log))}
    assert {1, 22, 23} & jumps, "the clock did not jump"
