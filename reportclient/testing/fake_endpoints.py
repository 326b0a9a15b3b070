"""The endpoints of the fake Placement, one method each."""

import re
import uuid as uuidlib
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from reportclient.errors import Conflict, NotFound, Rejected
from reportclient.testing.fake_store import DEFAULTS, Row, Store, checked_record

AGGREGATE_GENERATIONS = (1, 19)


@dataclass(frozen=True)
class Call:
    query: list[tuple[str, str]]
    body: Any
    version: tuple[int, ...]


class Endpoints:
    def __init__(self) -> None:
        self.store = Store()

    # -- providers

    def list_providers(self, call: Call) -> dict[str, Any]:
        rows = list(self.store.providers.values())
        for key, value in call.query:
            rows = list(filter(self._filter(key, value), rows))
        return {"resource_providers": [self._shown(row) for row in rows]}

    def create_provider(self, call: Call) -> dict[str, Any]:
        keys(call.body, required={"name"}, optional={"uuid", "parent_provider_uuid"})
        uuid = call.body.get("uuid") or str(uuidlib.uuid4())
        parent = optional_uuid(call.body.get("parent_provider_uuid"))
        row = self.store.create(canonical(uuid), call.body["name"], parent)
        return self._shown(row)

    def show_provider(self, call: Call, uuid: str) -> dict[str, Any]:
        return self._shown(self.store.provider(uuid))

    def update_provider(self, call: Call, uuid: str) -> dict[str, Any]:
        row = self.store.provider(uuid)
        keys(call.body, required={"name"}, optional={"parent_provider_uuid"})
        parent = optional_uuid(call.body.get("parent_provider_uuid", row.parent))
        may_move = call.version >= (1, 37)
        return self._shown(self.store.update(uuid, call.body["name"], parent, may_move=may_move))

    def delete_provider(self, call: Call, uuid: str) -> dict[str, Any]:
        self.store.delete(uuid)
        return {}

    def _shown(self, row: Row) -> dict[str, Any]:
        return {
            "uuid": row.uuid,
            "name": row.name,
            "generation": row.generation,
            "parent_provider_uuid": row.parent,
            "root_provider_uuid": self.store.root(row),
        }

    def _filter(self, key: str, value: str) -> Callable[[Row], bool]:
        if key == "name":
            comparable = self.store.comparable
            return lambda row: comparable(row.name) == comparable(value)
        if key == "uuid":
            return lambda row: row.uuid == value
        if key == "in_tree":
            anchor = self.store.providers.get(canonical(value))
            tree = self.store.subtree(self.store.root(anchor)) if anchor else set()
            return lambda row: row.uuid in tree
        if key == "member_of":
            wanted = {canonical(item) for item in value.removeprefix("in:").split(",")}
            return lambda row: bool(row.aggregates & wanted)
        if key == "required" and not value.startswith("in:"):
            traits = {name.lstrip("!"): not name.startswith("!") for name in value.split(",")}
            self.store.require_traits(traits)
            return lambda row: all((name in row.traits) is has for name, has in traits.items())
        raise AssertionError(f"the fake Placement does not model the filter {key}={value}")

    # -- inventories, traits, aggregates and usages of a provider

    def show_inventories(self, call: Call, uuid: str) -> dict[str, Any]:
        row = self.store.provider(uuid)
        return {"inventories": row.inventory, "resource_provider_generation": row.generation}

    def set_inventories(self, call: Call, uuid: str) -> dict[str, Any]:
        row = self.store.provider(uuid)
        inventories = checked_inventories(call.body)
        row.expect(call.body["resource_provider_generation"])
        for name, record in inventories.items():
            if int((record["total"] - record["reserved"]) * record["allocation_ratio"]) < 0:
                raise Rejected(f"Invalid inventory for '{name}' on resource provider '{uuid}'.")
        self.store.set_inventory(row, inventories)
        return self.show_inventories(call, uuid)

    def show_traits(self, call: Call, uuid: str) -> dict[str, Any]:
        row = self.store.provider(uuid)
        return {"traits": sorted(row.traits), "resource_provider_generation": row.generation}

    def set_traits(self, call: Call, uuid: str) -> dict[str, Any]:
        keys(call.body, required={"traits", "resource_provider_generation"})
        row = self.store.provider(uuid)
        row.expect(call.body["resource_provider_generation"])
        self.store.set_traits(row, call.body["traits"])
        return self.show_traits(call, uuid)

    def show_aggregates(self, call: Call, uuid: str) -> dict[str, Any]:
        row = self.store.provider(uuid)
        shown: dict[str, Any] = {"aggregates": sorted(row.aggregates)}
        if call.version >= AGGREGATE_GENERATIONS:
            shown["resource_provider_generation"] = row.generation
        return shown

    def set_aggregates(self, call: Call, uuid: str) -> dict[str, Any]:
        row = self.store.provider(uuid)
        members = call.body
        if call.version >= AGGREGATE_GENERATIONS:
            keys(call.body, required={"aggregates", "resource_provider_generation"})
            members = call.body["aggregates"]
        if len(set(members)) != len(members):
            raise Rejected("JSON does not validate: aggregates has non-unique elements")
        wanted = {member for member in members if canonical(member)}  # as they are written
        if call.version >= AGGREGATE_GENERATIONS:
            row.expect(call.body["resource_provider_generation"])
            row.generation += 1
        row.aggregates = wanted
        return self.show_aggregates(call, uuid)

    def show_usages(self, call: Call, uuid: str) -> dict[str, Any]:
        row = self.store.provider(uuid)
        usages = {name: self.store.used(uuid, name) for name in row.inventory}
        return {"usages": usages, "resource_provider_generation": row.generation}

    def show_provider_allocations(self, call: Call, uuid: str) -> dict[str, Any]:
        row = self.store.provider(uuid)
        users = {
            key: {"resources": consumer.uses[uuid], "consumer_generation": consumer.generation}
            for key, consumer in self.store.users(uuid).items()
        }
        return {"allocations": users, "resource_provider_generation": row.generation}

    # -- names

    def list_traits(self, call: Call) -> dict[str, Any]:
        assert not call.query, f"the fake Placement does not model GET /traits with {call.query}"
        return {"traits": sorted(self.store.traits)}

    def list_classes(self, call: Call) -> dict[str, Any]:
        return {"resource_classes": [{"name": name} for name in sorted(self.store.classes)]}

    def ensure_name(self, call: Call, kind: str, name: str) -> dict[str, Any]:
        if not CUSTOM.fullmatch(name) or len(name) > 255:
            raise Rejected(f"{name} is invalid: CUSTOM_ and A-Z, 0-9 and _")
        self.store.names(kind).add(name)
        return {}

    def delete_name(self, call: Call, kind: str, name: str) -> dict[str, Any]:
        self.store.delete_name(kind, name)
        return {}

    # -- allocations

    def show_allocations(self, call: Call, consumer_uuid: str) -> dict[str, Any]:
        consumer = self.store.consumers.get(consumer_uuid)
        if consumer is None:
            return {"allocations": {}}
        uses = {
            uuid: {"resources": used, "generation": self.store.providers[uuid].generation}
            for uuid, used in consumer.uses.items()
        }
        shown = {
            "allocations": uses,
            "project_id": consumer.project_id,
            "user_id": consumer.user_id,
            "consumer_generation": consumer.generation,
        }
        if call.version >= (1, 38):
            shown["consumer_type"] = consumer.consumer_type or "unknown"
        return shown

    def set_allocations(self, call: Call, consumer_uuid: str) -> dict[str, Any]:
        consumer = canonical(consumer_uuid)
        check_allocations(call.body, call.version)
        with self.store.transaction():
            self.store.replace_allocations({consumer: call.body})
        return {}

    def delete_allocations(self, call: Call, consumer_uuid: str) -> dict[str, Any]:
        if consumer_uuid not in self.store.consumers:
            raise NotFound(f"No allocations for consumer '{consumer_uuid}'")
        del self.store.consumers[consumer_uuid]
        return {}

    def reshape(self, call: Call) -> dict[str, Any]:
        keys(call.body, required={"inventories", "allocations"})
        if not call.body["inventories"]:
            raise Rejected("JSON does not validate: {} does not have enough properties")
        for body in call.body["allocations"].values():
            check_allocations(body, call.version)
        inventories = {
            uuid: checked_inventories(body) for uuid, body in call.body["inventories"].items()
        }
        for uuid, body in call.body["inventories"].items():
            if uuid not in self.store.providers:
                raise Conflict(f"Resource provider {uuid} in inventories not found")
            self.store.providers[uuid].expect(body["resource_provider_generation"])
        with self.store.transaction():
            self.store.reshape(inventories, call.body["allocations"])
        return {}


