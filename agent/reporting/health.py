"""The health of each part of the agent, for status file, commands and probes.

Also whether the agent's process is alive, which is read from /proc.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agent.reporting.conditions import Check
from agent.reporting.reports import Report
from agent.reporting.status_schema import NO_RPC, SERVING, ServiceFacts
from reportclient.errors import PlacementError
from reportclient.plain_text import error_text

LATE_AFTER = 3
"""Number of intervals without a finished period after which an agent counts as stuck."""


def checks(
    reports: Sequence[Report], facts: ServiceFacts, disk: Iterable[str]
) -> tuple[Check, ...]:
    """Return the health of each part.

    ``reports`` are those of the last period, ``disk`` the reasons why files of ``state_path`` can't
    be written.
    """
    wrong = {
        "placement": (error_text(r.error) for r in reports if isinstance(r.error, PlacementError)),
        "drivers": _of_drivers(reports),
        "hypervisor": _some(facts.hypervisor),
        "registry": _some(facts.registry),
        "broker": _some(None if facts.rpc in (None, SERVING, NO_RPC) else facts.rpc),
        "disk": disk,
        "nodes": (f"{r.node} is not reported fully" for r in reports if not r.ok),
    }
    return tuple(Check(name, _first(texts)) for name, texts in wrong.items())


def stuck(updated: float, interval: float | None, now: float) -> str | None:
    """Return a text if the agent is stuck, else ``None``; times in seconds since the epoch."""
    age = max(0.0, now - updated)
    if interval and age > LATE_AFTER * interval:
        return f"stuck: no period has ended for {ago(age)}; see the log"
    return None


def ago(seconds: float) -> str:
    """Format a duration: ``90 s``, ``5 min``, ``3 h``, ``12 d``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} d"


def _of_drivers(reports: Sequence[Report]) -> Iterator[str]:
    for report in reports:
        for name, err in report.driver_errors.items():
            yield f"driver {name}: {error_text(err)}"


def _some(text: str | None) -> Iterator[str]:
    if text:
        yield text


def _first(texts: Iterable[str]) -> str:
    """Return the first text and the number of other distinct ones; empty without texts."""
    distinct = list(dict.fromkeys(" ".join(text.split()) for text in texts))
    more = f" (and {len(distinct) - 1} more)" if distinct[1:] else ""
    return f"{distinct[0]}{more}" if distinct else ""


ENDED = -1
"""The start time of a process that has ended."""
_DEAD = frozenset("ZX")


def started_at(pid: int) -> int | None:
    """Return when the process began, in clock ticks since boot; with the pid that identifies it.

    ``None`` if that can't be read, ``ENDED`` for a zombie.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The second field is the program's name, and may hold spaces and parentheses.
        fields = text.rpartition(")")[2].split()
        return ENDED if fields[0] in _DEAD else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def lives(pid: int, started: int | None) -> bool:
    """Return whether the process runs, and began at ``started``: pids are used again."""
    if None not in (now := started_at(pid), started) and now != started:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
