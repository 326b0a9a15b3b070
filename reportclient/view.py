"""View: the state that Placement has shown or acknowledged, with generations.  Pure.

A view is immutable: each read and each acknowledged write replaces it.  Generations are stored
nowhere else.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reportclient import forms
from reportclient.model import Names, Provider
from reportclient.plan import (
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Operation,
    Reshape,
    SetInventories,
    SetTraits,
    UpdateProvider,
    as_dicts,
    edits_of,
)
from reportclient.provider_tree import ProviderTree
from reportclient.reshape import generations_after
from reportclient.snapshot import EMPTY, Snapshot

Drained = Mapping[str, Mapping[str, int]]
"""``reserved`` of drained classes as it was before draining, by provider UUID and class."""


def opened(snapshot: Snapshot, drained: Drained) -> Snapshot:
    """Return the snapshot with each class that is drained as it was before."""
    changes = {}
    for uuid, before in drained.items():
        if (provider := snapshot.get(uuid)) is not None:
            inventory = {
                name: replace(record, reserved=min(before[name], record.total))
                if name in before and record.reserved == record.total
                else record
                for name, record in provider.inventory.items()
            }
            changes[uuid] = replace(provider, inventory=inventory)
    return snapshot.with_changes(changes)


def still_drained(drained: Drained, now: Mapping[str, Provider | None]) -> Drained:
    """Return the entries without those whose class is not fully reserved ``now``.

    Then this client has opened the class, or another client decides over it now.  The entry of a
    provider (UUID) that is not in ``now`` stays: it was neither read nor written.
    """
    entries: dict[str, Mapping[str, int]] = {}
    for uuid, before in drained.items():
        if uuid not in now:
            entries[uuid] = before
            continue
        found = now[uuid]
        records = {} if found is None else found.inventory
        full = {name for name, each in records.items() if each.reserved == each.total}
        if kept := {name: amount for name, amount in before.items() if name in full}:
            entries[uuid] = kept
    return entries


@dataclass(frozen=True, slots=True)
class View:
    """Providers, their generations, and the names that Placement knows.

    ``sharing``: UUIDs of the sharing providers; the snapshot has each as a root without children.
    ``drained``: classes that are fully reserved, or that Placement was asked to reserve, because
    they could not be removed, by provider UUID and class, with the amount that was reserved before;
    ``drained_since``: since when, by provider UUID, in seconds since the epoch.  ``certain``: false
    if Placement may differ, since nothing was read yet or a reply was lost; then read before the
    next write.  ``unread``: the providers (UUIDs) to which another client was writing, with the
    part (such as ``traits``) that was read under their generation: others may differ.
    ``restored``: Placement was found restored or emptied, so consumers may lack their allocations;
    true until whoever knows the consumers has looked.
    ``modified``: when the tree's newest provider was written, as Placement has listed it (an HTTP
    date); empty if that is unknown, as after a write of this client.
    """

    snapshot: Snapshot = field(default_factory=lambda: EMPTY)
    generations: Mapping[str, int] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    sharing: frozenset[str] = frozenset()
    drained: Drained = field(default_factory=dict)
    drained_since: Mapping[str, float] = field(default_factory=dict)
    certain: bool = False
    restored: bool = False
    modified: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)

    def edit(self) -> ProviderTree:
        """Return a mutable tree that starts from this view; drained classes are shown open."""
        return ProviderTree(opened(self.snapshot, self.drained), self.generations)

    def with_drained(self, desired: Snapshot, opened: Container[tuple[str, str]]) -> Snapshot:
        """Return ``desired``, an edit of :meth:`edit`'s tree, with drained classes left drained.

        ``opened`` are those that the edit has set, by provider UUID and class: they are opened
        again, with the record that was set.
        """
        changes = {}
        for uuid, before in self.drained.items():
            if (provider := desired.get(uuid)) is not None:
                known = self.snapshot.get(uuid)
                now = {} if known is None else known.inventory
                drained = provider.inventory.keys() & before.keys() & now.keys()
                kept = {name: now[name] for name in drained if (uuid, name) not in opened}
                changes[uuid] = replace(provider, inventory={**provider.inventory, **kept})
        return desired.with_changes(changes)

    def stale(self) -> "View":
        """Return this view marked as uncertain, so that it is verified before the next write."""
        partly = self.unread if self.certain else {}
        known = {uuid: it for uuid, it in self.generations.items() if uuid not in partly}
        return replace(self, generations=known, certain=False, unread={})

    def as_json(self) -> dict[str, Any]:
        """Return the view as JSON values, for :meth:`from_json`."""
        return {
            "providers": [
                [
                    *(each.uuid, each.name, each.parent_uuid, as_dicts(each.inventory)),
                    *(sorted(each.traits), sorted(each.aggregates)),
                ]
                for each in self.snapshot.providers.values()
            ],
            "generations": {k: v for k, v in self.generations.items() if k not in self.unread},
            "sharing": sorted(self.sharing),
            "drained": {uuid: dict(before) for uuid, before in self.drained.items()},
            "drained_since": dict(self.drained_since),
            "traits": sorted(self.names.traits),
            "classes": sorted(self.names.classes),
            "modified": self.modified,
            "restored": self.restored,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "View":
        """Return the view that was saved as ``body``, with everything of it checked.

        :raises ValueError: a value has another form.
        """
        traits, classes, sharing = (
            frozenset(forms.field(body, key, forms.TEXTS))
            for key in ("traits", "classes", "sharing")
        )
        return cls(
            Snapshot.build(forms.field(body, "providers", forms.items(_provider))),
            forms.field(body, "generations", forms.AMOUNTS),
            Names(traits, classes),
            sharing,
            forms.field(body, "drained", forms.mapping(forms.AMOUNTS)),
            forms.field(body, "drained_since", forms.mapping(float)),
            modified=forms.field(body, "modified", forms.text),
            restored=forms.field(body, "restored", bool),
        )


_CHECKS: tuple[forms.Check[Any], ...] = (
    forms.text,
    forms.text,
    forms.OPTIONAL_TEXT,
    forms.mapping(forms.inventory),
    lambda names: frozenset(forms.TEXTS(names)),
    lambda uuids: frozenset(forms.TEXTS(uuids)),
)
"""The forms of a provider's values in :meth:`View.as_json`."""


