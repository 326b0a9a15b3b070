"""The checks of an audit: of service records, of allocations; and their findings."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from agent.errors import RegistryError
from agent.ownership.policy import DISABLED
from agent.registry.record import ServiceRecord
from agent.reporting.condition import Condition, Severity, with_agents_step
from compute_registry.observed_service import Agreement, ObservedService
from computectl.shared.screen import counted
from reportclient.errors import NotFound, PlacementError
from reportclient.http import API
from reportclient.model import Inventory, total_by_class
from reportclient.plain_text import first_few
from reportclient.reader import Listed, part_of

REPORTING, ORPHANS, OWNERSHIP = "reporting", "orphans", "ownership"
ALLOCATIONS, STATUS = "allocations", "status"
TITLES: Mapping[str, str] = {
    REPORTING: "hosts that do not report",
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

    def findings_of(self, check: str) -> list[Condition]:
        """Return the findings of a check, the worst first."""
        order = list(Severity)
        chosen = (each for each in self.findings if each.kind == check)
        return sorted(chosen, key=lambda each: order.index(each.severity))

    @contextmanager
    def recording_failures(self, *checks: str) -> Iterator[None]:
        """Note an error of Placement or the registry as the reason why ``checks`` were not made."""
        try:
            yield
        except (PlacementError, RegistryError) as err:
            for check in checks:
                self.unknown.setdefault(check, with_agents_step(err))

    @property
    def faults(self) -> list[Condition]:
        """Return the findings that make the exit code 1: errors and warnings."""
        return [each for each in self.findings if each.severity is not Severity.INFO]


GIVE_UP = (
    "if it died for good: computectl service force-down {0}, computectl retire {0}, computectl "
    "service delete {0}"
)
"""The next step of a host that reports no more; on one that still runs, retire needs no name."""


def reporting(
    service: ObservedService,
    missing: Collection[str],
    alive: bool,
    other: str = "",
    same: ServiceRecord | None = None,
) -> Iterator[Condition]:
    """Yield findings on whether a host reports; ``missing``: its roots that Placement lacks.

    ``other``: the UUID under which Placement has a provider with the host's name, if it does.
    ``same``: see :func:`agent.registry.record.renamed`.
    """
    record = service.record
    host = record.host
    yield from service.conditions()
    if record.attached:
        text = "runs in attach mode: nova-compute owns its service, and enables and disables it"
        yield Condition(text, "", host, Severity.INFO)
    if same is not None:
        yield _renamed(record, same, alive)
    elif not alive:
        yield _silent(record)
    elif record.forced_down:
        step = f"computectl service force-down {host} --unset"
        yield Condition("is forced down, though it sends heartbeats", step, host)
    elif not record.roots:
        step = "run computectl status on the host to see why"
        text = "sends heartbeats, but has not reported a root provider yet"
        yield Condition(text, step, host, Severity.WARNING)
    for root in missing:
        step = f"run computectl status on the host to see why; {GIVE_UP.format(host)}"
        if other:
            step = (
                f"{host} is there as {other}; if that is this host: computectl adopt {host} on it"
            )
        yield Condition(f"its root provider {root} is not in Placement", step, host)


def _renamed(record: ServiceRecord, same: ServiceRecord, alive: bool) -> Condition:
    """Return the finding on a host without a root, of which ``same`` has another name."""
    if not alive:
        step = f"computectl service delete {record.host}"
        return Condition(f"was renamed to {same.host}", step, record.host, Severity.WARNING)
    text = f"was renamed: the record of {same.host} has its root provider until that counts as down"
    step = f"wait; then: computectl service delete {same.host}"
    return Condition(text, step, record.host, Severity.INFO)


def _silent(record: ServiceRecord) -> Condition:
    texts = {"never": "has never sent a heartbeat", "ended": "its agent does not run"}
    text = texts.get(record.silence, f"no heartbeat for {record.silence}")
    expected = record.forced_down or record.disabled
    forced = ", forced down" if record.forced_down else ""
    status = f"{record.shown_status}{forced}"
    severity = Severity.WARNING if expected else Severity.ERROR
    step = f"start compute-agent on that host; {GIVE_UP.format(record.host)}"
    return Condition(f"{text} ({status})", step, record.host, severity)


def with_trait(service: ObservedService) -> str:
    """Return on how many of a host's roots the trait is."""
    number, roots = service.with_trait, len(service.record.roots)
    return f"{number} of {counted(roots, 'root')}" if number else "none of its roots"


def status(service: ObservedService, *, alive: bool) -> Iterator[Condition]:
    """Yield a finding if Placement's trait differs from the service record."""
    record = service.record
    if service.placement is not Agreement.DIFFERS:
        return
    has = f"{DISABLED} is on {with_trait(service)}"
    if alive:
        step = (
            "its agent corrects this at its next heartbeat or verification; if not: computectl "
            "status on the host"
        )
    else:
        step = "start its agent; until then the scheduler follows Placement"
    text = f"{record.status} in its service record, but {has}"
    yield Condition(text, step, record.host)


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
