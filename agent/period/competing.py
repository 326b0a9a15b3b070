"""Other services that write to this agent's providers: rename, undo, contest, overwrite.  Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agent.ownership.ledger import Ledger, manager_text
from agent.ownership.settle import Denial
from agent.ownership.statement import Statements
from agent.period.traits import service_of, tags_of_others
from reportclient.model import Inventory, Provider
from reportclient.plan import Operation, SetInventories
from reportclient.snapshot import Snapshot

REPORT_AFTER = 3
"""Number of times that another service has to undo the same write before a condition says so."""
QUIET_READS = 5
"""Number of reads of Placement without an undone write after which the condition ends."""


@dataclass(slots=True)
class UndoneWrite:
    """A provider as another service changed it after this agent's write, and how often."""

    theirs: Provider | None
    times: int = 1
    quiet_reads: int = 0


DAY = 86400.0
"""Seconds; the longest pause between two removals of a contested name."""


@dataclass(slots=True)
class Contested:
    """A trait or aggregate that ``manager`` asserts absent: how often it was removed."""

    manager: str
    times: int = 0
    until: float = 0.0
    """Monotonic time until which it is not removed again."""
    is_set: bool = True
    """Whether Placement has it, as far as is known."""


@dataclass(slots=True)
class CompetingOwners:
    """Observations of other services that write to one root's tree."""

    other_tag: str | None = None
    """The service tag that replaced this agent's."""
    other_name: str | None = None
    """The name that another service gave the root; ``None`` once the root has its own again."""
    undone: dict[str, UndoneWrite] = field(default_factory=dict)
    """Undone writes by provider UUID."""
    contested: dict[Denial, Contested] = field(default_factory=dict)
    foreign_records: dict[str, dict[str, Inventory]] = field(default_factory=dict)
    """Inventory that another service wrote, by provider UUID and class, until it is overwritten."""
    _taken: dict[tuple[str, str], str] = field(default_factory=dict)
    """Texts about what was deleted or reserved fully, by provider UUID and class."""
    _written: set[str] = field(default_factory=set)
    """UUIDs of the providers written by this agent since the last read."""

    def note_written(self, done: Iterable[Operation]) -> None:
        """Note the providers that this agent wrote."""
        for operation in done:
            if isinstance(operation, SetInventories):
                self._written.update(operation.inventories)
            elif uuid := getattr(operation, "uuid", None):
                self._written.add(uuid)

    def count_undone_writes(self, before: Snapshot, now: Snapshot) -> None:
        """Count the writes that another service undid between two snapshots read from Placement.

        Two agents with one identity (a copied disk) overwrite each other forever without an error.
        A change that happens once, or differs each time, is not counted.
        """
        for write in self.undone.values():
            write.quiet_reads += 1
        for uuid in self._written:
            theirs, last = now.get(uuid), self.undone.get(uuid)
            if theirs == before.get(uuid):
                continue
            if last is None or last.theirs != theirs:
                self.undone[uuid] = UndoneWrite(theirs)
            else:
                last.times, last.quiet_reads = last.times + 1, 0
        counted = self.undone.items()
        self.undone = {uuid: write for uuid, write in counted if write.quiet_reads < QUIET_READS}
        self._written = set()

    def check_root_owner(
        self, before: Provider | None, root: Provider | None, node: str, tag: str
    ) -> None:
        """Note whether another service renamed the root or replaced its service tag.

        ``tag`` is this agent's service tag; empty if it has one node only.
        """
        tagged = bool(tag) and before is not None and tag in before.traits
        others = tags_of_others(root.traits, tag) if root and tagged else ()
        self.other_tag = next(iter(sorted(others)), None)
        if root is None or root.name == node:
            self.other_name = None
        elif before is not None and before.name == node:
            self.other_name = root.name

    def deferred_removals(self, now: float) -> frozenset[Denial]:
        """Return the contested names that are not to be removed yet."""
        contested = self.contested.items()
        return frozenset(denial for denial, each in contested if now < each.until)

    def note_denied(
        self, denials: Mapping[Denial, str], after: Snapshot, now: float, gap: float
    ) -> Iterator[tuple[Denial, str]]:
        """Note which denied names ``after``, the acknowledged state, still has.

        Yield those that were removed for the first time, with the manager that denies them.
        The next removal of the same name waits ``gap`` seconds, each later one twice as long.
        """
        for denial, manager in denials.items():
            uuid, name = denial
            provider, contested = after.get(uuid), self.contested.get(denial)
            is_set = provider is not None and name in provider.traits | provider.aggregates
            if is_set:
                if contested is not None:
                    contested.is_set = True
                continue
            if contested is None:
                contested = self.contested[denial] = Contested(manager)
                yield denial, manager
            contested.until = now + min(gap * 2.0 ** min(contested.times, 16), DAY)
            contested.times, contested.is_set = contested.times + 1, False
        for uuid, name in self.contested.keys() - denials.keys():
            provider = after.get(uuid)
            if provider is not None and name in provider.traits | provider.aggregates:
                del self.contested[uuid, name]  # no driver denies it any more

    def note_records(self, before: Snapshot, now: Snapshot) -> None:
        """Note what changed between two reads: another service wrote inventory, or deleted it."""
        for uuid in now.changed_since(before):
            old, new = before.get(uuid), now.get(uuid)
            if old is not None and new is None:
                self._taken[uuid, ""] = f"another service deleted provider {old.name} ({uuid})"
            if old is None or new is None or old.inventory == new.inventory:
                continue
            changed = {
                name: record
                for name, record in new.inventory.items()
                if record != old.inventory.get(name)
            }
            self.foreign_records[uuid] = self.foreign_records.get(uuid, {}) | changed
            for name, record in changed.items():
                if record.reserved == record.total and name in old.inventory:
                    what = f"{name} of provider {new.name} ({uuid})"
                    self._taken[uuid, name] = f"another service reserved all {what}"

    def taken_from(self, drivers: Statements) -> list[str]:
        """Return once what another service took of what the drivers report: the rest was ours."""
        reported = {
            (uuid, name)
            for statement in drivers.statements
            for uuid in {uuid for uuid, _ in self._taken} & statement.assertions.keys()
            for name in ("", *statement.assertions[uuid].holding.classes)
        }
        texts = [text for what, text in self._taken.items() if what in reported]
        self._taken = {}
        return texts

    def overwritten(self, before: Snapshot, after: Snapshot, ledger: Ledger) -> list[str]:
        """Return a text for each provider of which this agent overwrote another service's values.

        ``ledger`` is the one from before the write.  A takeover is left out.
        """
        texts = []
        for uuid in after.changed_since(before):
            old, new = before.get(uuid), after.get(uuid)
            if old is None or new is None or not ledger.is_ours(uuid):
                continue
            foreign, theirs = self.foreign_records.get(uuid, {}), ledger.foreign_classes(old)
            changes = [
                f"{name} {_difference(was, new.inventory[name])}"
                for name, was in sorted(old.inventory.items())
                if new.inventory.get(name, was) != was
                and (name in theirs or foreign.get(name) == was)
            ]
            if changes:
                texts.append(f"provider {new.name} ({uuid}): {'; '.join(changes)}")
        for uuid, records in [*self.foreign_records.items()]:
            provider = after.get(uuid)
            inventory = {} if provider is None else provider.inventory
            left = {name: each for name, each in records.items() if inventory.get(name) == each}
            self.foreign_records[uuid] = left
            if not left:
                del self.foreign_records[uuid]
        return texts

    def degraded(self, uuid: str, node: str) -> dict[str, str]:
        """Return the conditions of the root's node, by part."""
        degraded = {}
        if self.other_tag is not None:
            service = service_of(self.other_tag)
            degraded["node"] = f"is reported by the service with compute_id {service} too"
        if self.other_name is not None:
            degraded["name"] = (
                f"provider {uuid} of {node} was renamed to {self.other_name} by another service, "
                "and this agent renames it back. If another host has the same compute_id, from a "
                "copied disk, each host takes the provider from the other: on one of them stop "
                "the agent, empty its state_path, start the agent"
            )
        again = {
            denial: contested
            for denial, contested in self.contested.items()
            if contested.times >= REPORT_AFTER and contested.is_set
        }
        if again:
            (provider, name), first = next(iter(again.items()))
            degraded["contested"] = (
                f"{name} of provider {provider} was removed {REPORT_AFTER} times or more and is "
                f"set again by another service, while {manager_text(first.manager)} reports it "
                f"absent ({len(again)} such names): change what sets it, or the driver"
            )
        with_contested = {provider for provider, _ in self.contested}
        lasting = [
            provider
            for provider, write in self.undone.items()
            if write.times >= REPORT_AFTER and provider not in with_contested
        ]
        if lasting:
            degraded["twin"] = (
                f"another service undoes each change of {len(lasting)} provider(s), {lasting[0]} "
                "first. If another host has the same compute_id and name, from a copied disk: on "
                "one of them stop the agent, empty its state_path, start the agent"
            )
        return degraded


def _difference(old: Inventory, new: Inventory) -> str:
    before, after = old.as_dict(), new.as_dict()
    return ", ".join(
        f"{field} {before.get(field)} -> {after.get(field)}"
        for field in after
        if before.get(field) != after.get(field)
    )