def _provider(row: Any) -> Provider:
    return Provider(*(check(value) for check, value in zip(_CHECKS, row, strict=True)))


class ViewEdit:
    """A view that is edited by the replies to a plan's operations."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._edits: dict[str, Provider | None] = {}
        self._names = view.names
        self.generations = dict(view.generations)
        self._modified = view.modified

    def provider(self, uuid: str) -> Provider | None:
        """Return a provider as it is now; ``None`` if there is none."""
        return self._edits[uuid] if uuid in self._edits else self._view.snapshot.get(uuid)

    def is_below(self, uuid: str, above: str) -> bool:
        """Return whether a provider is below another one."""
        provider = self.provider(uuid)
        while provider is not None and provider.parent_uuid is not None:
            if provider.parent_uuid == above:
                return True
            provider = self.provider(provider.parent_uuid)
        return False

    def ack(self, operation: Operation, reply: Mapping[str, Any]) -> None:
        """Record that Placement acknowledged an operation; ``reply`` is the body of its answer."""
        if isinstance(operation, DeleteProvider):
            self._edits.update(dict.fromkeys(self._below(operation.uuid)))
        self._edits.update(edits_of(operation, self.provider))
        self._modified = ""
        match operation:
            case EnsureTrait(trait):
                self._names = replace(self._names, traits=self._names.traits | {trait})
            case EnsureClass(name):
                self._names = replace(self._names, classes=self._names.classes | {name})
            case SetInventories():
                self.generations.update(generations_after(operation, self.generations))
            case Reshape():
                self._note_reshaped(operation, reply)
            case UpdateProvider():
                pass  # a rename changes no generation: a new one is another client's unread write
            case _:
                generation = reply.get("resource_provider_generation", reply.get("generation"))
                if self.provider(operation.uuid) is None:
                    self.generations.pop(operation.uuid, None)
                elif generation is not None:
                    self.generations[operation.uuid] = generation

    def _note_reshaped(self, reshape: Reshape, listed: Mapping[str, Any]) -> None:
        """Store the expected generations; forget others, which are of other clients' writes."""
        shown = {item["uuid"]: item["generation"] for item in listed["resource_providers"]}
        for uuid, generation in generations_after(reshape, self.generations).items():
            if shown.get(uuid) == generation:
                self.generations[uuid] = generation
            else:
                del self.generations[uuid]

    def _below(self, uuid: str) -> list[str]:
        """Return what the view has below a deleted provider: another client has deleted it."""
        snapshot = self._view.snapshot
        known = [each.uuid for each in snapshot.walk(uuid)] if uuid in snapshot else []
        added = (each for each, provider in self._edits.items() if provider is not None)
        return [each for each in {*known, *added} if self.is_below(each, uuid)]

    def refused(self, operation: Operation, names: frozenset[str]) -> None:
        """Record that Placement does not know these traits or classes of the operation."""
        kind = "traits" if isinstance(operation, SetTraits) else "classes"
        self._names = self._names.refused(kind, names)

    def freeze(self, desired: Snapshot | None = None, *, certain: bool) -> View:
        """Return the resulting view; its snapshot is the object ``desired`` if that is equal.

        :raises ValueError: the view lacks a write of another client: two have one name.
        """
        before = self._view.snapshot
        for uuid, provider in self._edits.items():
            holder = None if provider is None else before.named(provider.name)
            if holder is not None and holder.uuid not in self._edits:
                raise ValueError(f"providers {holder.uuid} and {uuid} have the name {holder.name}")
        if desired is not None and self._edits == {
            uuid: desired.get(uuid) for uuid in desired.changed_since(before)
        }:
            snapshot = desired
        else:
            snapshot = before.with_changes(self._edits)
        return replace(
            self._view,
            snapshot=snapshot,
            generations=self.generations,
            names=self._names,
            drained=self._view.drained and still_drained(self._view.drained, self._edits),
            certain=certain,
            modified=self._modified,
            unread={},
        )
