"""Log lines: priorities and one time for the journal, and nothing forged in either."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys

import pytest

from agent.told import logs


def lines(*, journal: bool, level: int, message: str, error: BaseException | None = None):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.Lines(journal=journal))
    handler.handle(
        logging.LogRecord(
            "agent.x", level, "", 0, message, None, (type(error), error, None) if error else None
        )
    )
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("level", "mark"),
    [
        (logging.DEBUG, "<7>"),
        (logging.INFO, "<6>"),
        (logging.WARNING, "<4>"),
        (logging.ERROR, "<3>"),
        (logging.CRITICAL, "<2>"),
    ],
)
def test_the_journal_gets_a_priority_and_no_second_time(level: int, mark: str) -> None:
    name = logging.getLevelName(level)
    assert lines(journal=True, level=level, message="as it is") == [
        f"{mark}{name} agent.x as it is"
    ]


def test_elsewhere_a_line_has_the_time_and_no_priority() -> None:
    (line,) = lines(journal=False, level=logging.INFO, message="as it is")
    assert line.startswith("20")
    assert line.endswith(" INFO agent.x as it is")


@pytest.mark.parametrize("journal", [False, True])
def test_a_name_from_outside_forges_no_line(journal: bool) -> None:
    message = "root host\n<2>CRITICAL agent.x all is lost\x1b[2J\rcafé"
    (line,) = lines(journal=journal, level=logging.INFO, message=message)
    assert line.endswith(r"root host\n<2>CRITICAL agent.x all is lost\x1b[2J\rcafé")


@pytest.mark.parametrize("journal", [False, True])
def test_the_lines_of_a_traceback_are_set_in_and_have_the_same_priority(journal: bool) -> None:
    error = ValueError("bad\n2026-01-01 INFO agent.x forged\x1b")
    first, *rest = lines(journal=journal, level=logging.ERROR, message="failed", error=error)
    mark = "<3>" if journal else ""
    assert first.startswith(mark)
    assert rest == [
        f"{mark}  ValueError: bad",
        rf"{mark}  2026-01-01 INFO agent.x forged\x1b",
    ]


PROGRAM = """
import logging, os
from agent.told import logs
found = os.fstat(2)
os.environ["JOURNAL_STREAM"] = os.environ.get("STREAM") or f"{found.st_dev}:{found.st_ino}"
logs.start(logging.INFO)
logging.getLogger("agent.x").warning("well")
logs.complain("prog: one\\n  two\\x1b")
"""


@pytest.mark.parametrize(("stream", "is_journal"), [("", True), ("1:2", False)])
def test_it_is_the_journal_only_where_standard_error_is_its_stream(stream, is_journal) -> None:
    """A shell started by a service inherits the variable and writes elsewhere."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "STREAM": stream},
    )
    first, *rest = done.stderr.splitlines()
    assert first.startswith("<4>WARNING agent.x well") == is_journal
    mark = "<3>" if is_journal else ""
    assert rest == [f"{mark}prog: one", rf"{mark}  two\x1b"]
