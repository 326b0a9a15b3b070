"""What files add, laid over what the drivers say of one tree.  Pure: it changes a tree of ours.

The drivers never see what this agent added, so what they answer is theirs alone: a class
that they report is never taken for the operator's, and what nobody wants any more is
simply not added again.

``Applied`` is what this agent added, or is about to: noted before it is sent, and until
Placement is seen without it.  What was there before, or a driver reports as well, is not
in it, and is never taken away for a file's sake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from agent.provider_config.entries import Entries, Entry, Key
from reportclient.model import Inventory, Provider
from reportclient.plan import Problem, as_dicts
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot
from reportclient.view import View


@dataclass(frozen=True, slots=True)
class Applied:
    """Names of resource classes and traits that this agent added to one provider."""

    classes: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.classes or self.traits)

    def within(self, provider: Provider | None) -> Applied:
        """Those that the provider has."""
        if provider is None:
            return Applied()
        return Applied(self.classes & provider.inventory.keys(), self.traits & provider.traits)

    def without(self, provider: Provider | None) -> Applied:
        """Those that the provider does not have."""
        here = self.within(provider)
        return Applied(self.classes - here.classes, self.traits - here.traits)

    def joined(self, other: Applied) -> Applied:
        """Those of both."""
        return Applied(self.classes | other.classes, self.traits | other.traits)


@dataclass(frozen=True, slots=True)
class Laid:
    """What came of it: ``applied`` by root and provider, ``met`` are keys of entries that
    found their provider.
    """

    applied: Mapping[str, Mapping[str, Applied]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    met: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class Overlay:
    """``entries`` ``None``: nobody knows what the files say; what was applied stays as it is."""

    entries: Entries | None = field(default_factory=Entries)
    applied: Mapping[str, Applied] = field(default_factory=dict)

    def beside(self, root: str) -> Overlay:
        """The same where the root belongs to somebody else: what it was given before stays."""
        return replace(self, applied={k: v for k, v in self.applied.items() if k != root})

    def under(self, view: View) -> View:
        """The view without what this agent added; the same one if that is nothing."""
        if not self.applied:
            return view
        tree = view.edit()
        for uuid, applied in self.applied.items():
            provider = view.snapshot.get(uuid)
            ours = applied.within(provider)
            if provider is not None and ours:
                left = {k: v for k, v in provider.inventory.items() if k not in ours.classes}
                tree.update_inventory(uuid, as_dicts(left))
                tree.remove_traits(uuid, *ours.traits)
        return replace(view, snapshot=tree.freeze())

    def lay(
        self, tree: ProviderTree, root: str, before: Snapshot, strangers: frozenset[str]
    ) -> Laid:
        """Add to ``tree``, the drivers' answer to :meth:`under`.

        ``before`` is what Placement has; ``strangers`` are providers that are never written.
        """
        if not self.applied and self.entries is not None and not self.entries.all():
            return Laid()
        answer = tree.freeze()
        return _Laying(self, tree, answer, before).laid(root, strangers)


@dataclass(slots=True)
class _Laying:
    overlay: Overlay
    tree: ProviderTree
    answer: Snapshot
    before: Snapshot
    wanted: dict[str, Applied] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    met: set[Key] = field(default_factory=set)

    def laid(self, root: str, strangers: frozenset[str]) -> Laid:
        entries = self.overlay.entries
        if entries is None:
            self._hold()
            return Laid(self._by_root())
        targets = self._targets(entries, root)
        for uuid, entry in targets.items():
            if uuid in strangers:
                text = f"{entry.place}: it belongs to somebody else: not changed"
                self._problem(uuid, text)
            else:
                self._add(uuid, entry)
        return Laid(self._by_root(), tuple(self.problems), frozenset(self.met))

    def _targets(self, entries: Entries, root: str) -> dict[str, Entry]:
        """Entries by the UUID of their provider; an explicit one goes before $COMPUTE_NODE.

        The root comes first, as in the rest of a plan.
        """
        found: dict[str, Entry] = {}
        for entry in entries.explicit:
            provider = self._provider_of(entry)
            if provider is None:
                continue
            self.met.add(entry.key)
            first = found.setdefault(provider.uuid, entry)
            if first is not entry:
                text = (
                    f"{entry.place} ({entry.by} {entry.identifier}) describes it, and so does "
                    f"{first.place} ({first.by} {first.identifier}), which holds; "
                    "make one entry of the two"
                )
                self._problem(provider.uuid, text)
        if entries.default is not None and root in self.answer:
            found.setdefault(root, entries.default)
        return dict(sorted(found.items(), key=lambda item: item[0] != root))

    def _provider_of(self, entry: Entry) -> Provider | None:
        """As in Nova, a name may be a UUID, and the other way round."""
        by_name, by_uuid = self.answer.named(entry.identifier), self.answer.get(entry.identifier)
        return by_name or by_uuid if entry.by == "name" else by_uuid or by_name

    def _add(self, uuid: str, entry: Entry) -> None:
        provider = self.answer.providers[uuid]
        for name in sorted(entry.inventory.keys() & provider.inventory.keys()):
            text = (
                f"{entry.places[name]}: {name} is reported by a driver, or was set by somebody "
                "else: that holds; take it out of the file, or out of Placement"
            )
            self._problem(uuid, text)
        records = {k: v for k, v in entry.inventory.items() if k not in provider.inventory}
        self._put(provider, records, entry.traits)
        self.wanted[uuid] = Applied(frozenset(records), entry.traits - provider.traits)

    def _hold(self) -> None:
        for uuid, applied in self.overlay.applied.items():
            provider, had = self.answer.get(uuid), self.before.get(uuid)
            if provider is not None and had is not None:
                ours = applied.within(had).without(provider)
                self._put(
                    provider, {name: had.inventory[name] for name in ours.classes}, ours.traits
                )
                self.wanted[uuid] = ours

    def _put(
        self, provider: Provider, records: Mapping[str, Inventory], traits: frozenset[str]
    ) -> None:
        inventory = {**as_dicts(provider.inventory), **as_dicts(records)}
        self.tree.update_inventory(provider.uuid, inventory)
        self.tree.add_traits(provider.uuid, *traits)

    def _problem(self, uuid: str, text: str) -> None:
        self.problems.append(Problem(uuid, self.answer.providers[uuid].name, text))

    def _by_root(self) -> dict[str, dict[str, Applied]]:
        """All that is ours from now on; for each root of the tree, even if that is nothing."""
        roots = (*self.answer.children(None), *self.before.children(None))
        found: dict[str, dict[str, Applied]] = {root: {} for root in roots}
        for uuid, applied in self._ours():
            where = self.answer if uuid in self.answer else self.before
            if applied:
                found[where.root_of(uuid)][uuid] = applied
        return found

    def _ours(self) -> Iterator[tuple[str, Applied]]:
        for uuid in {*self.wanted, *self.overlay.applied}:
            applied = self.overlay.applied.get(uuid, Applied())
            left = applied.within(self.before.get(uuid)).without(self.answer.get(uuid))
            yield uuid, self.wanted.get(uuid, Applied()).joined(left)
