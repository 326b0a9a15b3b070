"""Notices to subscribers of this host's status, and their threads."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.reporting.reports import Report


@dataclass(frozen=True, slots=True)
class Decided:
    """There may be something that the registry has yet to hear of."""


@dataclass(frozen=True, slots=True)
class Written:
    """The trait was written, or not: what came of it.  Published in the loop's thread."""

    reports: Sequence[Report]


@dataclass(frozen=True, slots=True)
class PeriodDone:
    """A period has ended, which writes the trait as well.  Published in the loop's thread."""

    reports: Sequence[Report]


@dataclass(frozen=True, slots=True)
class Serving:
    """From now on calls to this host can be answered."""


@dataclass(frozen=True, slots=True)
class FactsChanged:
    """The service's status, or its connection to broker or registry, has changed."""


@dataclass(frozen=True, slots=True)
class HeartbeatDone:
    """The registry has answered a heartbeat, or not: ``error``.  In the heartbeat's thread."""

    seconds: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Called:
    """A call over RPC was answered: ``ok``, ``refused`` or ``failed``.  In the server's thread."""

    method: str
    outcome: str
    seconds: float


Notice = Decided | Written | PeriodDone | Serving | FactsChanged | HeartbeatDone | Called
