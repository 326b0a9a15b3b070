"""A service record together with what is observed of its host.  Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from agent.registry.record import RECREATE, ServiceRecord, unreadable
from agent.reporting.reports import Condition


@dataclass(frozen=True, slots=True)
class ObservedService:
    """A service record, whether the service is up, and what Placement has of it.

    ``with_trait``: the number of its root providers with COMPUTE_STATUS_DISABLED, ``None`` if
    Placement could not be read.  ``since``: seconds for which its host has been disabled.
    """

    record: ServiceRecord
    up: bool
    with_trait: int | None = None
    since: float | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether the trait on its root providers matches the record; ``None`` if unknown."""
        roots = len(self.record.roots)
        if self.with_trait is None or not roots or self.record.attached:
            return None
        return self.with_trait == (roots if self.record.disabled else 0)

    @property
    def agreement(self) -> str:
        """:attr:`agrees` for people: ``agrees``, ``DIFFERS``, ``?``, or ``-`` if attached."""
        if self.record.attached:
            return "-"
        return {True: "agrees", False: "DIFFERS", None: "?"}[self.agrees]

    @property
    def state(self) -> str:
        """See :meth:`agent.registry.record.ServiceRecord.state`."""
        return self.record.state(up=self.up)

    def conditions(self) -> Iterator[Condition]:
        """Yield a condition for an unreadable record, and one for a host name of two agents."""
        if self.record.unreadable:
            yield Condition(unreadable(self.record.host), next_step=RECREATE)
        if self.record.contested_by is not None:
            yield Condition(
                f"two agents use the host name {self.record.host}: the agent at "
                f"{self.record.address} is served, the agent at "
                f"{self.record.contested_by} is refused",
                next_step="set another [DEFAULT] host for one of the two agents",
            )
