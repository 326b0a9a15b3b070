"""Who exports numbers hears each period and each switch once, and can tell them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agent.reporting.reports import Occasion, Report
from tests.agents import Agent, Small, inventory
from tests.unit.test_service_switch import service_of


class Numbers:
    """A listener as CONTRIBUTING.rst has it: counts what was done, by what it was."""

    def __init__(self) -> None:
        self.done: Counter[Occasion] = Counter()
        self.calls: Counter[Occasion] = Counter()
        self.seconds = 0.0
        self.failed: Counter[str] = Counter()

    def __call__(self, reports: Sequence[Report]) -> None:
        for report in reports:
            self.done[report.occasion] += 1
            self.calls[report.occasion] += report.calls
            self.seconds += report.seconds
            if report.occasion is Occasion.PERIOD:  # a switch repeats what the period found
                self.failed.update(report.driver_errors.keys())


def test_a_switch_is_no_second_period() -> None:
    errors = {"libvirt": ValueError("no disk")}
    service, _ = service_of(Report("node", calls=3, seconds=2.0, driver_errors=errors))
    numbers = Numbers()
    service.listeners.append(numbers)
    service.period()
    service.after_switch([Report("node", Occasion.SWITCH, seconds=0.5, calls=1)])
    service.period()
    assert numbers.done == {Occasion.PERIOD: 2, Occasion.SWITCH: 1}
    assert numbers.calls == {Occasion.PERIOD: 6, Occasion.SWITCH: 1}
    assert numbers.seconds == 4.5
    assert numbers.failed == {"libvirt": 2}


def test_a_report_of_real_roots_says_what_it_was_and_how_long_it_took(any_placement) -> None:
    agent = Agent(any_placement, Small(inventory()))
    (period,) = agent.nodes.period(agent.now, disabled=False)
    (switch,) = agent.nodes.switch(agent.now, disabled=True)
    assert (period.occasion, switch.occasion) == (Occasion.PERIOD, Occasion.SWITCH)
    assert period.seconds > 0 and switch.seconds > 0
