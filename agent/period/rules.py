"""How the operator wants a root to be reported."""

from dataclasses import dataclass

from reportclient.schedule import Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules(Times):
    """The report client's times, and what the agent decides by; seconds, ``None`` for never."""

    owner_traits: tuple[str, ...]
    """Set on what is ours: see ``identifying_traits`` for those that tell that it is."""
    reshape_when_running: bool = False
    nodes_at_once: int = 8
    """So many nodes are reported at the same time."""
    remove_after: float | None = 900.0
    """How long a node that vanished has to be gone before its provider is removed."""
    attached: bool = False
    """The roots are another service's."""
    remove_child_after: float | None = 900.0
    """How long a child that left such a root has to be out of its tree before it is removed."""

    @property
    def node_wait(self) -> float | None:
        """``None``: nothing is removed.  Long enough for the service that took the node over to
        have put its tag there, if it is configured as this one.
        """
        return self._at_least(self.remove_after)

    @property
    def child_wait(self) -> float | None:
        """``None``: for ever.  Two refreshes of the owner's, if its options are ours, and more."""
        return self._at_least(self.remove_child_after)

    def _at_least(self, after: float | None) -> float | None:
        """Two verifications and more; where nothing is verified nobody would see who took over."""
        if after is None or self.verify_every is None:
            return None
        return max(after, 2.5 * self.verify_every)
