"""Other services at a root of ours: they take it for their own, undo or contest our writes.

Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agent.ownership.ledger import Ledger, manager_text
from agent.ownership.settlement import Denial
from agent.period.service_tag import service_of, tags_of_others
from reportclient.model import Inventory, Provider
from reportclient.plan import Operation, SetInventories
from reportclient.snapshot import Snapshot

REPORT_AFTER = 3
"""So often somebody has to undo the same in the same way, to be told."""
QUIET_READS = 5
"""Readings without it until that is over."""


@dataclass(slots=True)
class UndoneWrite:
    """A value of ours that another writer replaced, and how often."""

    theirs: Provider | None
    times: int = 1
    quiet_reads: int = 0


DAY = 86400.0


@dataclass(slots=True)
class Contested:
    """A trait or an aggregate that a driver asserts absent: how often it was removed."""

    manager: str
    times: int = 0
    until: float = 0.0
    """When it may be removed again, should another service set it."""
    is_there: bool = True


@dataclass(slots=True)
class CompetingOwners:
    """Other writers on a root, as its readings show them."""

    other_tag: str | None = None
    """The service tag that was put in place of ours."""
    other_name: str | None = None
    """The name that somebody else gave the root, until it is seen with its own again."""

    undone: dict[str, UndoneWrite] = field(default_factory=dict)
    """By the UUID of the provider."""
    contested: dict[Denial, Contested] = field(default_factory=dict)
    foreign_records: dict[str, dict[str, Inventory]] = field(default_factory=dict)
    """Inventory that another service wrote, by provider and class, until we overwrite it."""
    _written: set[str] = field(default_factory=set)
    """Providers that we have written since the last reading."""

    def note_written(self, done: Iterable[Operation]) -> None:
        """This is in Placement because of us."""
        for operation in done:
            if isinstance(operation, SetInventories):
                self._written.update(operation.inventories)
            elif uuid := getattr(operation, "uuid", None):
                self._written.add(uuid)

    def count_undone_writes(self, before: Snapshot, now: Snapshot) -> None:
        """Count who undoes what we have written, with what was read for something else.

        Two agents with one identity, from a copied disk, write in turns for ever; neither
        meets an error.  What somebody changes once, or never the same way, is no such thing.
        """
        for uuid in [*self.undone]:
            self.undone[uuid].quiet_reads += 1
            if self.undone[uuid].quiet_reads > QUIET_READS:
                del self.undone[uuid]
        for uuid in self._written:
            theirs = now.get(uuid)
            if theirs != before.get(uuid):
                self._count(uuid, theirs)
        self._written = set()

    def _count(self, uuid: str, theirs: Provider | None) -> None:
        same = self.undone.get(uuid)
        if same is None or same.theirs != theirs:
            self.undone[uuid] = UndoneWrite(theirs)
        else:
            same.times, same.quiet_reads = same.times + 1, 0

    def check_root_owner(
        self, before: Provider | None, root: Provider | None, node: str, tag: str
    ) -> None:
        """Compare a root that was ``before`` with what it is now; ``tag`` is ours, or empty."""
        tagged = bool(tag) and before is not None and tag in before.traits
        others = tags_of_others(root.traits, tag) if root and tagged else ()
        self.other_tag = next(iter(sorted(others)), None)
        if root is None or root.name == node:
            self.other_name = None
        elif before is not None and before.name == node:
            self.other_name = root.name

    def deferred_removals(self, now: float) -> frozenset[Denial]:
        """Return the contested names that are not to be removed yet."""
        return frozenset(each for each, one in self.contested.items() if now < one.until)

    def note_denied(
        self, denials: Mapping[Denial, str], after: Snapshot, now: float, gap: float
    ) -> Iterator[tuple[Denial, str]]:
        """Note what became of denied names in ``after``, the acknowledged state.

        Yield those that were removed for the first time, with the manager that denies them.
        The next removal of the same name waits for ``gap`` seconds, then for twice as long.
        """
        for denial, manager in denials.items():
            uuid, name = denial
            provider, one = after.get(uuid), self.contested.get(denial)
            is_there = provider is not None and name in provider.traits | provider.aggregates
            if is_there:
                if one is not None:
                    one.is_there = True
                continue
            if one is None:
                one = self.contested[denial] = Contested(manager)
                yield denial, manager
            one.until = now + min(gap * 2.0 ** min(one.times, 16), DAY)
            one.times, one.is_there = one.times + 1, False
        for uuid, name in self.contested.keys() - denials.keys():
            provider = after.get(uuid)
            if provider is not None and name in provider.traits | provider.aggregates:
                del self.contested[uuid, name]  # no driver denies it any more

    def note_records(self, before: Snapshot, now: Snapshot) -> None:
        """Note the inventory that changed between two readings: another service wrote it."""
        for uuid in now.changed_since(before):
            old, new = before.get(uuid), now.get(uuid)
            if old is not None and new is not None and old.inventory != new.inventory:
                self.foreign_records[uuid] = self.foreign_records.get(uuid, {}) | {
                    name: one
                    for name, one in new.inventory.items()
                    if one != old.inventory.get(name)
                }

    def overwritten(self, before: Snapshot, after: Snapshot, ledger: Ledger) -> list[str]:
        """Return a text for each provider of which we overwrote what another service had set.

        ``ledger`` says what was ours before.  Nothing is returned for a takeover.
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
            there = after.get(uuid)
            left = {n: r for n, r in records.items() if there and there.inventory.get(n) == r}
            self.foreign_records[uuid] = left
            if not left:
                del self.foreign_records[uuid]
        return texts

    def degraded(self, uuid: str, node: str) -> dict[str, str]:
        """Return the conditions, by part."""
        degraded = {}
        if self.other_tag is not None:
            service = service_of(self.other_tag)
            degraded["node"] = f"is reported by the service with compute_id {service} as well"
        if self.other_name is not None:
            degraded["name"] = (
                f"provider {uuid} of {node} was renamed to {self.other_name} by another service, "
                "and is renamed back. If that is a host with the same compute_id, from a copied "
                "disk, each takes the provider from the other: stop one, empty its state_path, "
                "start it"
            )
        again = {
            denial: one
            for denial, one in self.contested.items()
            if one.times >= REPORT_AFTER and one.is_there
        }
        if again:
            (provider, name), one = next(iter(again.items()))
            degraded["contested"] = (
                f"{name} of provider {provider} was removed {REPORT_AFTER} times or more and is "
                f"set again by another service, while {manager_text(one.manager)} reports it "
                f"absent ({len(again)} such names): change what sets it, or the driver"
            )
        contested = {provider for provider, _ in self.contested}
        lasting = [
            each
            for each, one in self.undone.items()
            if one.times >= REPORT_AFTER and each not in contested
        ]
        if lasting:
            degraded["twin"] = (
                f"another writer undoes each change of {len(lasting)} provider(s), {lasting[0]} "
                "first. If that is a host with the same "
                "compute_id and name, from a copied disk: stop one, empty its state_path, start it"
            )
        return degraded


def _difference(old: Inventory, new: Inventory) -> str:
    before, after = old.as_dict(), new.as_dict()
    return ", ".join(
        f"{field} {before.get(field)} -> {after.get(field)}"
        for field in after
        if before.get(field) != after.get(field)
    )
