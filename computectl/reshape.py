"""``computectl reshape``: do the reshape that a driver waits for."""

import argparse
import time
from dataclasses import dataclass, field

from agent.reporting.reports import Report
from computectl.forecast.forecast import Forecast, SavedStatus, forecast, open_nodes
from computectl.plan import draw_plan, plan_table
from computectl.shared.command_session import Session
from computectl.shared.commands import DrawnOrListed, Table, argument
from computectl.shared.errors import NOT_WELL
from computectl.shared.screen import Screen


@dataclass(frozen=True, slots=True)
class Reshaped:
    """The plan of a reshape, and its reports if it was done."""

    planned: list[Forecast]
    reports: list[Report] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """Return what prevents the reshape, or failed."""
        planned = [f"{one.node}: {text}" for one in self.planned for text in one.problems]
        told = (f"{one.node}: {text}" for one in self.reports for text in one.texts())
        return [*planned, *(text for text in told if text not in planned)]


class Reshape(DrawnOrListed[Reshaped]):
    """Move inventory together with its allocations, for a driver that waits for it.

    Runs one period in which a reshape is allowed; nothing is done if it would fail. The
    agent may be running: it sees what was changed at its next verification, or when it
    writes next.
    """

    drawn = "words"
    examples = """\
  computectl reshape --plan     what would be moved, in words and as the exact calls
  computectl reshape            do it
"""
    arguments = (argument("--plan", action="store_true", help="only show what would be done"),)

    def execute(self, session: Session, options: argparse.Namespace) -> Reshaped:
        """Look first; do it if nothing is in the way."""
        own = session.compute_id()
        if own is None and not session.settings.rules.attached:
            raise session.no_compute_id()
        plan = forecast(session, at_start=True, holding=True)
        only_planned = Reshaped(plan)
        if options.plan or only_planned.problems or not any(one.calls for one in plan):
            return only_planned
        api = session.placement(writing=True)
        with open_nodes(session, own or "", api, holding=True) as nodes:
            disabled = SavedStatus.from_session(session).disabled
            return Reshaped(plan, nodes.period(time.monotonic(), disabled=disabled))

    def draw(self, answer: Reshaped, screen: Screen, options: argparse.Namespace) -> str:
        plan = draw_plan(answer.planned, screen, calls=options.plan)
        done = [f"{one.node}: done: {one.changes() or 'nothing'}" for one in answer.reports]
        return "\n\n".join([plan, *done])

    def table(self, answer: Reshaped) -> Table:
        return plan_table(answer.planned)

    def exit_code(self, answer: Reshaped, options: argparse.Namespace) -> int:  # noqa: ARG002
        """Whether all went well."""
        for text in answer.problems:
            self.print_on_stderr(text)
        return NOT_WELL if answer.problems else 0
