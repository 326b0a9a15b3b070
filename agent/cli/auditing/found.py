"""What an audit finds, check by check."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent.registry.errors import RegistryError
from agent.told.conditions import Condition, Severity
from reportclient.errors import PlacementError

REPORTING, ORPHANS, OWNERSHIP = "reporting", "orphans", "ownership"
ALLOCATIONS, STATUS = "allocations", "status"
TITLES: Mapping[str, str] = {
    REPORTING: "hosts that do not report",
    ORPHANS: "providers without a host",
    OWNERSHIP: "traits and inventory that nobody owns",
    ALLOCATIONS: "allocations beyond the inventory",
    STATUS: "disabled by the record or by Placement, not by both",
}
"""The checks, as they are shown."""


@dataclass(frozen=True, slots=True)
class Found:
    """``uuid`` is that of the provider, where the condition is about one."""

    check: str
    condition: Condition
    uuid: str = ""


@dataclass(slots=True)
class Audit:
    """Filled while it is read; ``unknown`` says of a check why it can't tell, or not of all."""

    hosts: int = 0
    providers: int = 0
    found: list[Found] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)

    def add(self, check: str, conditions: Iterable[Condition], uuid: str = "") -> None:
        """What one check has to say of one provider, host or name."""
        self.found += (Found(check, one, uuid) for one in conditions)

    def of(self, check: str) -> list[Found]:
        """What one check found, the worst first."""
        order = list(Severity)
        chosen = (one for one in self.found if one.check == check)
        return sorted(chosen, key=lambda one: order.index(one.condition.severity))

    @contextmanager
    def trying(self, *checks: str) -> Iterator[None]:
        """Whoever does not answer leaves these checks undone, and the others as they are."""
        try:
            yield
        except (PlacementError, RegistryError) as err:
            for check in checks:
                self.unknown.setdefault(check, str(err))

    @property
    def counted(self) -> list[Found]:
        """What makes the exit code: all but what ends by itself, or is well known."""
        return [one for one in self.found if one.condition.severity is not Severity.INFO]
