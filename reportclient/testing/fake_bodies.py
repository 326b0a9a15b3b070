"""Check request bodies as Placement's JSON schemas do; an invalid one raises ``Rejected``."""

import re
import uuid as uuidlib
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

from reportclient.errors import Rejected
from reportclient.testing.fake_store import checked_record

CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+")
_ANY = {"total": 1, "reserved": 0, "allocation_ratio": 1.0}


def keys(
    body: Any, *, required: AbstractSet[str], optional: AbstractSet[str] = frozenset()
) -> None:
    if not isinstance(body, dict) or not required <= body.keys() <= required | optional:
        raise Rejected(f"JSON does not validate: {body!r}")


def checked_inventories(body: Any) -> dict[str, dict[str, Any]]:
    keys(body, required={"resource_provider_generation", "inventories"})
    # Placement does not check the record of a malformed class; the class is unknown anyway.
    return {
        name: checked_record(record) if re.fullmatch(r"[A-Z0-9_]+", name) else {**_ANY, **record}
        for name, record in body["inventories"].items()
    }


def check_allocations(body: Any, version: tuple[int, ...]) -> None:
    required = {"allocations", "project_id", "user_id", "consumer_generation"}
    if version >= (1, 38):
        required.add("consumer_type")
    keys(body, required=required, optional={"mappings"} if version >= (1, 34) else frozenset())
    for uuid, entry in body["allocations"].items():
        canonical(uuid)
        keys(entry, required={"resources"}, optional={"generation"})
        amounts: Iterable[Any] = entry["resources"].values()
        if not entry["resources"] or not all(type(n) is int and n >= 1 for n in amounts):
            raise Rejected(f"JSON does not validate: {entry['resources']!r}")


def custom(name: str) -> None:
    if not CUSTOM.fullmatch(name) or len(name) > 255:
        raise Rejected(f"{name} is invalid: CUSTOM_ and A-Z, 0-9 and _")


def optional_uuid(value: Any) -> str | None:
    return None if value is None else canonical(value)


def canonical(value: Any) -> str:
    try:
        return str(uuidlib.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise Rejected(f"{value!r} is not a 'uuid'") from None
