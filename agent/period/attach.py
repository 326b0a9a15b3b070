"""Beside another owner of the root: what may be written there, and what may not.  Pure.

The root, and all below it that this agent did not make, belong to somebody else
(nova-compute).  Whatever the drivers, or an operator's file, did to them is undone here,
but for traits on the root: those that a driver sets are added if they are not there, and
taken away again only if this agent added them.  A trait of ours that somebody took away
is given up: two that undo each other would never be quiet.

One trait is never set here, on nothing: COMPUTE_MANAGED_PCI_DEVICE says that nova-compute
manages the provider.  Nova removes each one that has it and is not of its own making, or,
with ``[pci] report_in_placement`` off, refuses to start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import os_traits

from agent.period.parts import Parts
from reportclient.model import Provider
from reportclient.plan import Problem, as_dicts
from reportclient.provider_tree import ProviderTree, own_uuid
from reportclient.reshape import AllocationsBroken
from reportclient.view import View

MANAGED_BY_NOVA: str = os_traits.COMPUTE_MANAGED_PCI_DEVICE


@dataclass(frozen=True, slots=True)
class Restraint:
    """For one root, as it is in ``view``; ``parts`` are what the drivers say from now on."""

    root: str
    view: View
    parts: Parts

    def undo(self, tree: ProviderTree) -> Iterator[Problem]:
        """Make ``tree`` differ from what is there only where that is ours to change."""
        for uuid in [each for each in self.view.snapshot.providers if not tree.exists(each)]:
            if not self._is_ours(uuid):
                tree.put_back(uuid)
                yield self._problem(uuid, "is not this agent's, and can't be taken away")
        for uuid in tree.touched():
            known = self.view.snapshot.get(uuid)
            if known is not None and not self._is_ours(uuid):
                yield from self._as_it_was(tree, known)
            elif known is None and tree.data(uuid).parent_uuid is None:
                name = tree.data(uuid).name
                tree.remove(uuid)
                text = "a root of its own is not made with [compute] root_provider = attach"
                yield Problem(uuid, name, text)
        yield from self._root_traits(tree)
        for uuid in tree.get_provider_uuids():
            if uuid not in self.view.snapshot or self._is_ours(uuid):
                tree.remove_traits(uuid, MANAGED_BY_NOVA)

    def others(self) -> frozenset[str]:
        """What is there and is not this agent's; the root first of all."""
        return frozenset(uuid for uuid in self.view.snapshot.providers if not self._is_ours(uuid))

    def refuse_to_move(self, uuids: Iterable[str]) -> None:
        """A reshape may concern only what is ours.

        :raises AllocationsBroken: naming what is not.
        """
        known = self.view.snapshot
        others = [known.providers[u].name for u in uuids if u in known and not self._is_ours(u)]
        if others:
            raise AllocationsBroken(
                f"inventory of {', '.join(sorted(others))} is its owner's, and can't be moved "
                "with [compute] root_provider = attach"
            )

    def parts_after(self) -> Parts:
        """The same with what was given up, and without what is not wanted any more."""
        given_up = (self.parts.given_up | self._taken_away()) & self._wanted()
        return replace(self.parts, given_up=given_up, added=self.parts.added & self._there())

    def acknowledged(self, view: View) -> Parts:
        """Once Placement was written to: the traits that are there and were not before."""
        root = view.snapshot.get(self.root)
        now = frozenset[str]() if root is None else root.traits
        new = (now - self._there()) & self._wanted()
        return replace(self.parts_after(), added=(self.parts.added & now) | new)

    def _is_ours(self, uuid: str) -> bool:
        if uuid == self.root:
            return False
        name = self.view.snapshot.providers[uuid].name
        return uuid in self.view.made or uuid == own_uuid(self.root, name)

    def _as_it_was(self, tree: ProviderTree, known: Provider) -> Iterator[Problem]:
        wished, inventory = tree.data(known.uuid), as_dicts(known.inventory)
        tree.rename(known.uuid, known.name)
        tree.move(known.uuid, known.parent_uuid)
        if tree.update_inventory(known.uuid, inventory):
            other = [k for k, v in wished.inventory.items() if not _says(inventory.get(k), v)]
            if other:
                text = f"its inventory is its owner's: {', '.join(sorted(other))} not reported"
                yield self._problem(known.uuid, text)
        if wished.aggregates != known.aggregates:
            tree.update_aggregates(known.uuid, known.aggregates)
            if wished.aggregates - known.aggregates:
                yield self._problem(known.uuid, "its aggregates are its owner's: left as they are")
        tree.update_traits(known.uuid, known.traits)

    def _root_traits(self, tree: ProviderTree) -> Iterator[Problem]:
        given_up = self.parts_after().given_up
        tree.add_traits(self.root, *(self._wanted() - given_up))
        tree.remove_traits(self.root, *(self.parts.added - self._wanted()))
        for trait in sorted(given_up):
            yield self._problem(self.root, f"{trait} was taken away by its owner: not set again")

    def _wanted(self) -> frozenset[str]:
        claims = frozenset().union(*self.parts.of.values()) if self.parts.of else frozenset()
        wanted = (c.name for c in claims if c.kind == "trait" and c.uuid == self.root)
        return frozenset(wanted) - {MANAGED_BY_NOVA}

    def _there(self) -> frozenset[str]:
        return self.view.snapshot.providers[self.root].traits

    def _taken_away(self) -> frozenset[str]:
        return self.parts.added - self._there()

    def _problem(self, uuid: str, text: str) -> Problem:
        return Problem(uuid, self.view.snapshot.providers[uuid].name, text)


def _says(there: object, record: dict[str, object]) -> bool:
    """Whether what is there has all that a record says."""
    if not isinstance(there, dict):
        return False
    return all(value is None or there.get(key) == value for key, value in record.items())
