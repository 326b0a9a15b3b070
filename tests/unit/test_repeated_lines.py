"""Log lines that strangers can repeat: each reason once, then seldom, with a number."""

import logging

from agent.reporting import logs


class Limited(logging.Handler):
    """The lines of a logger whose repeated lines are left out, with a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.lines = 100.0, list[str]()
        self.log = logging.Logger("limited")  # noqa: LOG001  no other test has its filter
        self.log.addHandler(self)
        self.log.addFilter(logs.RepeatFilter(300.0, lambda: self.now))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def refuse(self, reason: str, times: int = 1) -> None:
        for _ in range(times):
            self.log.warning("Refused a call: %s", reason)

    def logged(self) -> list[str]:
        """Since the last call."""
        lines, self.lines = self.lines, []
        return lines


def test_a_reason_is_logged_once_then_with_the_number_left_out() -> None:
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


def test_a_pause_before_the_next_try_is_no_part_of_the_reason() -> None:
    limited = Limited()
    for seconds in (1.0, 3.0, 30):
        limited.log.error("Connection failed: %s (retrying in %s seconds)", "refused", seconds)
    limited.log.error("Connection failed: %s (retrying in %s seconds)", "no route", 1.0)
    assert limited.logged() == [
        "Connection failed: refused (retrying in 1.0 seconds)",
        "Connection failed: no route (retrying in 1.0 seconds)",
    ]


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
    for hosts, error in [*((n, TypeError("bytes")) for n in range(100)), (100, TypeError("other"))]:
        limited.log.error("Heartbeats of %d hosts were not recorded", hosts, exc_info=error)
    assert limited.logged() == [
        "Heartbeats of 0 hosts were not recorded",
        "Heartbeats of 100 hosts were not recorded",
    ]
