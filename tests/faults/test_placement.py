"""Placement and its database: locked, emptied, taken back in time, frozen, killed."""

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.site import Site
from tests.servers.backup import back_up, restore
from tests.servers.placement import RealPlacement

pytestmark = pytest.mark.faults

LONG_ENOUGH = 8.0
"""Seconds: several periods and verifications with the fault there."""


@pytest.fixture
def site(own_placement: RealPlacement, tmp_path: Path) -> Iterator[Site]:
    own_placement.start()
    site = Site.on(own_placement, tmp_path / "host")
    yield site
    site.agent.kill()


def test_its_database_is_locked_for_a_while(site: Site) -> None:
    site.begin()
    path = site.placement.directory / "placement.sqlite"
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        site.change()
        time.sleep(LONG_ENOUGH)
        other.execute("ROLLBACK")
    site.converges()


def test_its_database_is_emptied_under_a_running_agent(site: Site) -> None:
    site.begin()
    site.placement.empty()
    site.converges(foreign=False)  # theirs is for them to make again
    assert site.root in {each["uuid"] for each in site.placement.providers()}


def kill(placement: RealPlacement) -> None:
    assert placement.pid is not None
    os.kill(placement.pid, signal.SIGKILL)
    placement.stop()


@pytest.mark.parametrize("replica", [False, True], ids=["restored", "failed-over"])
def test_its_database_is_an_older_one(site: Site, tmp_path: Path, replica: bool) -> None:
    """``failed-over``: the server dies, and the one in its place has a replica that lagged."""
    site.begin()
    back_up(site.placement, tmp_path / "old.sqlite")
    for _ in range(3):
        site.changes()
    if replica:
        kill(site.placement)
    restore(site.placement, tmp_path / "old.sqlite")
    if replica:
        site.placement.start()
    site.converges()


def test_it_is_killed_and_away_for_a_while(site: Site) -> None:
    site.begin()
    kill(site.placement)
    site.change()
    time.sleep(LONG_ENOUGH)
    site.placement.start()
    site.converges()


def test_it_hangs_for_a_while(site: Site) -> None:
    site.begin()
    assert site.placement.pid is not None
    os.kill(site.placement.pid, signal.SIGSTOP)
    site.change()
    time.sleep(LONG_ENOUGH)
    os.kill(site.placement.pid, signal.SIGCONT)
    site.converges()
