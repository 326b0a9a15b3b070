"""Reports: errors of Placement with their next step, and what listeners are given."""

import pytest

from agent.reporting.condition import with_agents_step
from agent.reporting.reports import Occasion, Report
from reportclient.errors import AuthenticationFailed, Conflict, Forbidden, NameTaken
from reportclient.plan import Plan, SetTraits
from tests.agents import Agent, Small, inventory
from tests.reports import report_with
from tests.unit.test_service_switch import service_of

CHILD = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Forbidden("not allowed"), "not allowed; see [placement]"),
        (AuthenticationFailed("refused"), "refused; see [placement]"),
        (AuthenticationFailed("[placement] x is not set"), "[placement] x is not set"),
        (Conflict("changed meanwhile"), "changed meanwhile"),
    ],
)
def test_an_error_names_its_group_of_options_once(error: Exception, text: str) -> None:
    assert with_agents_step(error) == text
    [condition] = Report("host1").with_error(error).conditions
    assert condition.text == str(error) and condition.next_step


@pytest.mark.parametrize(("name", "adopts"), [("host1", True), ("host1_disk", False)])
def test_only_the_root_whose_name_is_taken_can_be_adopted(name: str, adopts: bool) -> None:
    failed = {CHILD: NameTaken("Placement already has it.")}
    [condition] = report_with(failed=failed, names={CHILD: name}).conditions
    assert condition.next_step.endswith("computectl adopt host1") is adopts


def test_a_switch_is_no_second_period() -> None:
    service, _ = service_of(Report("node", calls=3))
    heard: list[Report] = []
    service.listeners.append(heard.extend)
    service.period()
    service.after_switch([Report("node", Occasion.SWITCH, calls=1)])
    service.period()
    period, switch = (Occasion.PERIOD, 3), (Occasion.SWITCH, 1)
    assert [(each.occasion, each.calls) for each in heard] == [period, switch, period]


def test_a_switch_names_the_providers_of_its_own_plan() -> None:
    write = SetTraits(CHILD, frozenset())
    done = Report("node", Occasion.SWITCH, done=(write,), plan=Plan(names={CHILD: "host1"}))
    assert Report("node").with_switch(done).changes() == "set the traits of 1 provider (host1)"


def test_a_report_of_real_roots_says_what_it_was_and_how_long_it_took(any_placement) -> None:
    agent = Agent(any_placement, Small(inventory()))
    (period,) = agent.nodes.period(agent.now, disabled=False)
    (switch,) = agent.nodes.switch(agent.now, disabled=True)
    assert (period.occasion, switch.occasion) == (Occasion.PERIOD, Occasion.SWITCH)
    assert period.seconds > 0 and switch.seconds > 0
