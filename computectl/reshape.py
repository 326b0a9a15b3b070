"""``computectl reshape``: do a reshape that a driver has requested."""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.reporting.reports import Report
from computectl.plan import draw_plan, plan_table
from computectl.reading.forecast import Forecast, forecast, open_nodes, saved_disabled
from computectl.shared.commands import DrawnOrListed, Table, argument
from computectl.shared.errors import PROBLEMS
from computectl.shared.screen import Screen, folded
from reportclient.plain_text import plain


@dataclass(frozen=True, slots=True)
class Reshaped:
    """The plan of a reshape, and its reports if it was done."""

    planned: list[Forecast]
    reports: list[Report] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """Return what prevents the reshape, or failed."""
        planned = [f"{plan.node}: {text}" for plan in self.planned for text in plan.problems]
        reported = (f"{report.node}: {text}" for report in self.reports for text in report.texts())
        return [*planned, *(text for text in reported if text not in planned)]


class Reshape(DrawnOrListed[Reshaped]):
    """Do a pending reshape: move inventory together with its allocations.

    Runs one period in which a reshape is allowed; writes nothing if the plan has errors. The
    agent may be running: it notices the change at its next verification or write.
    """

    examples = """\
  computectl reshape --plan     show the changes and the exact calls
  computectl reshape            do the reshape
"""
    arguments = (argument("--plan", action="store_true", help="only show the plan"),)

    def execute(self, options: argparse.Namespace) -> Reshaped:
        """Plan the period; do it unless there are problems, no changes, or ``--plan``."""
        session = self.session()
        own = session.compute_id()
        if own is None and not session.settings.rules.attached:
            raise session.no_compute_id()
        plan = forecast(session, at_start=True, holding=True)
        only_planned = Reshaped(plan)
        if options.plan or only_planned.problems or not any(node.calls for node in plan):
            return only_planned
        api = session.placement(writing=True)
        with open_nodes(session, own or "", api, holding=True) as nodes:
            disabled, _ = saved_disabled(session)
            return Reshaped(plan, nodes.period(time.monotonic(), disabled=disabled))

    def draw(self, answer: Reshaped, screen: Screen, options: argparse.Namespace) -> Iterator[str]:
        yield from draw_plan(answer.planned, screen, calls=options.plan)
        for report in answer.reports:
            yield ""
            yield folded(f"{plain(report.node)}: {plain(report.sentence())}", screen.width)

    def table(self, answer: Reshaped) -> Table:
        return plan_table(answer.planned)

    def exit_code(self, answer: Reshaped, options: argparse.Namespace) -> int:  # noqa: ARG002
        """Print the problems; return 1 if there are any."""
        for text in answer.problems:
            self.print_on_stderr(text)
        return PROBLEMS if answer.problems else 0
