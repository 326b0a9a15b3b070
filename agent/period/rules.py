"""The options that decide how a root is reported."""

from dataclasses import dataclass

from reportclient.schedule import Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules(Times):
    """The report client's times and the agent's options; seconds, ``None`` for never."""

    owner_traits: tuple[str, ...]
    """Traits set on this agent's roots; ``identifying_traits`` returns those that identify them."""
    images_excluded: frozenset[str] = frozenset()
    """Types of images, such as ``raw``, that this host does not accept whatever a driver says."""
    reshape_when_running: bool = False
    """Whether a reshape is also done after the start."""
    nodes_at_once: int = 8
    """Number of nodes reported at the same time."""
    remove_after: float | None = 900.0
    """Seconds after which the providers of a vanished node are removed."""
    attached: bool = False
    """Whether another service owns the roots (attach mode)."""
    remove_child_after: float | None = 900.0
    """Seconds between taking a child out of another service's tree and deleting it."""

    @property
    def node_wait(self) -> float | None:
        """Return the seconds before a vanished node is removed; ``None`` to keep it.

        Another service with the same options that took the node over has set its tag by then.
        """
        return self._at_least(self.remove_after)

    @property
    def child_wait(self) -> float | None:
        """Return the seconds before a child outside the tree is deleted; ``None`` to keep it.

        The owner of the root has refreshed its copy of the tree twice by then, if its
        ``resource_provider_association_refresh`` is the same.
        """
        return self._at_least(self.remove_child_after)

    def _at_least(self, after: float | None) -> float | None:
        """Return ``after``, at least 2.5 verifications; ``None`` without verification."""
        if after is None or self.verify_every is None:
            return None
        return max(after, 2.5 * self.verify_every)
