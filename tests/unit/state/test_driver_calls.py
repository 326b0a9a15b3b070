"""What the next start says of a driver that has ended the agent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agent.state.driver_calls import FILE_NAME, DriverCalls
from drivers.api import ComputeDriver, DriverContext
from drivers.loaded import LoadedDriver
from reportclient.provider_tree import ProviderTree

ENDS = """
import os, sys
from pathlib import Path
from tests.unit.state.test_driver_calls import Quiet, loaded
from agent.state.driver_calls import DriverCalls

class Ends(Quiet):
    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        os._exit(3)

driver = loaded(Ends)
DriverCalls(Path(sys.argv[1]), [driver]).watch()
driver.nodes()
driver.ask(None, "host1", None)
"""


class Quiet(ComputeDriver):
    def get_available_nodes(self):
        return ["host1"]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        return None


def loaded(kind: type[ComputeDriver]) -> LoadedDriver:
    return LoadedDriver.of("mine", kind(DriverContext("host1", Path("/nowhere"))))


def test_a_driver_that_ended_the_agent_is_named_at_the_next_start(tmp_path: Path, caplog) -> None:
    path = tmp_path / FILE_NAME
    assert subprocess.run([sys.executable, "-c", ENDS, str(path)], check=False).returncode == 3
    DriverCalls(path, []).watch()
    assert "ended inside update_provider_tree(host1) of driver mine" in caplog.text
    caplog.clear()
    DriverCalls(path, []).watch()
    assert not caplog.records


def test_calls_that_return_leave_nothing_and_a_bad_disk_stops_none(tmp_path: Path, caplog) -> None:
    for path in (tmp_path / FILE_NAME, tmp_path / "not there" / FILE_NAME):
        driver = loaded(Quiet)
        DriverCalls(path, [driver]).watch()
        assert driver.nodes() == ["host1"]
        driver.ask(ProviderTree(), "host1", None)
        assert not path.exists()
    assert not caplog.records
