"""What the next start says of a driver that has ended the agent."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent.state.driver_calls import FILE_NAME, DriverCalls
from drivers.loaded import LoadedDriver
from reportclient.provider_tree import ProviderTree
from tests.agents import Idle

ENDS = """
import os, sys
from pathlib import Path
from tests.agents import Idle
from tests.unit.state.test_driver_calls import loaded
from agent.state.driver_calls import DriverCalls

class Ends(Idle):
    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        os._exit(3)

driver = loaded(Ends)
DriverCalls(Path(sys.argv[1]), [driver]).watch()
driver.nodes()
driver.update_provider_tree(None, "host1", None)
"""


def loaded(kind: type[Idle]) -> LoadedDriver:
    return LoadedDriver.from_driver("mine", kind(["host1"]))


@pytest.mark.slow
def test_a_driver_that_ended_the_agent_is_named_at_the_next_start(tmp_path: Path, caplog) -> None:
    path = tmp_path / FILE_NAME
    assert subprocess.run([sys.executable, "-c", ENDS, str(path)], check=False).returncode == 3
    DriverCalls(path, []).watch()
    assert "ended during update_provider_tree(host1) of driver mine" in caplog.text
    caplog.clear()
    DriverCalls(path, []).watch()
    assert not caplog.records


def test_a_stop_that_did_not_wait_for_a_driver_is_told_as_what_it_was(
    tmp_path: Path, caplog
) -> None:
    path, inside, back = tmp_path / FILE_NAME, threading.Event(), threading.Event()

    class Hangs(Idle):
        def get_available_nodes(self):
            inside.set()
            assert back.wait(60)
            return []

    driver = loaded(Hangs)
    calls = DriverCalls(path, [driver])
    calls.watch()
    asking = threading.Thread(target=driver.nodes)
    asking.start()
    assert inside.wait(60)
    calls.leave()
    DriverCalls(path, []).watch()
    back.set()
    asking.join(60)
    (line,) = caplog.messages
    assert line == "The last stop did not wait for get_available_nodes of driver mine"


def test_calls_that_return_leave_nothing_to_tell_and_a_bad_disk_stops_none(
    tmp_path: Path, caplog
) -> None:
    for path in (tmp_path / FILE_NAME, tmp_path / "not there" / FILE_NAME):
        driver = loaded(Idle)
        DriverCalls(path, [driver]).watch()
        assert driver.nodes() == ["host1"]
        driver.update_provider_tree(ProviderTree(), "host1", None)
        DriverCalls(path, []).watch()
    assert not caplog.records


def test_a_call_costs_the_file_one_write_in_place(tmp_path: Path) -> None:
    """A period of 1,000 nodes makes 2,000 of them."""
    path, driver = tmp_path / FILE_NAME, loaded(Idle)
    DriverCalls(path, [driver]).watch()
    before = path.stat().st_ino
    driver.nodes()
    assert path.stat().st_ino == before
    assert [one.name for one in tmp_path.iterdir()] == [FILE_NAME]
