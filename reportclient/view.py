"""View: the state that Placement has shown or acknowledged, with generations.  Pure.

A view is immutable: each read and each acknowledged write replaces it.  Generations are stored
nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reportclient.names import Names
from reportclient.plan import (
    EnsureClass,
    EnsureTrait,
    Operation,
    Reshape,
    SetInventories,
    SetInventory,
    UpdateProvider,
    replay,
)
from reportclient.provider_tree import ProviderTree
from reportclient.reshape import generations_after
from reportclient.snapshot import EMPTY, Snapshot


@dataclass(frozen=True, slots=True)
class View:
    """Providers, their generations, and the names that Placement knows.

    ``sharing``: UUIDs of the sharing providers; the snapshot has each as a root without children.
    ``drained``: classes that are fully reserved because they could not be removed, by provider
    UUID and class, with the amount that was reserved before.  ``certain``: false if Placement may
    differ, since nothing was read yet or a reply was lost; then read before the next write.
    """

    snapshot: Snapshot = field(default_factory=lambda: EMPTY)
    generations: Mapping[str, int] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    sharing: frozenset[str] = frozenset()
    drained: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    certain: bool = False

    def edit(self) -> ProviderTree:
        """Return a mutable tree that starts from this view."""
        return ProviderTree(self.snapshot, self.generations)

    def stale(self) -> "View":
        """Return this view marked as uncertain, so that it is verified before the next write."""
        return replace(self, certain=False)


class ViewEdit:
    """A view that is updated by the replies to a plan's operations."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._tree = view.edit()
        self._names = view.names
        self._drained = dict(view.drained)
        self.generations = dict(view.generations)

    def ack(self, operation: Operation, reply: Mapping[str, Any]) -> None:
        """Record that Placement acknowledged an operation; ``reply`` is the body of its answer."""
        replay(operation, self._tree)
        match operation:
            case EnsureTrait(trait):
                self._names = replace(self._names, traits=self._names.traits | {trait})
            case EnsureClass(name):
                self._names = replace(self._names, classes=self._names.classes | {name})
            case SetInventory(uuid, drains=drains):
                self._note_generation(uuid, reply)
                self._note_drains(uuid, drains)
            case SetInventories(inventories):
                for uuid in inventories:
                    self._note_drains(uuid, {})
                self.generations.update(generations_after(operation, self.generations))
            case Reshape():
                self._note_reshaped(operation, reply)
            case UpdateProvider():
                pass  # a rename changes no generation: a new one is another client's unread write
            case _:
                self._note_generation(operation.uuid, reply)

    def refused(self, names: frozenset[str]) -> None:
        """Record that Placement does not know these traits or resource classes."""
        self._names = self._names.refused(names)

    def children(self, uuid: str) -> list[str]:
        """Return the UUIDs of all acknowledged providers below this one."""
        return self._tree.get_provider_uuids(uuid)[1:]

    def freeze(self, desired: Snapshot | None = None, *, certain: bool) -> View:
        """Return the resulting view; its snapshot is the object ``desired`` if that is equal."""
        return replace(
            self._view,
            snapshot=self._tree.freeze(desired),
            generations=self.generations,
            names=self._names,
            drained=self._drained,
            certain=certain,
        )

    def _note_generation(self, uuid: str, reply: Mapping[str, Any]) -> None:
        generation = reply.get("resource_provider_generation", reply.get("generation"))
        if not self._tree.exists(uuid):
            self.generations.pop(uuid, None)
            self._drained.pop(uuid, None)
        elif generation is not None:
            self.generations[uuid] = generation

    def _note_drains(self, uuid: str, drains: Mapping[str, int]) -> None:
        if drains:
            self._drained[uuid] = {**drains, **self._drained.get(uuid, {})}
        else:
            self._drained.pop(uuid, None)

    def _note_reshaped(self, reshape: Reshape, listed: Mapping[str, Any]) -> None:
        """Store the expected generations; forget others, which are of other clients' writes."""
        expected = generations_after(reshape, self.generations)
        shown = {item["uuid"]: item["generation"] for item in listed["resource_providers"]}
        for uuid, generation in expected.items():
            if shown.get(uuid) == generation:
                self.generations[uuid] = generation
            else:
                del self.generations[uuid]
