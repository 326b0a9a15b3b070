"""When a root is read again: at random intervals, and more rarely while Placement is away.

After a power failure or an upgrade, thousands of hosts start at the same moment.  Intervals are
spread so widely that one round later their requests are evenly distributed.  All times are in
seconds; ``now`` is of a monotonic clock.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

SPREAD = 0.5
"""An interval is up to this part shorter or longer.  With half to both sides, requests of hosts
that started together are spread evenly over the next round; with less, peaks remain."""
REST = 1.02
"""Periods for which a root with pending writes rests, so that it skips every second period: the
hosts of a fleet then try evenly over two periods, and all of them within two after an outage."""
LONGEST = 5
"""Maximum periods between two tries, on average, of a root without pending writes while Placement
does not answer."""


VERIFY_EVERY, AUDIT_EVERY, PERIOD = 600, 259200, 60
"""Default intervals in seconds."""
AT_ONCE = 4
"""Default number of requests sent in parallel."""


def doubled(first: float, times: int, longest: float) -> float:
    """Return ``first`` doubled ``times`` times, and at most ``longest``.

    >>> doubled(1.0, 3, 60.0), doubled(1.0, 99, 60.0)
    (8.0, 60.0)
    """
    return min(longest, first * 2.0 ** min(times, 16))


@dataclass(frozen=True, slots=True)
class Times:
    """How often a root is read, and how operations are sent.

    ``verify_every`` and ``audit_every``: mean seconds between verifications (1 GET) and audits
    (everything is read); ``None``: never.  ``at_once``: requests sent in parallel.  ``pause``:
    called with the seconds to wait between two tries after a conflict, instead of
    :func:`time.sleep`.  ``period``: seconds between two attempts of the caller.
    """

    verify_every: float | None = VERIFY_EVERY
    audit_every: float | None = AUDIT_EVERY
    at_once: int = 1
    pause: Callable[[float], None] | None = None
    period: float = PERIOD


@dataclass(slots=True)
class Schedule:
    """The schedule of one root."""

    verify_at: float = 0.0
    audit_at: float | None = None
    rest_until: float = -inf
    """Until when nothing is sent, except for urgent requests."""
    hold_until: float = -inf
    """Until when nothing is sent at all: Placement asked for it (``Retry-After``)."""
    silent: int = 0
    """Number of tries in a row without an answer."""
    uniform: Callable[[float, float], float] = random.uniform

    def is_due(self, now: float, times: Times) -> bool:
        """Return whether a verification or an audit is due."""
        return now >= self.verify_at or self.audits(now, times)

    def audits(self, now: float, times: Times) -> bool:
        """Return whether an audit is due.  The first comes after half an interval or later."""
        if self.audit_at is None:
            self.audit_at = now + self._spread(times.audit_every)
        return now >= self.audit_at

    def verified(self, now: float, times: Times) -> None:
        """Note that the view was verified."""
        if self.audits(now, times):
            self.audit_at = now + self._spread(times.audit_every)
        self.verify_at = now + self._spread(times.verify_every)

    def reset(self, now: float, times: Times) -> None:
        """Draw new random times after the intervals were changed, maybe on many hosts at once."""
        wait = times.verify_every
        self.verify_at = now + (inf if wait is None else self.uniform(0.0, wait))
        self.audit_at = None

    def answered(self) -> None:
        """Note that Placement answered."""
        self.silent, self.rest_until, self.hold_until = 0, -inf, -inf

    def unanswered(self, now: float, times: Times, *, pending: bool) -> None:
        """Note that Placement did not answer.  ``pending``: a write, or a read that it needs.

        A root with pending writes retries at the next period, then at every second one; the first
        gap is random, so that hosts that failed together spread out.  It is not verified before it
        is written.  Any other root waits longer each time.
        """
        longest = times.period * LONGEST
        if not pending:
            self.verify_at = now + self._spread(doubled(times.period, self.silent, longest))
            self.silent += 1
            return
        self.verify_at = max(self.verify_at, now + self._spread(longest))
        if self.silent:
            skips = self.rest_until > -inf or self.uniform(0.0, 1.0) < 0.5
            self.rest_until = now + times.period * (REST if skips else 0.0)
        self.silent += 1

    def is_resting(self, now: float, *, urgent: bool = False) -> bool:
        """Return whether nothing is sent now; ``urgent`` requests end a rest, but no hold."""
        return now < self.hold_until or (now < self.rest_until and not urgent)

    def may_wait_for_period(self, now: float, times: Times) -> bool:
        """Return whether a retry between periods can be left to the next period.

        It is false once a whole period has passed after the rest without one, as when no driver
        lists the nodes: then the caller has to retry itself.
        """
        return now < self.rest_until + times.period

    def _spread(self, every: float | None) -> float:
        return inf if every is None else every * self.uniform(1 - SPREAD, 1 + SPREAD)
