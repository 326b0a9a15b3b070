"""A service record together with what is observed of its host.  Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from agent.registry.record import ServiceRecord
from agent.reporting.condition import Condition

WELL = 4
"""The attention that a service needs of which nothing is wrong."""


class Roots(NamedTuple):
    """The root providers of hosts in Placement: UUIDs of the disabled ones, and names by UUID."""

    disabled: frozenset[str]
    present: Mapping[str, str]


class Agreement(StrEnum):
    """How a service record compares with Placement."""

    AGREES = "agrees"
    DIFFERS = "DIFFERS"
    """COMPUTE_STATUS_DISABLED is on a root of an enabled host, or not on all of a disabled one."""
    ABSENT = "not in Placement"
    """Placement lacks a root, or its COMPUTE_NODE."""
    ATTACHED = "Nova's"
    NO_ROOT = "no root"
    NOT_READ = "not read"

    @property
    def wrong(self) -> bool:
        """Whether it needs an operator, or the agent."""
        return self in (Agreement.DIFFERS, Agreement.ABSENT)


@dataclass(frozen=True, slots=True)
class ObservedService:
    """A service record, whether the service is up, and what Placement has of it.

    ``with_trait`` and ``absent``: the numbers of its root providers with COMPUTE_STATUS_DISABLED,
    and of those that Placement does not have; ``None`` if Placement could not be read.
    """

    record: ServiceRecord
    up: bool
    with_trait: int | None = None
    absent: int | None = None

    @property
    def placement(self) -> Agreement:
        """Whether Placement agrees with the record."""
        roots = len(self.record.roots)
        if self.record.attached:
            return Agreement.ATTACHED
        if not roots:
            return Agreement.NO_ROOT
        if self.with_trait is None:
            return Agreement.NOT_READ
        if self.absent:
            return Agreement.ABSENT
        agrees = self.with_trait == (roots if self.record.disabled else 0)
        return Agreement.AGREES if agrees else Agreement.DIFFERS

    @property
    def absence(self) -> str:
        """A sentence about the roots that Placement does not have."""
        roots, absent = len(self.record.roots), self.absent or 0
        if roots == 1:
            return "its root provider is not in Placement as a compute node"
        which = "none" if absent == roots else f"{roots - absent}"
        return f"{which} of its {roots} root providers is in Placement as a compute node"

    @property
    def difference(self) -> str:
        """A sentence about a status in Placement that is another than the record's."""
        roots, marked = len(self.record.roots), self.with_trait or 0
        has = "is disabled" if marked == roots else "is enabled"
        if roots > 1 and 0 < marked < roots:
            has = f"has {marked} of {roots} root providers disabled"
        return f"the host is {self.record.status}, and {has} in Placement"

    @property
    def attention(self) -> int:
        """How much it needs an operator: 0 an error, 1 down, 2 degraded, 3 disabled, 4 nothing."""
        record, placement = self.record, self.placement
        wrong = placement is Agreement.DIFFERS or (placement is Agreement.ABSENT and self.up)
        if record.contested_by is not None or wrong:
            return 0
        if not self.up:
            return 1
        return 2 if record.degraded else 3 if record.disabled else WELL

    @property
    def state(self) -> str:
        """See :meth:`agent.registry.record.ServiceRecord.state`."""
        return self.record.state(up=self.up)

    @property
    def words(self) -> str:
        """The text that a search looks in, whatever a list shows of it."""
        record = self.record
        texts = record.host, self.state, record.shown_status, self.placement, record.degraded
        more = record.disabled_reason, record.agent_version, record.address
        return "\n".join((*texts, *(text for text in more if text)))

    def conditions(self) -> Iterator[Condition]:
        """Yield a condition for a host name of two agents."""
        if self.record.contested_by is not None:
            text = (
                f"two agents use this host name: the agent at {self.record.address} is served, "
                f"the agent at {self.record.contested_by} is refused"
            )
            step = "set another [DEFAULT] host for one of the two agents"
            yield Condition(text, step, self.record.host)


GROUPS: Mapping[str, Callable[[ObservedService], bool]] = {
    "up": lambda service: service.up,
    "down": lambda service: not service.up,
    "degraded": lambda service: bool(service.record.degraded),
    "enabled": lambda service: not service.record.disabled,
    "disabled": lambda service: service.record.disabled,
    "attached": lambda service: service.record.attached,
    "differing": lambda service: service.placement.wrong,
    "contested": lambda service: service.record.contested_by is not None,
}
"""Groups of services, which lists count and choose, with their predicates."""


def observed_services(
    records: Sequence[ServiceRecord], down_after: float, roots: Roots | None
) -> list[ObservedService]:
    """Return the services of records.

    :param down_after: seconds without a heartbeat after which a service counts as down.
    :param roots: what Placement has, ``None`` if unknown.
    """
    return [
        ObservedService(
            record,
            record.is_up(down_after),
            roots and len(roots.disabled.intersection(record.roots)),
            roots and len(set(record.roots) - roots.present.keys()),
        )
        for record in records
    ]
