"""OneProvider: a provider by itself, for a service that knows its UUID: no tree is read.

A part of it (inventory, traits, aggregates) is read when it is first used, and written in one call.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import RLock
from typing import Any

from reportclient.apply import send
from reportclient.errors import Conflict, InUse, NotFound, UnknownNames, Wrong
from reportclient.http import API
from reportclient.model import (
    Inventory,
    is_custom,
    name_problem,
    read_aggregates,
    read_inventory,
    read_names,
    read_traits,
)
from reportclient.plan import SETTERS, CreateProvider, DeleteProvider, EnsureClass, EnsureTrait
from reportclient.reader import Listed, part_of, provider_by_uuid, read_part
from reportclient.root import retrying
from reportclient.schedule import Times


class OneProvider:
    """A provider (``uuid``), whatever is above, below and beside it.

    What was read or written once is known, until another client's write is met: then it is read
    and changed again, and the other client's change stays.  Custom traits and classes are created.
    Each method raises :class:`reportclient.errors.PlacementError` if a call fails.

    Threads may share it: reads and writes of what is known wait for each other.
    """

    def __init__(self, uuid: str, api: API, times: Times) -> None:
        self.uuid = uuid
        self._api = api
        self._generation = -1
        self._parts: dict[str, Any] = {}
        """The parts that are known, as they were at the generation."""
        self._lock = RLock()
        self._times = times

    def listed(self) -> Listed | None:
        """Return its item of ``GET /resource_providers``; ``None`` if it does not exist."""
        return provider_by_uuid(self.uuid, self._api)

    def usages(self) -> dict[str, int]:
        """Return the allocated amounts by resource class."""
        return dict(part_of(f"/resource_providers/{self.uuid}/usages", "usages", self._api))

    def create(self, name: str, parent: str | None = None) -> None:
        """Create the provider below ``parent`` (UUID), or as a root.

        :raises reportclient.errors.AlreadyThere: there is a provider with this UUID.
        :raises reportclient.errors.NameTaken: another provider has this name.
        :raises reportclient.errors.Conflict: there is no such parent.
        """
        with self._lock:
            reply = send(CreateProvider(self.uuid, name, parent), {}, self._api)
            self._generation = reply["generation"]
            self._parts = {"inventories": {}, "traits": frozenset(), "aggregates": frozenset()}

    def delete(self) -> None:
        """Delete the provider; it may be gone already.

        :raises reportclient.errors.InUse: consumers use it, or it has children.
        """
        with self._lock, suppress(NotFound):
            self._parts = {}
            try:
                send(DeleteProvider(self.uuid), {}, self._api)
            except Conflict as err:  # it has children, which no further try removes
                raise InUse(str(err), request_id=err.request_id) from err

    @property
    def inventory(self) -> Mapping[str, Inventory]:
        """Inventory records by resource class."""
        return dict(self._read("inventories"))

    @property
    def traits(self) -> frozenset[str]:
        """The traits."""
        return frozenset(self._read("traits"))

    @property
    def aggregates(self) -> frozenset[str]:
        """The UUIDs of the aggregates."""
        return frozenset(self._read("aggregates"))

    def set_records(self, records: Mapping[str, Mapping[str, Any] | Inventory]) -> None:
        """Set these inventory records; other classes and unset fields stay.

        :raises reportclient.errors.Wrong: no Placement takes a record.  Nothing was sent.
        """
        new = read_inventory(records, self.uuid)

        def change(old: Mapping[str, Inventory]) -> Mapping[str, Inventory]:
            full = {name: record.with_defaults(old.get(name)) for name, record in new.items()}
            for name, record in full.items():
                if text := name_problem(name, "resource class") or record.problem():
                    raise Wrong(f"provider {self.uuid}: inventory of {name}: {text}")
            return {**old, **full}

        self._change("inventories", change)

    def remove_records(self, *classes: str) -> None:
        """Remove the inventory of these classes.

        :raises reportclient.errors.InUse: consumers use it; nothing is drained.
        """
        removed = read_names(classes, f"classes of provider {self.uuid}")
        self._change("inventories", lambda old: {n: r for n, r in old.items() if n not in removed})

    def add_traits(self, *traits: str) -> None:
        """Add traits; the others stay."""
        self._change("traits", read_traits(traits, self.uuid).union)

    def remove_traits(self, *traits: str) -> None:
        """Remove these traits; the others stay."""
        removed = read_traits(traits, self.uuid)
        self._change("traits", lambda old: old - removed)

    def add_aggregates(self, *aggregates: str) -> None:
        """Add aggregates (UUIDs); the others stay."""
        self._change("aggregates", read_aggregates(aggregates, self.uuid).union)

    def remove_aggregates(self, *aggregates: str) -> None:
        """Remove these aggregates (UUIDs); the others stay."""
        removed = read_aggregates(aggregates, self.uuid)
        self._change("aggregates", lambda old: old - removed)

    def _read(self, part: str) -> Any:
        with self._lock:
            if part in self._parts:
                return self._parts[part]
            value, generation = read_part(self.uuid, part, self._api)
            if generation != self._generation:  # another client has written
                self._parts = {}
            self._keep(part, value, generation)
            return value

    def _keep(self, part: str, value: Any, generation: int) -> None:
        self._generation, self._parts[part] = generation, value
        if part == "aggregates":  # below microversion 1.19 their writes move no generation
            del self._parts[part]

    def _change(self, part: str, change: Callable[[Any], Any]) -> None:
        tries = retrying(lambda err: isinstance(err, Conflict), self._times)
        tries(self._change_once, part, change)

    def _change_once(self, part: str, change: Callable[[Any], Any]) -> None:
        with self._lock:
            before = self._read(part)
            after = change(before)
            if after == before:
                return
            generations = {self.uuid: self._generation}
            operation = SETTERS[part](self.uuid, after)
            ensure = EnsureTrait if part == "traits" else EnsureClass
            parts, self._parts = self._parts, {}  # what it is after an error is unknown
            try:
                reply = send(operation, generations, self._api)
            except UnknownNames:
                for name in filter(is_custom, {*after} - {*before}):
                    send(ensure(name), {}, self._api)
                reply = send(operation, generations, self._api)
            self._parts = parts
            self._keep(part, after, reply["resource_provider_generation"])
