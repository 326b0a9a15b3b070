"""diff: from what Placement has to what the driver wishes, as a plan.  Pure.

Order, and why:

1. names, since traits and inventories refer to them;
2. deletes that free a name which another provider takes;
3. creates, renames and moves, parents first (see ``placing``);
4. a reshape, once all providers that it speaks of are there;
5. deletes, children first;
6. traits, aggregates, and inventory last: a new provider can be scheduled to
   only once its traits say what it is.

What Placement would refuse in any case (a bad name, a total of 0) is left out
and becomes a :class:`Problem`; everything else is still sent.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from reportclient.model import Allocations, Inventory, Provider
from reportclient.names import Names, is_custom, name_problem
from reportclient.placing import Placing
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    NameOperation,
    Operation,
    Plan,
    Problem,
    Reshape,
    SetAggregates,
    SetInventory,
    SetTraits,
    UpdateProvider,
)
from reportclient.reshape import used_providers
from reportclient.snapshot import Snapshot


def diff(  # noqa: PLR0913  all of it decides
    old: Snapshot,
    new: Snapshot,
    allocations: Allocations | None = None,
    *,
    names: Names | None = None,
    foreign: frozenset[str] = frozenset(),
    in_use: AbstractSet[str] = frozenset(),
) -> Plan:
    """The operations that turn ``old`` into ``new``.

    ``allocations`` (those that a reshape moves, as they shall be) makes all inventories
    go into one :class:`Reshape`.  A provider that goes is emptied in it, so that no guest
    lands there before it is deleted, unless it is ``in_use`` by allocations that stay.
    ``foreign`` are providers that are never written; changes to them become problems.

    :raises ValueError: allocations are moved that no provider of ``new`` holds.
    """
    used = in_use | used_providers(allocations or {})
    return _Differ(old, new, allocations, names or Names(), foreign, used).plan()


@dataclass(slots=True)
class _Differ:
    """The parts of one plan, while it is made."""

    old: Snapshot
    new: Snapshot
    allocations: Allocations | None
    names: Names
    foreign: frozenset[str]
    in_use: AbstractSet[str]
    problems: list[Problem] = field(default_factory=list)

    def plan(self) -> Plan:
        changed = [uuid for uuid in self.new.changed_since(self.old) if self._ours(uuid)]
        kept = [uuid for uuid in changed if uuid in self.new]
        gone = set(changed).difference(kept)
        if not changed and not self.allocations:
            return Plan((), tuple(self.problems))
        early = self._freeing_names(gone, kept)
        placed = self._placements(kept, gone, early)
        traits = list(self._traits(kept))
        inventories = list(self._inventories(kept))
        operations: tuple[Operation, ...] = (
            *self._names(traits, inventories),
            *self._deletes(early),
            *placed,
            *self._reshape(inventories, gone),
            *self._deletes(gone - early),
            *traits,
            *self._aggregates(kept),
            *(() if self.allocations is not None else inventories),
        )
        return Plan(operations, tuple(self.problems), self._provider_names(changed), self.new)

    def _ours(self, uuid: str) -> bool:
        before, after = self.old.get(uuid), self.new.get(uuid)
        if uuid in self.foreign:
            if before != after and before is not None:
                self._problem(before, "not changed: sharing provider of another service")
            return False
        if after is not None and self.foreign and self.new.root_of(uuid) in self.foreign:
            self._problem(after, "not created: its parent is owned by another service")
            return False
        return True

    def _problem(self, provider: Provider, text: str) -> None:
        self.problems.append(Problem(provider.uuid, provider.name, text))

    def _provider_names(self, uuids: Iterable[str]) -> Mapping[str, str]:
        concerned = ((uuid, self.new.get(uuid) or self.old.get(uuid)) for uuid in uuids)
        return {uuid: provider.name for uuid, provider in concerned if provider is not None}

    # -- providers

    def _placements(
        self, kept: Iterable[str], gone: set[str], early: set[str]
    ) -> list[CreateProvider | UpdateProvider]:
        wanted = {provider.uuid: provider for provider in parents_first(self.new, kept)}
        placing = Placing(self.old, wanted, frozenset(gone), frozenset(early))
        return list(placing.operations())

    def _freeing_names(self, gone: set[str], kept: Iterable[str]) -> set[str]:
        """Those that go with all below them and whose name somebody else takes."""
        if self.allocations is not None:
            return set()  # what they hold is moved by the reshape, which comes later
        holders = (self.old.named(self.new.providers[uuid].name) for uuid in kept)
        freeing = [holder.uuid for holder in holders if holder and holder.uuid in gone]
        trees = ({provider.uuid for provider in self.old.walk(uuid)} for uuid in freeing)
        return set[str]().union(*(tree for tree in trees if tree <= gone))

    def _deletes(self, gone: Iterable[str]) -> Iterator[DeleteProvider]:
        for provider in reversed(list(parents_first(self.old, gone))):
            yield DeleteProvider(provider.uuid)

    # -- what providers carry

    def _traits(self, kept: Iterable[str]) -> Iterator[SetTraits]:
        for provider, before in self._pairs(kept):
            wished = self._sendable_traits(provider)
            if wished != (before.traits if before else frozenset()):
                yield SetTraits(provider.uuid, wished)

    def _sendable_traits(self, provider: Provider) -> frozenset[str]:
        problems = {name: name_problem(name, "trait") for name in provider.traits}
        problems.update({name: _unknown("trait", name) for name in self._absent(provider.traits)})
        for problem in sorted(text for text in problems.values() if text):
            self._problem(provider, f"{problem}; left out")
        return frozenset(name for name, text in problems.items() if text is None)

    def _absent(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.names.absent]

    def _aggregates(self, kept: Iterable[str]) -> Iterator[SetAggregates]:
        for provider, before in self._pairs(kept):
            if provider.aggregates != (before.aggregates if before else frozenset()):
                yield SetAggregates(provider.uuid, provider.aggregates)

    def _inventories(self, kept: Iterable[str]) -> Iterator[SetInventory]:
        for provider, before in self._pairs(kept):
            current = before.inventory if before else {}
            wished = resolved(provider.inventory, current, self.names.absent)
            for name in sorted(self._absent(provider.inventory)):
                self._problem(provider, f"{_unknown('resource class', name)}; left out")
            if wished != current and self._acceptable(provider, wished):
                yield SetInventory(provider.uuid, wished)

    def _acceptable(self, provider: Provider, wished: Mapping[str, Inventory]) -> bool:
        texts = [(name, _record_problem(name, record)) for name, record in sorted(wished.items())]
        bad = [f"inventory of {name}: {text}" for name, text in texts if text]
        if bad:
            self._problem(provider, f"{'; '.join(bad)}; its inventory is left as it was")
        return not bad

    def _reshape(self, inventories: Iterable[SetInventory], gone: set[str]) -> Iterator[Reshape]:
        if self.allocations is None:
            return
        by_uuid = {operation.uuid: operation.inventory for operation in inventories}
        left = [self.old.providers[uuid] for uuid in sorted(gone - self.in_use)]
        by_uuid.update({provider.uuid: {} for provider in left if provider.inventory})
        if self.allocations and not by_uuid:
            by_uuid = self._as_they_are()
        if by_uuid:
            yield Reshape(by_uuid, self.allocations)

    def _as_they_are(self) -> dict[str, Mapping[str, Inventory]]:
        """Placement moves no allocations without a word about some inventory."""
        for uuid in sorted(self.in_use):
            provider = self.old.get(uuid)
            if provider is not None and provider.inventory and uuid not in self.foreign:
                return {uuid: provider.inventory}
        raise ValueError(
            f"no provider here holds the allocations of {', '.join(self.allocations or ())}"
        )

    def _names(
        self, traits: Iterable[SetTraits], inventories: Iterable[SetInventory]
    ) -> Iterator[NameOperation]:
        used_traits = {name for operation in traits for name in operation.traits}
        for trait in sorted(filter(is_custom, used_traits - self.names.traits)):
            yield EnsureTrait(trait)
        used_classes = {name for operation in inventories for name in operation.inventory}
        for resource_class in sorted(filter(is_custom, used_classes - self.names.classes)):
            yield EnsureClass(resource_class)

    def _pairs(self, kept: Iterable[str]) -> Iterator[tuple[Provider, Provider | None]]:
        for uuid in kept:
            yield self.new.providers[uuid], self.old.get(uuid)


def resolved(
    wished: Mapping[str, Inventory], current: Mapping[str, Inventory], absent: frozenset[str]
) -> dict[str, Inventory]:
    """``wished`` with what it leaves unsaid taken from ``current``, or Placement's default."""
    return {
        name: record.with_defaults(current.get(name))
        for name, record in wished.items()
        if name not in absent
    }


def _unknown(what: str, name: str) -> str:
    return f"{what} {name} is not known to this Placement"


def _record_problem(resource_class: str, record: Inventory) -> str | None:
    return name_problem(resource_class, "resource class") or record.problem()


def parents_first(snapshot: Snapshot, uuids: Iterable[str]) -> Iterator[Provider]:
    """These providers, each after those of its ancestors that are among them."""
    wanted = dict.fromkeys(uuids)
    seen: set[str] = set()
    for start in wanted:
        chain = []
        uuid: str | None = start
        while uuid is not None and uuid not in seen:
            seen.add(uuid)
            chain.append(uuid)
            uuid = snapshot.providers[uuid].parent_uuid
        yield from (snapshot.providers[uuid] for uuid in reversed(chain) if uuid in wanted)
