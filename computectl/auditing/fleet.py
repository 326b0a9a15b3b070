"""Audit all hosts: the registry's records against all providers of Placement.

Takes 3 GETs, and 2 for each sharing provider that agents created; then 1 for all providers, or
with more than ``MANY_HOSTS`` hosts 1 for each tree; then 1 for each provider, and 1 more for each
with allocations; 1 for each root that no host reports, and 1 for each provider of its tree; 2 for
custom traits; and 1 for resource classes, with 1 for each custom one that no provider with
allocations has.  At most a page of trees with their allocations is in memory.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from agent.registry.record import ServiceRecord
from agent.reporting.condition import Condition, Severity
from compute_registry.observed_placement import AT_ONCE, compute_nodes
from compute_registry.observed_service import Roots, observed_services
from computectl.auditing import checks
from computectl.auditing.checks import ALLOCATIONS, ORPHANS, OWNERSHIP, REPORTING, STATUS, Audit
from computectl.reading.services import Services
from computectl.reading.trees import MANY_HOSTS, all_providers, is_root
from reportclient.candidates.asking import disabled_roots
from reportclient.http import API
from reportclient.model import Inventory
from reportclient.reader import (
    Listed,
    members_of,
    other_hosts,
    part_of,
    providers_with_trait,
    read_part,
)

TREES = 32
"""Trees that are read at the same time."""
DELETE = "if it is not needed: openstack resource provider delete"


@dataclass(slots=True)
class FleetAudit:
    """The audit of all hosts; ``owners``: owner traits of agents.

    ``alone``: this host's name if the registry is its own file, which has no record of others.
    """

    services: Services
    api: API
    owners: frozenset[str]
    alone: str | None
    down_after: float
    progress: Callable[[str], None]
    audit: Audit = field(default_factory=Audit)
    used: set[str] = field(default_factory=set)
    """Resource classes of the providers that have allocations."""

    def run(self) -> Audit:
        """Make all checks.  :raises reportclient.errors.PlacementError: no hosts could be read."""
        hosts = _by_uuid(providers_with_trait("COMPUTE_NODE", self.api))
        owned = _by_uuid(
            item for trait in self.owners for item in providers_with_trait(trait, self.api)
        )
        self.audit.hosts = len(hosts)
        roots = {uuid: item for uuid, item in {**hosts, **owned}.items() if is_root(item)}
        many = len(hosts) > MANY_HOSTS
        listed = None if many else _by_uuid(all_providers(self.api))
        with self.audit.recording_failures(REPORTING, ORPHANS, STATUS):
            records = self.services.registry.list_services()
            self._records(records, hosts)
            with self.audit.recording_failures(ORPHANS):
                self._orphans(
                    records, hosts, [item for item in roots.values() if item["uuid"] in owned]
                )
        with (
            self.audit.recording_failures(ALLOCATIONS),
            ThreadPoolExecutor(AT_ONCE, thread_name_prefix="get") as pool,
        ):
            everything: Iterable[Listed]
            if listed is None:
                pages = checks.pages(roots, TREES)
                trees = (pool.map(lambda root: members_of(root, self.api), page) for page in pages)
                everything = (item for page in trees for members in page for item in members)
                total = ""
            else:
                everything, total = listed.values(), f" of {len(listed)}"
            wrong = checks.judged(everything, self.api, pool, self._inventory)
            for number, (item, conditions) in enumerate(wrong, 1):
                self.audit.providers = number
                self.audit.add(ALLOCATIONS, conditions, item["uuid"])
                if number % checks.PAGE == 0:
                    self.progress(f"allocations of {number}{total} providers")
        with self.audit.recording_failures(OWNERSHIP):
            self.audit.add(OWNERSHIP, unused_traits(self.api))
            self.audit.add(OWNERSHIP, unused_classes(self.used, self.api))
        return self.audit

    def _records(self, records: list[ServiceRecord], hosts: Mapping[str, Listed]) -> None:
        self.audit.hosts = max(self.audit.hosts, len(records))
        present = {uuid: each["name"] for uuid, each in hosts.items()}
        for record in records:
            missing = [root for root in record.roots if root not in present]
            for root in missing:
                # A root just created is in no listing by trait yet.
                present |= compute_nodes(self.api, uuid=root)
            if not present.keys() >= set(missing):
                present |= compute_nodes(self.api, name=record.host)
        roots = Roots(disabled_roots(self.api), present)
        for service in observed_services(records, self.down_after, roots):
            self.audit.add_service(service)
        self.audit.add(REPORTING, checks.claimed_twice(records))

    def _orphans(
        self, records: list[ServiceRecord], hosts: Mapping[str, Listed], owned: Iterable[Listed]
    ) -> None:
        reported = {root for record in records for root in record.roots}
        unreported = [item for item in owned if item["uuid"] not in reported]
        nodes = [item for item in unreported if item["uuid"] in hosts]
        if nodes and self.alone and {record.host for record in records} <= {self.alone}:
            self.audit.unknown[ORPHANS] = (
                "the configured registry has records of this host only; use the registry of the "
                "fleet, [registry] access = rpc"
            )
            return
        for item in nodes:
            step = (
                "start its agent; if nova-compute reports it now: computectl retire --hand-back on "
                "its host; if the host is decommissioned: computectl retire on it"
            )
            text = "no host of the registry reports this root provider"
            self.audit.add(ORPHANS, [Condition(text, step, item["name"])], item["uuid"])
            with self.audit.recording_failures(OWNERSHIP):
                for uuid, offered in unreported_inventory(item, self.api):
                    self.audit.add(OWNERSHIP, [offered], uuid)
        for item in unreported:
            if item["uuid"] in hosts:
                continue
            aggregates, _ = read_part(item["uuid"], "aggregates", self.api)
            if not other_hosts(aggregates, (), self.api):
                text, step = "no host uses this sharing provider", f"{DELETE} {item['uuid']}"
                condition = Condition(text, step, item["name"])
                self.audit.add(ORPHANS, [condition], item["uuid"])

    def _inventory(self, item: Listed) -> dict[str, Inventory]:
        inventory: dict[str, Inventory]
        inventory, _ = read_part(item["uuid"], "inventories", self.api)
        self.used.update(inventory)
        return inventory


def _by_uuid(listed: Iterable[Listed]) -> dict[str, Listed]:
    return {item["uuid"]: item for item in listed}


CUSTOM = "CUSTOM_"


def unused_traits(api: API) -> Iterator[Condition]:
    """Yield a finding for each custom trait that no provider has."""
    path = f"/traits?name=startswith:{CUSTOM}"
    custom = frozenset(part_of(path, "traits", api))
    used = frozenset(part_of(f"{path}&associated=true", "traits", api))
    for trait in sorted(custom - used):
        step = f"harmless; to delete it: openstack trait delete {trait}"
        yield Condition("no provider has it", step, trait, Severity.INFO)


def unused_classes(used: Collection[str], api: API) -> Iterator[Condition]:
    """Yield a finding for each custom class without free inventory; ``used``: classes to skip."""
    listed = part_of("/resource_classes", "resource_classes", api)
    custom = {item["name"] for item in listed if item["name"].startswith(CUSTOM)}
    for name in sorted(custom.difference(used)):
        if not part_of(f"/resource_providers?resources={name}:1", "resource_providers", api):
            # A fully reserved inventory is not found either.
            step = f"harmless; openstack resource class delete {name}, refused if a provider has it"
            yield Condition("no provider has free inventory of it", step, name, Severity.INFO)


def unreported_inventory(root: Listed, api: API) -> Iterator[tuple[str, Condition]]:
    """Yield findings on inventory of a tree that no host reports, with the provider's UUID."""
    for item in members_of(root["uuid"], api):
        inventory, _ = read_part(item["uuid"], "inventories", api)
        if classes := sorted(inventory):
            text = f"offers {', '.join(classes)} to the scheduler, but no host reports it"
            step = f"remove it with its root {root['uuid']}: see providers without a host"
            yield item["uuid"], Condition(text, step, item["name"], Severity.WARNING)
