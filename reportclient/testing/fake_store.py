"""The data of the fake Placement, and its rules.

Every rule is one of a real Placement: ``test_fake_equals_real`` sends both the same requests.
"""

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import os_resource_classes
import os_traits

from reportclient.errors import (
    AlreadyThere,
    Conflict,
    InUse,
    NameTaken,
    NoCapacity,
    NotFound,
    Rejected,
    UnknownNames,
)
from reportclient.model import MAX_INT, Inventory

DEFAULTS = Inventory(1).with_defaults(None).as_dict()
NAME = re.compile(r"[A-Z][A-Z0-9_]+")
LEAST = {"total": 1, "reserved": 0, "min_unit": 1, "max_unit": 1, "step_size": 1}


@dataclass
class Row:
    uuid: str
    name: str
    parent: str | None
    generation: int = 0
    inventory: dict[str, dict[str, Any]] = field(default_factory=dict)
    traits: set[str] = field(default_factory=set)
    aggregates: set[str] = field(default_factory=set)

    def expect(self, generation: int) -> None:
        if generation != self.generation:
            raise Conflict(
                f"provider {self.uuid} is at generation {self.generation}, not {generation}"
            )


@dataclass
class Consumer:
    project_id: str
    user_id: str
    consumer_type: str | None
    generation: int = 0
    uses: dict[str, dict[str, int]] = field(default_factory=dict)
    """Allocated amounts by provider UUID and resource class."""


def checked_record(record: Any) -> dict[str, Any]:
    """Return an inventory record with defaults.  :raises Rejected: it violates the JSON schema."""
    if not isinstance(record, dict) or "total" not in record:
        raise Rejected("JSON does not validate: 'total' is a required property")
    for key, value in record.items():
        if key == "allocation_ratio":
            good = isinstance(value, int | float) and not isinstance(value, bool)
        elif key in LEAST:
            good = type(value) is int and LEAST[key] <= value <= MAX_INT
        else:
            good = False
        if not good:
            raise Rejected(f"JSON does not validate: {key} is {value!r}")
    return {**DEFAULTS, **record}


def unknown(message: str, names: set[str]) -> UnknownNames | Rejected:
    """Return the error of unknown names: ``UnknownNames`` of the well-formed ones, if any."""
    proper = frozenset(name for name in names if NAME.fullmatch(name))
    return UnknownNames(message, names=proper) if proper else Rejected(message)


@cache
def _standard_traits() -> frozenset[str]:
    return frozenset(os_traits.get_traits())


