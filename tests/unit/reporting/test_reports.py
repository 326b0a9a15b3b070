"""Errors of Placement as the agent and the commands print them: with their next step."""

from __future__ import annotations

import pytest

from agent.reporting.reports import Report, with_agents_step
from reportclient.errors import AuthenticationFailed, Conflict, Forbidden, NameTaken
from reportclient.plan import Plan

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
    assert [str(each) for each in Report("host1", error=error).conditions().values()] == [text]


@pytest.mark.parametrize(("name", "adopts"), [("host1", True), ("host1_disk", False)])
def test_only_the_root_whose_name_is_taken_can_be_adopted(name: str, adopts: bool) -> None:
    failed = {CHILD: NameTaken("Placement already has it.")}
    report = Report("host1", plan=Plan(names={CHILD: name}), failed=failed)
    [condition] = report.conditions().values()
    assert condition.text.endswith("computectl adopt host1.") is adopts
