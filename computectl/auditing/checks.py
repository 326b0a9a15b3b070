"""The checks of an audit: of service records, of allocations; and their findings."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from agent.errors import RegistryError
from agent.registry.record import ServiceRecord
from agent.reporting.condition import Condition, Severity, with_agents_step
from agent.state.document import Unusable
from compute_registry.observed_service import DIFFERING, ObservedService
from computectl.shared.screen import counted
from reportclient.errors import NotFound, PlacementError
from reportclient.http import API
from reportclient.model import Inventory, total_by_class
from reportclient.plain_text import first_few
from reportclient.reader import Listed, part_of

REPORTING, ORPHANS, OWNERSHIP = "reporting", "orphans", "ownership"
ALLOCATIONS, STATUS = "allocations", "status"
TITLES: Mapping[str, str] = {
    REPORTING: "hosts that do not report, or not fully",
    ORPHANS: "providers without a host",
    OWNERSHIP: "traits and inventory without an owner",
    ALLOCATIONS: "allocations beyond the inventory",
    STATUS: "hosts disabled only in their service record or only in Placement",
}
"""The checks in the order of their output, with their titles."""


@dataclass(slots=True)
class Audit:
    """The findings of an audit, whose kinds are its checks, and its ``calls`` to Placement.

    ``unknown``: the error by check that could not be made in full.
    """

    hosts: int = 0
    providers: int = 0
    calls: int = 0
    findings: list[Condition] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)

    def add(self, check: str, conditions: Iterable[Condition], uuid: str = "") -> None:
        """Add findings of a check."""
        self.findings += (replace(each, kind=check, uuid=uuid) for each in conditions)

    def add_service(self, service: ObservedService, *without: str) -> None:
        """Add the conditions of a service, but for those of the kinds ``without``."""
        for each in service.conditions:
            if each.kind not in without:
                self.add(STATUS if each.kind == DIFFERING else REPORTING, [each])

    def findings_of(self, check: str) -> list[Condition]:
        """Return the findings of a check, the worst first."""
        chosen = (each for each in self.findings if each.kind == check)
        return sorted(chosen, key=lambda each: each.severity.rank)

    @contextmanager
    def recording_failures(self, *checks: str) -> Iterator[None]:
        """Note an error of Placement or of the records as why ``checks`` were not made."""
        try:
            yield
        except (PlacementError, RegistryError, Unusable) as err:
            for check in checks:
                self.unknown.setdefault(check, with_agents_step(err))

    @property
    def faults(self) -> list[Condition]:
        """Return the findings that make the exit code 1: errors and warnings."""
        return [each for each in self.findings if each.severity is not Severity.INFO]


def claimed_twice(records: Iterable[ServiceRecord]) -> Iterator[Condition]:
    """Yield a finding for each root that two hosts report."""
    first: dict[str, str] = {}
    for record in records:
        for root in record.roots:
            other = first.setdefault(root, record.host)
            if other != record.host:
                text = f"is reported as root provider by both {other} and {record.host}"
                step = "give one of the two hosts its own compute_id"
                yield Condition(text, step, root)


PAGE = 256
"""Providers whose allocations are read and held in memory at the same time."""

T = TypeVar("T")
Judged = tuple[Listed, list[Condition]]
InventoryOf = Callable[[Listed], Mapping[str, Inventory]]


def judged(
    listed: Iterable[Listed], api: API, pool: Executor, inventory: InventoryOf
) -> Iterator[Judged]:
    """Yield each provider with findings on its allocations; ``inventory`` reads that of one."""
    for page in pages(listed):
        yield from pool.map(lambda item: (item, list(_conditions(item, api, inventory))), page)


def pages(items: Iterable[T], size: int = PAGE) -> Iterator[list[T]]:
    """Yield the items in lists of at most ``size``."""
    waiting = iter(items)
    while page := list(islice(waiting, size)):
        yield page


def _conditions(item: Listed, api: API, inventory: InventoryOf) -> Iterator[Condition]:
    path = f"/resource_providers/{item['uuid']}/allocations"
    try:
        allocations = part_of(path, "allocations", api)
        if allocations:
            yield from _beyond(item["name"], allocations, inventory(item))
    except NotFound:
        return  # the provider was deleted meanwhile


def _beyond(
    name: str, allocations: Mapping[str, Any], inventories: Mapping[str, Inventory]
) -> Iterator[Condition]:
    amounts = total_by_class(each["resources"] for each in allocations.values())
    for resource_class, used in sorted(amounts.items()):
        users = [
            user for user in sorted(allocations) if resource_class in allocations[user]["resources"]
        ]
        record = inventories.get(resource_class)
        if record is None:
            text = f"{used} {resource_class} allocated, but the provider has no such inventory"
            step = f"check {_named(users)}, with openstack resource provider allocation show"
            yield Condition(text, step, name)
            continue
        has = record.capacity
        if used > has and record.reserved == record.total:
            text = f"{resource_class} is drained (reserved = total), {used} still allocated"
            step = f"this ends when these allocations are gone: {_named(users)}"
            yield Condition(text, step, name, Severity.INFO)
        elif used > has:
            text = f"{used} {resource_class} allocated, but the capacity is {has}"
            step = f"move guests away ({_named(users)}), or increase the inventory"
            yield Condition(text, step, name, Severity.WARNING)


def _named(users: list[str]) -> str:
    return f"{counted(len(users), 'consumer')}: {first_few(users)}"
