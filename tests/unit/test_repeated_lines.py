"""Log lines that strangers can repeat: each reason once, then seldom, with a number."""

from __future__ import annotations

import io
import logging

from agent.reporting import logs


class Limited:
    """A logger whose repeated lines are left out, with a clock."""

    def __init__(self) -> None:
        self.now, self.lines = 100.0, io.StringIO()
        self.log = logging.Logger("limited")  # noqa: LOG001  no other test has its filter
        self.log.addHandler(logging.StreamHandler(self.lines))
        self.log.addFilter(logs.RepeatFilter(300.0, lambda: self.now))

    def refuse(self, reason: str, times: int = 1) -> None:
        for _ in range(times):
            self.log.warning("Refused a call: %s", reason)

    def fail(self, error: Exception, hosts: int) -> None:
        try:
            raise error
        except Exception:
            self.log.exception("Heartbeats of %d hosts were not recorded", hosts)

    def logged(self) -> list[str]:
        """The lines without those of tracebacks, since the last call."""
        text = self.lines.getvalue()
        self.lines.seek(0)
        self.lines.truncate()
        return [line for line in text.splitlines() if line.startswith(("Refused", "Heartbeats"))]


def test_each_reason_is_logged_once_and_later_with_the_number_of_those_between() -> None:
    limited = Limited()
    limited.refuse("100% wrong", 1000)
    limited.refuse("not signed", 2)
    assert limited.logged() == ["Refused a call: 100% wrong", "Refused a call: not signed"]
    limited.now += 299
    limited.refuse("100% wrong")
    assert limited.logged() == []
    limited.now += 1
    limited.refuse("100% wrong", 2)
    assert limited.logged() == ["Refused a call: 100% wrong (1000 more since the last)"]


def test_any_number_of_reasons_fills_neither_the_log_nor_the_memory() -> None:
    limited = Limited()
    for number in range(10_000):
        limited.refuse(f"no method {number}")
    first = [f"Refused a call: no method {number}" for number in range(logs.REASONS + 1)]
    assert limited.logged() == first
    limited.now += 300
    for number in range(10_000):
        limited.refuse(f"still no method {number}")
    later = limited.logged()
    assert len(later) <= len(first)
    assert later[-1].endswith("(9979 more since the last)")


def test_an_error_with_its_traceback_is_logged_once_until_it_is_another() -> None:
    limited = Limited()
    for hosts in range(100):
        limited.fail(TypeError("bytes"), hosts)
    limited.fail(TypeError("other"), 7)
    assert limited.logged() == [
        "Heartbeats of 0 hosts were not recorded",
        "Heartbeats of 7 hosts were not recorded",
    ]
