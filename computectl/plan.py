"""``computectl plan``: what the agent's next period would change in Placement; writes nothing."""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from agent.nodes.identity import FILE_NAME
from agent.reporting.changes import kind, summary
from agent.reporting.condition import Severity
from computectl.drawing.sentences import name_of, sentence
from computectl.reading.forecast import PLACEHOLDER, Call, Forecast, forecast
from computectl.shared.commands import Columns, DrawnOrListed, Table, argument
from computectl.shared.errors import CHANGES, PROBLEMS
from computectl.shared.screen import Screen, counted, folded, packed
from reportclient.plain_text import plain

COLUMNS: Columns = {
    "node": lambda row: row[0].node,
    "kind": lambda row: kind(row[1].operation),
    "provider": lambda row: _provider(*row),
    "method": lambda row: row[1].method,
    "path": lambda row: row[1].path,
    "body": lambda row: row[1].body,
}
"""Rows are a node's forecast and one of its calls."""
CALL_INDENT = "      "
SIGNS = {"create": ("+", "green"), "ensure": ("+", "green"), "delete": ("-", "red")}
"""Signs and colours by the first word of an operation's kind; else ``CHANGE``."""
CHANGE = ("~", "yellow")


class ShowPlan(DrawnOrListed[list[Forecast]]):
    """Show what the next period of compute-agent would change in Placement.

    The configured drivers are loaded and queried as by the agent; Placement is only read.
    Exits with 1 if that period would not succeed.
    """

    examples = """\
  computectl plan               each change as a sentence and as the call to Placement
  computectl plan --no-calls    each change as a sentence
  computectl plan --at-start    the first period after a start, which may do a reshape
  computectl plan --exit-code   exits with 3 if there are changes
  computectl plan -f json       a row for each call, for programs
"""
    arguments = (
        argument(
            "--calls",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="show the calls to Placement below each change",
        ),
        argument(
            "--at-start",
            action="store_true",
            help="plan the first period after a start, in which a reshape is allowed",
        ),
        argument(
            "--exit-code",
            action="store_true",
            help=f"exit with {CHANGES} if there would be changes and no errors",
        ),
    )

    def execute(self, options: argparse.Namespace) -> list[Forecast]:
        session = self.session()
        answer = forecast(session, at_start=options.at_start)
        if session.compute_id() is None and not session.settings.rules.attached:
            self.print_on_stderr(
                f"{session.settings.state_path} has no {FILE_NAME} yet: compute-agent creates it "
                f"at its first start; this plan uses {PLACEHOLDER} instead"
            )
        return answer

    def draw(
        self, answer: list[Forecast], screen: Screen, options: argparse.Namespace
    ) -> Iterator[str]:
        return draw_plan(answer, screen, calls=options.calls)

    def table(self, answer: list[Forecast]) -> Table:
        return COLUMNS, [(planned, call) for planned in answer for call in planned.calls]

    def exit_code(self, answer: list[Forecast], options: argparse.Namespace) -> int:
        """Print problems and notes; return 1 with problems, 3 with changes if asked for, else 0."""
        for planned in answer:
            for text in planned.sentences(Severity.ERROR):
                self.print_on_stderr(f"{planned.node}: {text}")
            if planned.reshape_pending:
                self.print_on_stderr(f"{planned.node}: {PENDING}")
            for text in planned.sentences(Severity.INFO):
                self.print_on_stderr(f"{planned.node}: waits for consumers: {text}")
            for note in planned.sentences(Severity.WARNING, Severity.DEGRADED):
                self.print_on_stderr(note)
        if any(planned.sentences(Severity.ERROR) for planned in answer):
            return PROBLEMS
        changes = any(planned.calls for planned in answer)
        return CHANGES if changes and options.exit_code else 0


PENDING = (
    "a reshape is pending: compute-agent does it at its next start, or while it runs with "
    "[compute] reshape_when_running; `computectl plan --at-start` shows it"
)


def draw_plan(answer: list[Forecast], screen: Screen, *, calls: bool) -> Iterator[str]:
    """Yield the plan as text: for each node its changes, with their calls if ``calls``."""
    for planned in answer:
        if planned is not answer[0]:
            yield ""
        name = f"{screen.paint(plain(planned.node), 'bold')} ({planned.uuid})"
        if not planned.calls:
            waits = planned.sentences(Severity.INFO)
            but = ", while consumers use what is to be removed" if waits else ""
            but = ", but there are errors" if planned.sentences(Severity.ERROR) else but
            yield folded(f"{name}: nothing would change{but}", screen.width)
            continue
        what = ""
        if planned.calls[1:]:
            written = [call.operation for call in planned.calls]
            what = f": {plain(summary(written, planned.plan.names, planned=True))}"
        yield folded(f"{name}: {counted(len(planned.calls), 'change')}{what}", screen.width, 4)
        for call in planned.calls:
            if calls:
                yield ""
            sign, colour = _sign(call)
            text = sentence(call.operation, planned.before, planned.plan.names)
            text = folded(f"{sign} {text}", screen.width)
            painted = text if sign == "-" else sign
            yield screen.paint(painted, colour) + text.removeprefix(painted)
            if calls:
                yield f"{CALL_INDENT}{call.method} {call.path}"
            if calls and call.body is not None:
                yield from json_lines(call.body, CALL_INDENT, screen.width)

    signs = Counter(_sign(call)[0] for planned in answer for call in planned.calls)
    if signs:
        words = {"+": "to create", "~": "to change", "-": "to delete"}
        yield ""
        yield f"Plan: {', '.join(f'{signs[sign]} {text}' for sign, text in words.items())}"


def _sign(call: Call) -> tuple[str, str]:
    return SIGNS.get(kind(call.operation).partition("_")[0], CHANGE)


def json_lines(value: Any, indent: str, width: int) -> Iterator[str]:
    """Yield a value as JSON on few lines, broken only between tokens."""
    tokens = "\n".join(map(str.strip, json.dumps(value, indent=1).splitlines()))
    pieces = tokens.replace(",\n", ",\n ").split("\n")
    return packed(pieces, width, f"{indent}  ", indent)


def _provider(planned: Forecast, call: Call) -> str | None:
    uuid = getattr(call.operation, "uuid", None)
    return name_of(uuid, planned.before, planned.plan.names) if uuid else None
