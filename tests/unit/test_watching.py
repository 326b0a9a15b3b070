"""Drivers that watch their hypervisor: one that can't do so does not end the start."""

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agent.loop import Loop
from agent.reporting.condition import Severity
from agent.switching.hypervisor import Hypervisor
from drivers.api import Notify
from drivers.loader import LoadedDriver
from tests.agents import Agent, Idle
from tests.stranger import FakePlacement


class Watching(Idle):
    """The error is that of the watch."""

    tell: Callable[[str | None], None] | None = None

    def watch(self, tell: Callable[[str | None], None]) -> None:
        if self.error is not None:
            raise self.error
        self.tell = tell


@pytest.mark.parametrize("error", [RuntimeError("no event loop"), SystemExit(3)])
def test_a_watch_that_raises_is_logged_and_the_other_drivers_are_watched(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good, loop = Watching(error=error), Watching(), Loop()
    loaded = [LoadedDriver.from_driver("bad", bad), LoadedDriver.from_driver("good", good)]
    status: Any = SimpleNamespace(handle=lambda *_: None)
    hypervisor = Hypervisor(status, loop)
    with caplog.at_level(logging.WARNING):
        hypervisor.watch(loaded)
    assert "Driver bad can't watch its hypervisor" in caplog.text
    assert str(error) in caplog.text
    assert good.tell is not None
    good.tell("it is gone")
    loop.run_jobs()
    assert hypervisor.lost == {"good": "it is gone"}


def test_a_driver_that_opens_later_is_watched_from_then_on() -> None:
    late = Watching()
    loaded = LoadedDriver.from_driver("late", late)
    loaded.opening.failed = RuntimeError("not yet")
    Hypervisor(SimpleNamespace(), Loop()).watch([loaded])  # type: ignore[arg-type]
    assert late.tell is None and loaded.opening.then is not None
    loaded.opening.then()
    assert late.tell is not None


class Rack(Idle):
    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        provider_tree.update_inventory(nodename, {"VCPU": {"total": 8}})

    def watch(self, notify: Notify) -> None:
        self.notify = notify


def test_one_node_that_is_lost_takes_no_guests_until_it_is_back(placement: FakePlacement) -> None:
    driver, loop = Rack(["node1", "node2"]), Loop()
    agent = Agent(placement, named={"rack": driver})
    agent.nodes.period(0.0, disabled=False)
    status: Any = SimpleNamespace()
    Hypervisor(status, loop, lost_nodes=agent.nodes.lost).watch(agent.nodes.drivers)

    def disabled(now: float, *, host: bool = False) -> list[str]:
        loop.run_jobs()
        reports = agent.nodes.period(now, disabled=host)
        assert all(report.ok for report in reports)
        illness = {report.node: report.texts(Severity.DEGRADED) for report in reports}
        expected = ["hypervisor: its BMC is gone"]
        assert illness == {"node1": [], "node2": expected if agent.nodes.lost else []}
        roots = agent.nodes.trackers.values()
        traits = {each.node: placement.stranger.traits(each.uuid) for each in roots}
        return [node for node, has in traits.items() if "COMPUTE_STATUS_DISABLED" in has]

    driver.notify("its BMC is gone", "node2")
    assert disabled(60.0) == ["node2"] and agent.nodes.any_disabled() is False
    agent.nodes.switch(61.0, disabled=True)
    agent.nodes.switch(62.0, disabled=False)
    lost = next(each.uuid for each in agent.nodes.trackers.values() if each.node == "node2")
    assert "COMPUTE_STATUS_DISABLED" in placement.stranger.traits(lost)
    assert disabled(120.0) == ["node2"], "the host is enabled, the node is still lost"
    driver.notify(None, "node2")
    assert disabled(180.0) == []
    assert disabled(240.0, host=True) == ["node1", "node2"]


def test_a_lost_node_that_is_named_again_after_it_vanished_is_back(placement) -> None:
    driver = Rack(["node1", "node2"])
    agent = Agent(placement, named={"rack": driver})
    agent.nodes.lost["node2"] = "its BMC is gone"
    for now, names in enumerate((["node1", "node2"], ["node1"], ["node1", "node2"])):
        driver.nodes = names
        reports = agent.nodes.period(60.0 * now, disabled=False)
    assert not any(report.texts(Severity.DEGRADED) for report in reports) and not agent.nodes.lost
    assert agent.nodes.any_disabled() is False
