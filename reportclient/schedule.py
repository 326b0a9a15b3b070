"""Schedule of a root's reads: at random intervals, and more rarely while Placement is away.

After a power failure or an upgrade, thousands of hosts start at the same moment.  Intervals are
spread so widely that one round later their requests are evenly distributed.  All times are in
seconds; ``now`` is of a monotonic clock.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from reportclient.errors import (
    PASSING,
    InUse,
    PlacementError,
    Unreachable,
)

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
RETRY_REFUSED_EVERY = 300.0
"""Seconds until refused operations are sent again, if verification is switched off."""
RETRY_UNKNOWN_EVERY = 3600.0
"""Seconds after which newer features and names are tried again: Placement may be upgraded."""
LONGEST_HOLD = 300.0
"""Maximum wait for a ``Retry-After``, in seconds."""


def doubled(first: float, times: int, longest: float) -> float:
    """Return ``first`` doubled ``times`` times, and at most ``longest``.

    >>> doubled(1.0, 3, 60.0), doubled(1.0, 99, 60.0)
    (8.0, 60.0)
    """
    return min(longest, first * 2.0 ** min(times, 16))


@dataclass(frozen=True, slots=True)
class Times:
    """Intervals at which a root is read, and options for sending operations.

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

    @property
    def rest(self) -> float:
        """Seconds for which a root with pending writes rests: a period, if it is a short one."""
        return min(self.period, PERIOD)


def seconds_to_next_try(
    err: PlacementError,
    tries: int,
    times: Times,
    uniform: Callable[[float, float], float] = random.uniform,
) -> float:
    """Return the seconds until what met ``err`` is tried again, after ``tries`` earlier tries.

    - Silence (``Unreachable``), by which a whole root rests: it tries at the next period, then at
      every second one; the first gap is random, so that hosts that failed together spread out.
    - A server fault, a conflict, or consumers that use what is to be removed: the operation waits
      for a period, doubled each time up to a verification.
    - Any other refusal: the operation waits for the next verification.
    """
    if isinstance(err, (*PASSING, InUse)):
        return doubled(times.period, tries, times.verify_every or RETRY_REFUSED_EVERY)
    if not isinstance(err, Unreachable):
        return inf
    skips = tries > 1 or (tries == 1 and uniform(0.0, 1.0) < 0.5)
    return times.rest * REST if skips else 0.0


@dataclass(slots=True)
class Schedule:
    """Times at which a root is read, verified, and tried again while Placement is silent."""

    verify_at: float = 0.0
    audit_at: float = inf
    """Drawn by the first verification, so that it is half an interval or more later."""
    verified_at: float | None = None
    """Time at which the view was last compared with Placement; ``None``: never."""
    unreachable: Unreachable | None = None
    """The error if Placement did not answer the last request; without frames."""
    silent: int = 0
    """Number of tries in a row without an answer."""
    rest_until: float = -inf
    """Until when nothing is sent, except for urgent requests."""
    hold_until: float = -inf
    """Until when nothing is sent at all: Placement asked for it (``Retry-After``)."""
    uniform: Callable[[float, float], float] = random.uniform
    _done_at: dict[str, float] = field(default_factory=dict)

    def is_due(self, now: float) -> bool:
        """Return whether a verification or an audit is due."""
        return now >= min(self.verify_at, self.audit_at)

    def verified(self, now: float, times: Times, *, late: bool = False) -> None:
        """Note that the view was verified.

        ``late``: operations fail.  A read follows each of their tries, so that another one comes as
        late as a verification may.
        """
        if now >= self.audit_at or self.audit_at == inf:
            self.audit_at = now + self._spread(times.audit_every)
        every = times.verify_every
        self.verify_at = now + (every * (1 + SPREAD) if late and every else self._spread(every))
        self.verified_at = now
        self.unreachable = None

    def reset(self, now: float, times: Times) -> None:
        """Draw new random times after the intervals were changed, maybe on many hosts at once."""
        wait = times.verify_every
        self.verify_at = now + (inf if wait is None else self.uniform(0.0, wait))
        self.audit_at = now + self._spread(times.audit_every)

    def answered(self) -> None:
        """Note that Placement answered to the end of an attempt, or carried out a write."""
        self.unreachable, self.silent = None, 0
        self.rest_until = self.hold_until = -inf

    def unanswered(self, err: Unreachable, now: float, times: Times, *, pending: bool) -> None:
        """Note that Placement did not answer.  ``pending``: a write, or a read that it needs.

        A root with pending writes rests, and is not verified before it is written.  Any other root
        is verified later each time.
        """
        longest = times.period * LONGEST
        if not pending:
            self.verify_at = now + self._spread(doubled(times.period, self.silent, longest))
        else:
            self.verify_at = max(self.verify_at, now + self._spread(longest))
            if self.silent:
                wait = seconds_to_next_try(err, self.silent, times, self.uniform)
                self.rest_until = now + wait
        if err.retry_after:
            self.hold_until = now + min(err.retry_after * self.uniform(1, 1.5), LONGEST_HOLD)
        self.unreachable = err
        self.silent += 1

    def repeats(self, what: str, now: float, every: float) -> bool:
        """Return whether ``what`` was last done ``every`` seconds ago; then it is done now."""
        due = now >= self._done_at.get(what, -inf) + every
        if due:
            self._done_at[what] = now
        return due

    def waits_for(self, now: float, *, urgent: bool = False) -> Unreachable | None:
        """Return the error because of which nothing is sent now, or ``None``.

        ``urgent`` requests end a rest, but no hold.
        """
        waits = now < self.hold_until or (now < self.rest_until and not urgent)
        return self.unreachable if waits else None

    def may_wait_for_period(self, now: float, times: Times) -> bool:
        """Return whether a retry between periods can be left to the next period.

        It is false once a period, or a minute of a longer one, has passed after the rest without a
        try, as when no driver lists the nodes: then the caller has to retry itself.
        """
        return now < self.rest_until + times.rest

    def _spread(self, every: float | None) -> float:
        return inf if every is None else every * self.uniform(1 - SPREAD, 1 + SPREAD)
