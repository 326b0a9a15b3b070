"""A switch: its reports beside those of the last period, the drivers' part, and real roots."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.loop import Loop
from agent.provider_config.files import ProviderFiles
from agent.reporting.reports import Occasion, Report
from agent.reporting.systemd import Systemd
from agent.service import Service
from agent.switching.host_status import HostStatus, status_document
from agent.switching.machine import Event, ServiceStatus
from drivers.api import ComputeDriver
from drivers.loaded import LoadedDriver
from reportclient.errors import Forbidden, Unreachable
from reportclient.plan import SetTraits
from tests.agents import NODE, ROOT, Agent, Away, Idle, Small, inventory
from tests.reports import report_with
from tests.stranger import FakePlacement

DISABLED = "COMPUTE_STATUS_DISABLED"


class FixedNodes:
    """Answers with the reports that a test put there."""

    def __init__(self, *reports: Report, drivers: Sequence[ComputeDriver] = ()) -> None:
        self.drivers = [LoadedDriver.from_driver(f"driver{n}", d) for n, d in enumerate(drivers)]
        self.reports = list(reports)
        self.disabled: list[bool | None] = []
        self.provider_files = ProviderFiles()

    def period(self, now: float, *, disabled: bool | None, stop: object) -> list[Report]:
        self.disabled.append(disabled)
        return self.reports

    def any_disabled(self) -> None:
        return None


def service_of(
    *reports: Report, drivers: Sequence[ComputeDriver] = ()
) -> tuple[Service, list[Sequence[Report]]]:
    heard: list[Sequence[Report]] = []
    loop, document = Loop(), status_document(Path("/dev/null/none"))
    status = HostStatus(document, loop, lambda *_: reports)
    nodes = FixedNodes(*reports, drivers=drivers)
    service = Service("host1", nodes, Systemd(), lambda: False, status)
    service.listeners.append(heard.append)
    return service, heard


# -- drivers that want to hear whether the host takes new guests


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


def test_drivers_get_each_status_once_and_nodes_in_each_period() -> None:
    driver = Hears()
    service, _ = service_of(drivers=[Idle(), driver])
    service.period()
    assert driver.heard == [], "nobody knows the status yet"
    service.status.current = ServiceStatus(disabled=False)
    service.period()
    service.period()
    assert driver.heard == [True] and service.nodes.disabled == [None, False, False]
    service.status.handle(Event.DISABLE)
    service.status.handle(Event.DISABLE)
    service.status.loop.run_jobs()
    assert driver.heard == [True, False]


def test_a_driver_that_failed_is_notified_again_and_the_others_anyway(caplog) -> None:
    first, second = Hears(fails=2), Hears()
    service, _ = service_of(drivers=[first, second])
    for _ in range(4):
        service.notify_drivers(True)
    assert first.heard == [False, False, False] and second.heard == [False]
    (record,) = caplog.records
    assert "driver0: set_host_enabled(False) failed" in record.message
    assert "no line" in record.message


# -- a switch after a period


@pytest.mark.parametrize("error", [KeyError("links"), SystemExit(4)], ids=repr)
def test_an_unexpected_error_beside_the_nodes_ends_no_period_but_one(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    service, heard = service_of(Report("node"))

    def fails(_: object) -> None:
        service.listeners.remove(fails)
        raise error

    service.listeners.append(fails)
    assert service.period() is False
    (record,) = [each for each in caplog.records if each.exc_info]
    assert record.getMessage().startswith("The period failed, the next one runs as usual")
    assert service.period() is True and len(heard) == 2


def test_a_switch_leaves_what_the_period_complained_of() -> None:
    service, heard = service_of(report_with("node", driver_errors={"fake": ValueError("no disk")}))
    service.after_switch([Report("node")])
    assert not heard, "before the first period"
    service.period()
    service.status.handle(Event.DISABLE)
    service.status.loop.run_jobs()
    assert len(heard) == 2
    service.after_switch([Report("node", calls=1)])
    assert "driver fake: no disk" in heard[-1][0].texts()
    assert heard[-1][0].calls == 1


def test_a_switch_that_failed_is_a_complaint_and_the_next_one_ends_it() -> None:
    service, heard = service_of(Report("node"))
    service.period()
    service.after_switch([Report("node").with_error(Unreachable("away"))])
    assert not heard[-1][0].ok
    service.after_switch([Report("node")])
    assert heard[-1][0].ok


def test_what_is_wrong_beside_the_nodes_is_told_with_each_and_not_kept() -> None:
    service, heard = service_of(Report("node"))
    service.status.current = ServiceStatus(disabled=False)
    service.status.document.problem = "it is tried again in each period"
    service.period()
    assert any("none/service.json can't be written" in text for text in heard[-1][0].texts())
    service.status.document.problem = ""
    service.after_switch([Report("node")])
    assert heard[-1][0].ok


@pytest.fixture
def agent(any_placement) -> Agent:
    return Agent(any_placement, Small(inventory())).settle()


def switch(agent: Agent, disabled: bool) -> Report:
    (report,) = agent.nodes.switch(agent.now, disabled=disabled)
    assert (report.node, report.occasion) == (NODE, Occasion.SWITCH)
    return report


def test_a_switch_asks_no_driver_reads_nothing_and_leaves_nothing_to_do(
    agent, any_placement
) -> None:
    driver = agent.nodes.drivers[0].driver
    shown = len(driver.shown)
    for disabled in (True, False):
        calls = agent.calls_of(lambda disabled=disabled: switch(agent, disabled))
        assert calls == [f"PUT /resource_providers/{ROOT}/traits"]
        assert (DISABLED in any_placement.stranger.traits(ROOT)) is disabled
    assert len(driver.shown) == shown
    assert not agent.calls_of(lambda: agent.period(after=1, disabled=False))


def test_a_kill_after_a_switch_loses_nothing_but_the_saved_view(any_placement, tmp_path) -> None:
    """The answer waits for no disk: the root is read again."""
    agent = Agent(any_placement, Small(inventory()), state=tmp_path / "state").settle()
    switch(agent, True)
    agent.restart()
    assert not [
        call for call in agent.calls_of(lambda: agent.period(disabled=True)) if "PUT" in call
    ]
    assert DISABLED in any_placement.stranger.traits(ROOT)


def test_what_a_switch_may_not_write_is_told(agent, fake_placement) -> None:
    agent = Agent(fake_placement, Small(inventory())).settle()
    refused = Forbidden("no role")
    fake_placement.fail_next("PUT", "traits$", refused)
    report = switch(agent, True)
    assert [(it.uuid, it.text) for it in report.conditions] == [(ROOT, str(refused))]
    (operation,) = report.plan.operations
    assert isinstance(operation, SetTraits) and DISABLED in operation.traits


def test_a_switch_before_there_is_a_root_writes_nothing(any_placement) -> None:
    agent = Agent(any_placement, Small(inventory()))
    report = switch(agent, True)
    assert report.ok and not report.done
    agent.period(disabled=True)
    assert DISABLED in any_placement.stranger.traits(ROOT)


def test_the_next_verification_puts_right_what_a_stranger_did(agent, any_placement) -> None:
    switch(agent, True)
    any_placement.stranger.remove_trait(ROOT, DISABLED)
    agent.period(disabled=True)
    assert DISABLED in any_placement.stranger.traits(ROOT)
    switch(agent, False)
    any_placement.stranger.add_trait(ROOT, DISABLED)
    agent.period(disabled=False)
    assert DISABLED not in any_placement.stranger.traits(ROOT)


def test_a_switch_finds_what_somebody_did_meanwhile(agent, any_placement) -> None:
    """Also where by what the agent knows nothing is to be written."""
    any_placement.stranger.add_trait(ROOT, DISABLED)
    assert switch(agent, False).ok
    assert DISABLED not in any_placement.stranger.traits(ROOT)


@pytest.mark.parametrize("period", [60.0, 600.0])
def test_retries_are_left_to_periods_that_come_soon(any_placement, period) -> None:
    agent = Agent(any_placement, Small(inventory()), period=period)
    agent.period(disabled=False)
    tracker, away = agent.nodes.trackers[ROOT], Away()
    there, tracker.root.api = tracker.root.api, away
    for retry in (False, True):  # the second is at once: one answer may be lost
        tracker.switch(agent.now, disabled=True, retry=retry)
    assert away.asked == 2
    for _ in range(30):
        report = tracker.switch(agent.now + 59, disabled=True, retry=True)
        assert (report.node, report.occasion, report.ok) == (NODE, Occasion.SWITCH, False)
    assert away.asked == 2
    tracker.switch(agent.now + 1, disabled=True)
    assert away.asked == 3, "an operator wants it now"
    tracker.root.api = there
    assert tracker.switch(agent.now + 200, disabled=True, retry=True).ok, "no period has come"


def test_whether_a_root_is_disabled_is_known_once_placement_was_read(agent, any_placement) -> None:
    assert agent.nodes.any_disabled() is False
    switch(agent, True)
    assert agent.nodes.any_disabled() is True
    assert Agent(any_placement, Small(inventory())).nodes.any_disabled() is None


class Asking:
    """An API whose requests are seen while they wait."""

    def __init__(self, api: FakePlacement, asks: Callable[[], None]) -> None:
        self.api, self.asks = api, asks

    def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        self.asks()
        return self.api.request(method, path, **more)


def test_a_request_that_waits_for_its_answer_hangs_until_then() -> None:
    placement = FakePlacement()
    agent = Agent(placement, Small(inventory()))
    service = Service("host1", agent.nodes, Systemd(), lambda: False)
    told: list[str | None] = []
    agent.nodes.breaker.api = Asking(placement, lambda: told.append(service.hanging(0.0, 0.0)))
    assert agent.period().ok
    assert set(told) == {"Placement does not answer"}
    assert service.hanging(0.0, 0.0) is None
