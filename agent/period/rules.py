"""How the operator wants a root to be reported."""

from collections.abc import Callable
from dataclasses import dataclass

from reportclient.pace import Times


@dataclass(frozen=True, slots=True)
class Rules:
    """Times in seconds, ``None`` for never; ``at_once`` operations sent at the same time,
    ``nodes_at_once`` nodes reported at the same time.  ``remove_after``: how long a node
    that vanished has to be gone before its provider is removed.
    """

    owner_traits: tuple[str, ...]
    """Set on what is ours: see ``traits.own_marks`` for those that tell that it is."""
    verify_every: float | None = 300.0
    audit_every: float | None = 86400.0
    reshape_when_running: bool = False
    at_once: int = 1
    nodes_at_once: int = 8
    remove_after: float | None = 900.0
    attached: bool = False
    """The roots are another service's."""
    remove_child_after: float | None = 900.0
    """How long a child that left such a root has to be out of its tree before it is removed."""

    pause: Callable[[float], None] | None = None
    """Waits between two tries after a conflict, if it is not to be slept."""
    period: float = 60.0
    """Seconds between two periods."""

    @property
    def child_wait(self) -> float | None:
        """``None`` for ever; two refreshes of the owner's, if its options are ours, and more."""
        if self.remove_child_after is None or self.verify_every is None:
            return None
        return max(self.remove_child_after, 2.5 * self.verify_every)

    @property
    def times(self) -> Times:
        """What of it the report client has to know."""
        return Times(self.verify_every, self.audit_every, self.at_once, self.pause, self.period)
