"""Notices to the subscribers of this host's status, and the threads in which they are published."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.reporting.reports import Report


@dataclass(frozen=True, slots=True)
class Decided:
    """The status may have changed, and the registry may not have it yet."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing the trait.  Published in the loop's thread."""

    reports: Sequence[Report]


@dataclass(frozen=True, slots=True)
class PeriodDone:
    """A period has ended; it writes the trait, too.  Published in the loop's thread."""

    reports: Sequence[Report]


@dataclass(frozen=True, slots=True)
class Serving:
    """Calls to this host can be answered from now on."""


@dataclass(frozen=True, slots=True)
class FactsChanged:
    """The service's status, or its connection to broker or registry, has changed."""


@dataclass(frozen=True, slots=True)
class HeartbeatDone:
    """A heartbeat has ended; ``error``: why it failed.  Published in the heartbeat's thread."""

    seconds: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Called:
    """An RPC call was answered; ``outcome``: ``ok``, ``refused`` or ``failed``.

    Published in the RPC server's thread.
    """

    method: str
    outcome: str
    seconds: float


Notice = Decided | Written | PeriodDone | Serving | FactsChanged | HeartbeatDone | Called