class Store:
    ignores_case = False
    """Whether names of providers that differ only in the case of letters are the same, as they are
    in a MariaDB, but not in SQLite."""

    def __init__(self) -> None:
        self.providers = {}
        self.consumers: dict[str, Consumer] = {}
        self.traits = set(_standard_traits())
        self.classes = set(os_resource_classes.STANDARDS)

    @property
    def providers(self) -> dict[str, Row]:
        return self._providers

    @providers.setter
    def providers(self, rows: dict[str, Row]) -> None:
        self._providers = rows
        self._names: set[str] = set()
        self._below: dict[str | None, dict[str, None]] = {}
        for row in rows.values():
            self._indexed(row)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo all changes if the block raises."""
        before = copy.deepcopy((self.providers, self.consumers))
        try:
            yield
        except Exception:
            self.providers, self.consumers = before
            raise

    # -- looking up

    def provider(self, uuid: str) -> Row:
        try:
            return self.providers[uuid]
        except KeyError:
            raise NotFound(f"No resource provider with uuid {uuid} found") from None

    def root(self, row: Row) -> str:
        while row.parent is not None:
            row = self.providers[row.parent]
        return row.uuid

    def children(self, uuid: str) -> list[str]:
        return [*self._below.get(uuid, ())]

    def subtree(self, uuid: str) -> set[str]:
        members, waiting = set(), [uuid]
        while waiting:
            members.add(member := waiting.pop())
            waiting.extend(self.children(member))
        return members

    def used(self, uuid: str, resource_class: str) -> int:
        return sum(c.uses.get(uuid, {}).get(resource_class, 0) for c in self.consumers.values())

    def users(self, uuid: str) -> dict[str, Consumer]:
        return {key: c for key, c in self.consumers.items() if uuid in c.uses}

    def require_traits(self, names: Iterable[str]) -> None:
        missing = set(names) - self.traits
        if missing:
            raise unknown(f"No such trait(s): {', '.join(sorted(missing))}", missing)

    def require_classes(self, names: Iterable[str]) -> None:
        for name in names:  # Placement stops at the first
            if name not in self.classes:
                raise unknown(f"No such resource class {name}.", {name})

    # -- providers

    def comparable(self, name: str) -> str:
        return name.casefold() if self.ignores_case else name

    def create(self, uuid: str, name: str, parent: str | None) -> Row:
        if parent == uuid:
            raise Rejected("parent provider UUID cannot be same as UUID")
        self._check_place(name, parent)
        if uuid in self.providers:
            raise AlreadyThere(f"Conflicting resource provider uuid: {uuid} already exists.")
        self._refuse_taken(name)
        self.providers[uuid] = Row(uuid, name, parent)
        return self._indexed(self.providers[uuid])

    def update(self, uuid: str, name: str, parent: str | None, *, may_move: bool) -> Row:
        row = self.provider(uuid)
        if row.parent not in (None, parent) and not may_move:
            raise Rejected("re-parenting a provider is not currently allowed")
        self._check_place(name, parent)
        if parent in self.subtree(uuid):
            raise Conflict("creating loop in the provider tree is not allowed")
        if self.comparable(name) != self.comparable(row.name):
            self._refuse_taken(name)
        self._unindex(row)
        row.name, row.parent = name, parent
        return self._indexed(row)

    def delete(self, uuid: str) -> None:
        self.provider(uuid)
        if self.children(uuid):
            raise Conflict(f"Unable to delete parent resource provider {uuid}")
        if self.users(uuid):
            raise InUse(f"Unable to delete resource provider {uuid}: it has allocations")
        self._unindex(self.providers.pop(uuid))

    def _indexed(self, row: Row) -> Row:
        self._names.add(self.comparable(row.name))
        self._below.setdefault(row.parent, {})[row.uuid] = None
        return row

    def _unindex(self, row: Row) -> None:
        self._names.remove(self.comparable(row.name))
        del self._below[row.parent][row.uuid]

    def _check_place(self, name: str, parent: str | None) -> None:
        if not name or len(name) > 200:
            raise Rejected("a name has 1 to 200 characters")
        if parent is not None and parent not in self.providers:
            raise Conflict("parent provider UUID does not exist")

    def _refuse_taken(self, name: str) -> None:
        if self.comparable(name) in self._names:
            raise NameTaken(f"Conflicting resource provider name: {name} already exists.")

    # -- inventory and traits

    def set_inventory(self, row: Row, inventory: Mapping[str, dict[str, Any]]) -> None:
        self.require_classes(inventory)
        for name in row.inventory.keys() - inventory.keys():
            if self.used(row.uuid, name):
                raise InUse(f"Inventory for {name!r} on {row.uuid} in use.")
        row.inventory = {name: dict(record) for name, record in inventory.items()}
        row.generation += 1

    def set_traits(self, row: Row, traits: Iterable[str]) -> None:
        wanted = set(traits)
        self.require_traits(wanted)
        if wanted != row.traits:
            row.traits = wanted
            row.generation += 1

    def names(self, kind: str) -> set[str]:
        """Return the known names: ``kind`` is ``traits`` or ``resource_classes``."""
        return self.traits if kind == "traits" else self.classes

    def delete_name(self, kind: str, name: str) -> None:
        if name not in self.names(kind):
            raise NotFound(f"No such trait or resource class: {name}.")
        if not name.startswith("CUSTOM_"):
            raise Rejected(f"Cannot delete the standard {name}.")
        if any(name in {*row.traits, *row.inventory} for row in self.providers.values()):
            raise InUse(f"{name} is in use.")
        self.names(kind).remove(name)

    # -- allocations

    def consumer(self, uuid: str, body: Mapping[str, Any]) -> Consumer:
        """Return a consumer, created if it is new.  :raises Conflict: its generation differs."""
        consumer = self.consumers.get(uuid)
        if body.get("consumer_generation") != (consumer.generation if consumer else None):
            raise Conflict(f"consumer generation conflict - {uuid}")
        if consumer is None:
            consumer = self.consumers[uuid] = Consumer("", "", None)
        consumer.project_id, consumer.user_id = body["project_id"], body["user_id"]
        consumer.consumer_type = body.get("consumer_type", consumer.consumer_type)
        return consumer

    def replace_allocations(self, wanted: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the allocations of consumers, by the UUID of each.

        On an error part of it may be done: call it in a :meth:`transaction`.
        """
        consumers = {uuid: self.consumer(uuid, body) for uuid, body in wanted.items()}
        for body in wanted.values():
            for uuid in body["allocations"]:
                if uuid not in self.providers:
                    raise Conflict(f"Allocation for resource provider '{uuid}' does not exist.")
        touched = self._replace_uses(consumers, wanted)
        for uuid in touched:
            self.providers[uuid].generation += 1
        for uuid, consumer in consumers.items():
            consumer.generation += 1
            if not consumer.uses:
                del self.consumers[uuid]

    def _replace_uses(
        self, consumers: Mapping[str, Consumer], wanted: Mapping[str, Mapping[str, Any]]
    ) -> set[str]:
        touched: set[str] = set()
        before = {
            (uuid, name): self.used(uuid, name)
            for uuid, row in self.providers.items()
            for name in row.inventory
        }
        for key, consumer in consumers.items():
            new = wanted[key]["allocations"]
            touched.update(new or consumer.uses)
            consumer.uses = {uuid: dict(entry["resources"]) for uuid, entry in new.items()}
        for consumer in consumers.values():
            for uuid, resources in consumer.uses.items():
                self.require_classes(resources)
                for name, amount in resources.items():
                    self._check_fits(self.providers[uuid], name, amount, before)
        return touched

    def _check_fits(
        self, row: Row, name: str, amount: int, before: Mapping[tuple[str, str], int]
    ) -> None:
        record = row.inventory.get(name)
        if record is None:
            raise NoCapacity(f"Inventory for '{name}' on resource provider '{row.uuid}' invalid.")
        if not record["min_unit"] <= amount <= record["max_unit"] or amount % record["step_size"]:
            raise NoCapacity(f"{amount} of {name} violates min_unit, max_unit or step_size")
        capacity = (record["total"] - record["reserved"]) * record["allocation_ratio"]
        used = self.used(row.uuid, name)
        if used > capacity and not 0 < before[row.uuid, name] >= used:
            raise NoCapacity(
                f"{name} on {row.uuid}: the requested amount would exceed the capacity"
            )

    def reshape(
        self,
        inventories: Mapping[str, Mapping[str, dict[str, Any]]],
        allocations: Mapping[str, Mapping[str, Any]],
    ) -> None:
        rows = {self.providers[uuid].uuid: new for uuid, new in inventories.items()}
        for uuid, new in rows.items():
            row = self.providers[uuid]
            if new:  # first a union, so that allocations can move
                self.set_inventory(row, {**row.inventory, **new})
        self.replace_allocations(allocations)
        for uuid, new in rows.items():
            self.set_inventory(self.providers[uuid], new)
