"""The checks of an audit: of service records, of allocations; and their findings."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from agent.period.traits import DISABLED
from agent.registry.errors import RegistryError
from agent.registry.observed_service import ObservedService
from agent.registry.record import ServiceRecord
from agent.reporting.conditions import Condition, Severity
from computectl.reading.retirement import SHOWN
from computectl.shared.screen import ago, counted
from reportclient.errors import NotFound, PlacementError
from reportclient.http import API
from reportclient.model import Inventory
from reportclient.reader import Listed, part_of
from reportclient.usage import amounts_of

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
class Finding:
    """``uuid`` is that of the provider, where the condition is about one."""

    check: str
    condition: Condition
    uuid: str = ""


@dataclass(slots=True)
class Audit:
    """Filled while it is read; ``unknown`` says of a check why it can't tell, or not of all."""

    hosts: int = 0
    providers: int = 0
    findings: list[Finding] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)

    def add(self, check: str, conditions: Iterable[Condition], uuid: str = "") -> None:
        """Add a finding on a provider, host or name."""
        self.findings += (Finding(check, one, uuid) for one in conditions)

    def findings_of(self, check: str) -> list[Finding]:
        """Return the findings of a check, the worst first."""
        order = list(Severity)
        chosen = (one for one in self.findings if one.check == check)
        return sorted(chosen, key=lambda one: order.index(one.condition.severity))

    @contextmanager
    def recording_failures(self, *checks: str) -> Iterator[None]:
        """Whoever does not answer leaves these checks undone, and the others as they are."""
        try:
            yield
        except (PlacementError, RegistryError) as err:
            for check in checks:
                self.unknown.setdefault(check, str(err))

    @property
    def faults(self) -> list[Finding]:
        """Return the findings that make the exit code: not those that end by themselves."""
        return [one for one in self.findings if one.condition.severity is not Severity.INFO]


GIVE_UP = "for a host that is given up: computectl retire there, then computectl service delete"


def reporting(
    service: ObservedService, missing: Collection[str], alive: bool
) -> Iterator[Condition]:
    """Whether the host reports; of its roots, ``missing`` are not in Placement."""
    record = service.record
    host = record.host
    yield from service.conditions()
    if record.attached:
        text = "is attached: its service, and whether it is disabled, is nova-compute's"
        yield Condition(text, host, Severity.INFO)
    if not alive:
        yield _silent(record)
    elif record.forced_down:
        step = f"computectl service force-down {host} --unset"
        yield Condition("is forced down, though it sends heartbeats", host, next_step=step)
    elif not record.roots:
        step = "computectl status there says why"
        text = "sends heartbeats, and has reported no root yet"
        yield Condition(text, host, Severity.WARNING, step)
    for root in missing:
        step = f"computectl status there says why; {GIVE_UP} {host}"
        yield Condition(f"its root {root} is not in Placement", host, next_step=step)


def _silent(record: ServiceRecord) -> Condition:
    never = record.last_seen is None
    text = "has never sent a heartbeat" if never else f"no heartbeat for {ago(record.silent_for)}"
    known = record.forced_down or record.disabled
    forced = ", forced down" if record.forced_down else ""
    status = f"{record.shown_status}{forced}"
    severity = Severity.WARNING if known else Severity.ERROR
    step = f"start compute-agent there; {GIVE_UP} {record.host}"
    return Condition(f"{text} ({status})", record.host, severity, step)


def status(service: ObservedService, *, alive: bool) -> Iterator[Condition]:
    """Whether Placement has the trait where the record says so."""
    record = service.record
    if service.agrees is not False:
        return
    has = f"{DISABLED} is on {service.with_trait} of {counted(len(record.roots), 'root')}"
    if alive:
        step = "its agent follows with a heartbeat or verification; else: computectl status there"
    else:
        step = "the scheduler goes by Placement until its agent runs again: start it"
    yield Condition(f"the record says {record.status}, and {has}", record.host, next_step=step)


def claimed_twice(records: Iterable[ServiceRecord]) -> Iterator[Condition]:
    """Roots that two hosts report."""
    first: dict[str, str] = {}
    for record in records:
        for root in record.roots:
            other = first.setdefault(root, record.host)
            if other != record.host:
                text = f"is the root of {other} and of {record.host}"
                step = "give one of the hosts a compute_id of its own"
                yield Condition(text, root, next_step=step)


PAGE = 256
"""Providers whose answers are in memory at the same time."""

T = TypeVar("T")
Judged = tuple[Listed, list[Condition]]
InventoryOf = Callable[[Listed], Mapping[str, Inventory]]


def judged(
    listed: Iterable[Listed], api: API, pool: Executor, inventory: InventoryOf
) -> Iterator[Judged]:
    """Each provider with what is wrong with it; ``inventory`` is asked for those that are used."""
    for page in pages(listed):
        yield from pool.map(lambda item: (item, list(_conditions(item, api, inventory))), page)


def pages(items: Iterable[T], size: int = PAGE) -> Iterator[list[T]]:
    """So many at a time."""
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
        return  # it went meanwhile


def _beyond(
    name: str, allocations: Mapping[str, Any], inventories: Mapping[str, Inventory]
) -> Iterator[Condition]:
    for resource_class, used in sorted(amounts_of(allocations).items()):
        users = [one for one in sorted(allocations) if resource_class in _of(allocations[one])]
        record = inventories.get(resource_class)
        if record is None:
            text = f"{used} {resource_class} allocated, and no inventory of it"
            step = f"see to {_named(users)}: openstack resource provider allocation show"
            yield Condition(text, name, next_step=step)
            continue
        has = record.capacity
        if used > has and record.reserved == record.total:
            text = f"{resource_class} is drained, and {used} of it are still allocated"
            step = f"it ends with {_named(users)}"
            yield Condition(text, name, Severity.INFO, step)
        elif used > has:
            text = f"{used} {resource_class} allocated, and only {has} to give"
            step = f"move guests away ({_named(users)}), or give it more than it has now"
            yield Condition(text, name, Severity.WARNING, step)


def _of(allocation: Mapping[str, Any]) -> Mapping[str, int]:
    resources: Mapping[str, int] = allocation["resources"]
    return resources


def _named(users: list[str]) -> str:
    more = f" and {len(users) - SHOWN} more" if len(users) > SHOWN else ""
    return f"{counted(len(users), 'consumer')}: {', '.join(users[:SHOWN])}{more}"
