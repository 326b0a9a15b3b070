"""Who exports numbers hears each period and each switch once, and can tell them apart."""

from __future__ import annotations

from agent.reporting.reports import Occasion, Report
from tests.agents import Agent, Small, inventory
from tests.unit.test_service_switch import service_of


def test_a_switch_is_no_second_period() -> None:
    service, _ = service_of(Report("node", calls=3))
    heard: list[Report] = []
    service.listeners.append(heard.extend)
    service.period()
    service.after_switch([Report("node", Occasion.SWITCH, calls=1)])
    service.period()
    period, switch = (Occasion.PERIOD, 3), (Occasion.SWITCH, 1)
    assert [(each.occasion, each.calls) for each in heard] == [period, switch, period]


def test_a_report_of_real_roots_says_what_it_was_and_how_long_it_took(any_placement) -> None:
    agent = Agent(any_placement, Small(inventory()))
    (period,) = agent.nodes.period(agent.now, disabled=False)
    (switch,) = agent.nodes.switch(agent.now, disabled=True)
    assert (period.occasion, switch.occasion) == (Occasion.PERIOD, Occasion.SWITCH)
    assert period.seconds > 0 and switch.seconds > 0