_UUID = "([^/]+)"
_OF = f"/resource_providers/{_UUID}"
ROUTES: list[tuple[str, re.Pattern[str], Callable[..., dict[str, Any]]]] = [
    (method, re.compile(path), handler)
    for method, path, handler in (
        ("GET", "/resource_providers", Endpoints.list_providers),
        ("POST", "/resource_providers", Endpoints.create_provider),
        ("GET", _OF, Endpoints.show_provider),
        ("PUT", _OF, Endpoints.update_provider),
        ("DELETE", _OF, Endpoints.delete_provider),
        ("GET", f"{_OF}/inventories", Endpoints.show_inventories),
        ("PUT", f"{_OF}/inventories", Endpoints.set_inventories),
        ("GET", f"{_OF}/traits", Endpoints.show_traits),
        ("PUT", f"{_OF}/traits", Endpoints.set_traits),
        ("GET", f"{_OF}/aggregates", Endpoints.show_aggregates),
        ("PUT", f"{_OF}/aggregates", Endpoints.set_aggregates),
        ("GET", f"{_OF}/usages", Endpoints.show_usages),
        ("GET", f"{_OF}/allocations", Endpoints.show_provider_allocations),
        ("GET", "/traits", Endpoints.list_traits),
        ("GET", "/resource_classes", Endpoints.list_classes),
        ("PUT", f"/(traits|resource_classes)/{_UUID}", Endpoints.ensure_name),
        ("DELETE", f"/(traits|resource_classes)/{_UUID}", Endpoints.delete_name),
        ("GET", f"/allocations/{_UUID}", Endpoints.show_allocations),
        ("PUT", f"/allocations/{_UUID}", Endpoints.set_allocations),
        ("DELETE", f"/allocations/{_UUID}", Endpoints.delete_allocations),
        ("POST", "/reshaper", Endpoints.reshape),
    )
]


CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+")


def keys(
    body: Any, *, required: AbstractSet[str], optional: AbstractSet[str] = frozenset()
) -> None:
    if not isinstance(body, dict) or not required <= body.keys() <= required | optional:
        raise Rejected(f"JSON does not validate: {body!r}")


def checked_inventories(body: Any) -> dict[str, dict[str, Any]]:
    keys(body, required={"resource_provider_generation", "inventories"})
    # Placement does not check the record of a malformed class; the class is unknown anyway.
    return {
        name: checked_record(record)
        if re.fullmatch(r"[A-Z0-9_]+", name)
        else {**DEFAULTS, **record}
        for name, record in body["inventories"].items()
    }


def check_allocations(body: Any, version: tuple[int, ...]) -> None:
    required = {"allocations", "project_id", "user_id", "consumer_generation"}
    if version >= (1, 38):
        required.add("consumer_type")
    keys(body, required=required, optional={"mappings"} if version >= (1, 34) else frozenset())
    for key in required & {"project_id", "user_id", "consumer_type"}:
        form = r"[A-Z0-9_]{1,255}" if key == "consumer_type" else r"(?s:.{1,255})"
        if not isinstance(body[key], str) or not re.fullmatch(form, body[key]):
            raise Rejected(f"JSON does not validate: {key} is {body[key]!r}")
    if type(body["consumer_generation"]) not in (int, type(None)):
        raise Rejected("JSON does not validate: consumer_generation is a number or null")
    for uuid, entry in body["allocations"].items():
        canonical(uuid)
        keys(entry, required={"resources"}, optional={"generation"})
        amounts: Iterable[Any] = entry["resources"].values()
        if not entry["resources"] or not all(type(n) is int and n >= 1 for n in amounts):
            raise Rejected(f"JSON does not validate: {entry['resources']!r}")


def optional_uuid(value: Any) -> str | None:
    return None if value is None else canonical(value)


def canonical(value: Any) -> str:
    try:
        return str(uuidlib.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise Rejected(f"{value!r} is not a 'uuid'") from None
