"""When a root is looked at again: at random, and more rarely while Placement does not answer.

Ten thousand hosts have nothing in common but the events that move them all: a power failure,
an upgrade, a Placement that was away.  Here is what makes each forget such a moment: the time
between two looks is spread over a whole interval, so that one round after it nothing is left
of the common beginning.  Pure: ``now`` is in seconds of a monotonic clock.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

SPREAD = 0.5
"""A look comes up to this part of the interval earlier or later.  Half of it to both sides is the
least that leaves no comb: where hosts began together, the next round is spread evenly."""
REST = 1.1
"""Periods for which one who has something to write rests: every second one passes."""
LONGEST = 5
"""Periods between two tries, on average, of those who have nothing to write, once Placement is
long away."""


VERIFY_EVERY, AUDIT_EVERY, PERIOD = 600, 259200, 60
"""Seconds, where nobody configures them: the agent's options and the library's defaults."""
AT_ONCE = 4
"""Requests sent at the same time, likewise."""


def doubled(first: float, times: int, longest: float) -> float:
    """``first``, doubled so many times, and at most ``longest``.

    >>> doubled(1.0, 3, 60.0), doubled(1.0, 99, 60.0)
    (8.0, 60.0)
    """
    return min(longest, first * 2.0 ** min(times, 16))


@dataclass(frozen=True, slots=True)
class Times:
    """In seconds, ``None`` for never; ``at_once`` operations are sent at the same time.

    ``pause`` waits between two tries after a conflict, if it is not to be slept.
    ``period`` is how often somebody who may look does so.
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
    """Before that Placement is left alone, unless an operator wants something."""
    silent: int = 0
    """Tries in a row that got no answer."""
    uniform: Callable[[float, float], float] = random.uniform

    def is_due(self, now: float, times: Times) -> bool:
        """Whether it is time for a verification, or for an audit."""
        return now >= self.verify_at or self.audits(now, times)

    def audits(self, now: float, times: Times) -> bool:
        """Whether it is time for an audit.  The first comes after half an interval or later."""
        if self.audit_at is None:
            self.audit_at = now + self._spread(times.audit_every)
        return now >= self.audit_at

    def verified(self, now: float, times: Times) -> None:
        """Note that the view was verified."""
        if self.audits(now, times):
            self.audit_at = now + self._spread(times.audit_every)
        self.verify_at = now + self._spread(times.verify_every)

    def reset(self, now: float, times: Times) -> None:
        """The times were changed, for many hosts at once maybe."""
        wait = times.verify_every
        self.verify_at = now + (inf if wait is None else self.uniform(0.0, wait))
        self.audit_at = None

    def answered(self) -> None:
        """Note that Placement answered."""
        self.silent, self.rest_until = 0, -inf

    def unanswered(self, now: float, times: Times, *, certain: bool) -> None:
        """Note that Placement did not answer.  ``certain``: nothing has to be read or written now.

        A root with pending writes, or without a certain view, retries at the next period, then
        at every second one; the first gap is random, so that hosts that failed together spread
        out.  Any other root waits longer each time.
        """
        pause = doubled(times.period, self.silent, times.period * LONGEST)
        if certain:
            self.verify_at = now + self._spread(pause)
        elif self.silent:
            skips = self.rest_until > -inf or self.uniform(0.0, 1.0) < 0.5
            self.rest_until = now + times.period * (REST if skips else 0.0)
        self.silent += 1

    def is_resting(self, now: float) -> bool:
        """Whether Placement is to be left alone."""
        return now < self.rest_until

    def may_wait_for_period(self, now: float, times: Times) -> bool:
        """Whether who tries again may wait for a period: the next that does not rest does it.

        Where none has come in time, as without a driver that names the nodes, he has to.
        """
        return now < self.rest_until + times.period

    def _spread(self, every: float | None) -> float:
        return inf if every is None else every * self.uniform(1 - SPREAD, 1 + SPREAD)
