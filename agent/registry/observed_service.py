"""A service record together with what is observed of its host.  Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from agent.registry.record import RECREATE, ServiceRecord
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
    def attention(self) -> int:
        """How much it needs an operator: 0 an error, 1 down, 2 degraded, 3 disabled, 4 nothing."""
        record = self.record
        if record.contested_by is not None or self.agrees is False or record.unreadable:
            return 0
        if not self.up:
            return 1
        return 2 if record.degraded else 3 if record.disabled else 4

    @property
    def state(self) -> str:
        """See :meth:`agent.registry.record.ServiceRecord.state`."""
        return self.record.state(up=self.up)

    def conditions(self) -> Iterator[Condition]:
        """Yield a condition for an unreadable record, and one for a host name of two agents."""
        if self.record.unreadable:
            yield Condition("its record is unreadable", self.record.host, next_step=RECREATE)
        if self.record.contested_by is not None:
            yield Condition(
                f"two agents use this host name: the agent at {self.record.address} is served, "
                f"the agent at {self.record.contested_by} is refused",
                self.record.host,
                next_step="set another [DEFAULT] host for one of the two agents",
            )


def observed_services(
    records: Sequence[ServiceRecord], down_after: float, disabled: frozenset[str] | None
) -> list[ObservedService]:
    """Return the services of records; times are by the database's clock.

    :param down_after: seconds without a heartbeat after which a service counts as down.
    :param disabled: the UUIDs of the roots with COMPUTE_STATUS_DISABLED, ``None`` if unknown.
    """
    now = None
    for record in records:
        if record.last_seen is not None and record.silent_for is not None:
            now = record.last_seen + timedelta(seconds=record.silent_for)  # when it was read
            break
    services = []
    for record in records:
        since = None
        if now is not None and record.disabled_at is not None:
            since = max(0.0, (now - record.disabled_at).total_seconds())
        with_trait = None if disabled is None else len(disabled.intersection(record.roots))
        services.append(ObservedService(record, record.is_up(down_after), with_trait, since))
    return services
