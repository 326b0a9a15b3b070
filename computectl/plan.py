"""``computectl plan``: what the agent's next period would change, without doing it."""

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

from agent.nodes.identity import FILE_NAME
from computectl.forecast.forecast import MADE_UP, Call, Forecast, forecast
from computectl.forecast.wording import Wording
from computectl.shared.command_session import Session
from computectl.shared.commands import DrawnOrListed, Table, argument
from computectl.shared.errors import CHANGES, NOT_WELL
from computectl.shared.screen import Screen, counted, filled
from reportclient.plain_text import plain

COLUMNS = ("node", "kind", "provider", "method", "path", "body")
WORDS_INDENT, CALL_INDENT = "  ", "      "


class ShowPlan(DrawnOrListed[list[Forecast]]):
    """Show what the next period of compute-agent would change in Placement.

    The configured drivers are loaded and asked as by the agent; Placement is only read.
    Exits with 1 if that period would not succeed.
    """

    drawn = "words"
    examples = """\
  computectl plan               in words, and as the calls to Placement
  computectl plan --no-calls    in words only
  computectl plan --at-start    with what the agent does at its start only: a reshape
  computectl plan --exit-code   exits with 3 if there is something to change
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

    def execute(self, session: Session, options: argparse.Namespace) -> list[Forecast]:
        """Return each node's forecast."""
        answer = forecast(session, at_start=options.at_start)
        if session.compute_id() is None and not session.settings.rules.attached:
            self.print_on_stderr(
                f"no {FILE_NAME} in {session.settings.state_path} yet: compute-agent makes one "
                f"at its first start; until then {MADE_UP} stands in its place"
            )
        return answer

    def draw(self, answer: list[Forecast], screen: Screen, options: argparse.Namespace) -> str:
        return draw_plan(answer, screen, calls=options.calls)

    def table(self, answer: list[Forecast]) -> Table:
        return plan_table(answer)

    def exit_code(self, answer: list[Forecast], options: argparse.Namespace) -> int:
        """Not well beats changes."""
        for planned in answer:
            for text in planned.problems:
                self.print_on_stderr(f"{planned.node}: {text}")
            if planned.reshape_pending:
                self.print_on_stderr(f"{planned.node}: {PENDING}")
            for note in planned.notes:
                self.print_on_stderr(note)
        if any(planned.problems for planned in answer):
            return NOT_WELL
        changes = any(planned.calls for planned in answer)
        return CHANGES if changes and options.exit_code else 0


PENDING = (
    "a reshape is done at the start of compute-agent, or at any time with [compute] "
    "reshape_when_running; `computectl plan --at-start` shows it"
)


def draw_plan(answer: list[Forecast], screen: Screen, *, calls: bool) -> str:
    """In words, node by node, each change with its call if ``calls``."""
    return "\n\n".join("\n".join(_lines(planned, screen, calls=calls)) for planned in answer)


def plan_table(answer: list[Forecast]) -> Table:
    """A row for each call."""
    return COLUMNS, [_row(planned, call) for planned in answer for call in planned.calls]


def _lines(planned: Forecast, screen: Screen, *, calls: bool) -> Iterator[str]:
    name = f"{screen.paint(plain(planned.node), 'bold')} ({planned.uuid})"
    if not planned.calls:
        but = ", but not all is well" if planned.problems else ""
        yield f"{name}: nothing would change{but}"
        return
    yield f"{name}: {counted(len(planned.calls), 'change')}"
    words = Wording(planned.plan, planned.before, screen.branches.arrow)
    for call in planned.calls:
        if calls:
            yield ""
        yield filled(words.sentence(call.operation), screen.width, WORDS_INDENT)
        if calls:
            yield from _call(call, screen)


def _call(call: Call, screen: Screen) -> Iterator[str]:
    yield f"{CALL_INDENT}{call.method} {call.path}"
    if call.body is not None:
        yield from json_lines(call.body, CALL_INDENT, screen.width)


def json_lines(value: Any, indent: str, width: int) -> Iterator[str]:
    """JSON in few lines, broken only between its pieces, so that it stays JSON."""
    line = indent
    for piece in map(str.strip, json.dumps(value, indent=1).splitlines()):
        longer = f"{line} {piece}" if line.endswith(",") else line + piece
        if len(longer) > width and line.strip():
            yield line
            line = f"{indent}  {piece}"
        else:
            line = longer
    yield line


def _row(planned: Forecast, call: Call) -> Sequence[Any]:
    operation = call.operation
    uuid = getattr(operation, "uuid", None)
    words = Wording(planned.plan, planned.before)
    provider = words.name(uuid) if uuid else None
    kind = type(operation).__name__
    return planned.node, kind, provider, call.method, call.path, call.body
