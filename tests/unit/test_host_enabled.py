"""Drivers that want to hear whether the host takes new guests."""

from __future__ import annotations

from agent.loop import Loop
from agent.provider_config.files import ProviderFiles
from agent.reporting.systemd import Systemd
from agent.service import Service
from agent.switching.host_status import HostStatus, status_document
from agent.switching.machine import ServiceStatus
from drivers.api import ComputeDriver
from drivers.loaded import LoadedDriver
from tests.agents import Idle


class Hears(Idle):
    def __init__(self, fails: int = 0) -> None:
        super().__init__()
        self.heard: list[bool] = []
        self.fails = fails

    def set_host_enabled(self, enabled: bool) -> str:
        self.heard.append(enabled)
        if self.fails:
            self.fails -= 1
            raise OSError("no line")
        return "enabled"


class NoNodes:
    def __init__(self, *drivers: ComputeDriver) -> None:
        self.drivers = [
            LoadedDriver.from_driver(f"driver{n}", each) for n, each in enumerate(drivers)
        ]

        self.provider_files = ProviderFiles()

    def period(self, now, *, disabled, stop):
        return []

    def any_disabled(self):
        return None

    def switch(self, now, *, disabled):
        return []


def test_each_change_is_told_once_in_periods_and_at_once_when_switched(tmp_path) -> None:
    driver, loop = Hears(), Loop(lambda: None)
    nodes = NoNodes(Idle(), driver)
    status = HostStatus(
        status_document(tmp_path),
        loop,
        lambda disabled, _: nodes.switch(0, disabled=disabled),
    )
    service = Service("host1", nodes, Systemd(), bool, status)
    service.period()
    assert driver.heard == [], "nobody knows the status yet"
    status.current = ServiceStatus(disabled=False)
    service.period()
    service.period()
    assert driver.heard == [True]
    status.switch(disabled=True)
    status.switch(disabled=True)
    loop.run_jobs()
    assert driver.heard == [True, False]


def test_one_that_failed_is_told_again_and_the_others_are_told_anyway(caplog) -> None:
    first, second = Hears(fails=1), Hears()
    told = Service("host1", NoNodes(first, second), Systemd(), bool)
    told.notify_drivers(True)
    told.notify_drivers(True)
    told.notify_drivers(True)
    assert first.heard == [False, False] and second.heard == [False]
    (record,) = caplog.records
    assert "driver0: set_host_enabled(False) failed" in record.message
    assert "no line" in record.message
