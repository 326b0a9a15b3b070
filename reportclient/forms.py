"""The forms of Placement's answers, and of what is saved: checked where it is read.  Pure.

A check takes a value and returns it, or raises ``ValueError`` with the way to the value and what is
wrong: ``.resource_providers[3].generation is 'one', not a whole number``.  :func:`checked` turns
that into the error of a request.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from math import inf, isfinite
from reprlib import repr as shortened
from typing import Any, TypeVar

from reportclient.errors import WrongForm
from reportclient.model import INVENTORY_FIELDS, Inventory

T = TypeVar("T")
Check = Callable[[Any], T]
_SHOWN = 200
"""Maximum number of characters of a request in a message."""


def checked(request: str, check: Check[T], reply: Any) -> T:
    """Return what ``check`` makes of the answer to a request, such as ``GET /traits``.

    :raises reportclient.errors.WrongForm: the answer has another form.
    """
    try:
        return check(reply)
    except ValueError as err:
        why = f"the answer is not in Placement's format: {str(err).lstrip(' .')}"
        then = "see what answers at Placement's address"
        raise WrongForm(f"{shown(request)}: {why}; {then}") from err


def shown(path: str) -> str:
    """Return a path, shortened for a message: it may have a thousand aggregates."""
    return path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…"


def text(value: Any) -> str:
    """Check a text."""
    if isinstance(value, str):
        return value
    raise ValueError(f" is {shortened(value)}, not a text")


def optional(check: Check[T]) -> Check[T | None]:
    """Return the check of a value that may be ``None``."""
    return lambda value: None if value is None else check(value)


def matching(pattern: str, what: str) -> Check[str]:
    """Return the check of a text that a regular expression describes; ``what`` names it."""
    compiled = re.compile(pattern)

    def check_text(value: Any) -> str:
        if compiled.fullmatch(text(value)):
            return str(value)
        raise ValueError(f" is {shortened(value)}, not {what}")

    return check_text


def number(value: Any, least: float = -inf) -> int:
    """Check a whole number, which is not below ``least``; a bool is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value >= least:
            return value
        raise ValueError(f" is {value}, below {least}")
    raise ValueError(f" is {shortened(value)}, not a whole number")


def count(value: Any) -> int:
    """Check a whole number from 0 on."""
    return number(value, least=0)


def inventory(value: Any) -> Inventory:
    """Check an inventory record; fields of a later Placement are ignored."""
    fields = {key: known for key, known in _object(value).items() if key in INVENTORY_FIELDS}
    try:
        record = Inventory.from_dict(fields)
    except ValueError as err:
        raise ValueError(f": {err}") from None
    if isfinite(record.allocation_ratio or 0):
        return record
    raise ValueError(f".allocation_ratio is {record.allocation_ratio}, not a number")


def field(value: Any, key: str, check: Check[T]) -> T:
    """Check the value of a key of a JSON object."""
    if key not in _object(value):
        raise ValueError(f".{key} is missing")
    return _at(f".{key}", check, value[key])


def items(check: Check[T]) -> Check[list[T]]:
    """Return the check of a list, each item of which passes ``check``."""

    def check_items(value: Any) -> list[T]:
        if not isinstance(value, list):
            raise ValueError(f" is {shortened(value)}, not a list")
        return [_at(f"[{position}]", check, item) for position, item in enumerate(value)]

    return check_items


def _at(place: str, check: Check[T], value: Any) -> T:
    try:
        return check(value)
    except ValueError as err:
        raise ValueError(f"{place}{err}") from None


def mapping(check: Check[T]) -> Check[dict[str, T]]:
    """Return the check of a JSON object, each value of which passes ``check``."""
    return lambda value: {text(key): field(value, key, check) for key in _object(value)}


def _object(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise ValueError(f" is {shortened(value)}, not a JSON object")


def record(**checks: Check[Any]) -> Check[Mapping[str, Any]]:
    """Return the check of a JSON object with these keys; it may have others."""

    def check_record(value: Any) -> Mapping[str, Any]:
        for key, check in checks.items():
            field(value, key, check)
        return _object(value)

    return check_record


def empty(value: Any) -> Mapping[str, Any]:
    """Check that there is no answer."""
    if not value:
        return _object(value)
    raise ValueError(f" is {shortened(value)}, not empty")


def provider(value: Any) -> Mapping[str, Any]:
    """Check an item of ``GET /resource_providers``, and the answer to a write of a provider."""
    fields = _PROVIDER(value)
    root, parent = fields["root_provider_uuid"], fields["parent_provider_uuid"]
    if root is None or (root == fields["uuid"]) == (parent is None):
        return fields
    raise ValueError(f": its root is {root}, its parent {parent}")


OPTIONAL_TEXT = optional(text)
UUID = matching("[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}", "a UUID")
NAME = matching("[A-Z0-9_]{1,255}", "the name of a trait or resource class")
TEXTS, NAMES, UUIDS, AMOUNTS = items(text), items(NAME), items(UUID), mapping(count)
_PROVIDER = record(
    uuid=UUID,
    name=text,
    generation=count,
    parent_provider_uuid=optional(UUID),
    root_provider_uuid=optional(UUID),
)
PARTS: Mapping[str, Check[Any]] = {
    "resource_providers": items(provider),
    "resource_classes": items(record(name=NAME)),
    "inventories": mapping(inventory),
    "traits": NAMES,
    "aggregates": UUIDS,
    "usages": AMOUNTS,
    "allocations": mapping(record(resources=AMOUNTS)),
}
"""Checks of the parts of answers, by the key of each."""
_OWNED = record(project_id=text, user_id=text, consumer_generation=count)


def consumer_allocations(value: Any) -> dict[str, Any]:
    """Check the answer to ``GET /allocations/{consumer_uuid}``."""
    held = field(value, "allocations", PARTS["allocations"])
    return dict(_OWNED(value) if held else value)


_MICROVERSION = re.compile("[0-9]{1,9}[.][0-9]{1,9}")


@cache
def parse_microversion(version: str) -> tuple[int, ...]:
    """Return ``1.10`` as ``(1, 10)``.

    :raises ValueError: the text is not two decimal numbers with a dot between them.

    >>> parse_microversion("1.9") < parse_microversion("1.10")
    True
    """
    if not _MICROVERSION.fullmatch(version):
        raise ValueError(f"{version!r} is not a microversion such as '1.39'")
    major, minor = version.split(".")
    return int(major), int(minor)


CHECKSUM = "sha256"
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""Exceptions that reading damaged data can raise, including too deeply nested JSON."""


def sealed(fields: Mapping[str, Any]) -> bytes:
    """Return JSON-compatible fields with their checksum as bytes: plain, readable JSON."""
    return json.dumps({**fields, CHECKSUM: _checksum(fields)}, indent=1).encode() + b"\n"


def unsealed(data: bytes) -> dict[str, Any]:
    """Return the fields without the checksum.

    :raises ValueError: (or another of ``DAMAGE``) the data is damaged.

    >>> unsealed(sealed({"version": 1}))
    {'version': 1}
    """
    try:
        fields = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(fields, dict):
        raise TypeError("it is not a JSON object")
    checksum = fields.pop(CHECKSUM, None)
    if checksum != _checksum(fields):
        raise ValueError("its checksum is wrong" if checksum else "it has no checksum")
    return fields


def _checksum(fields: Mapping[str, Any]) -> str:
    """Return the checksum of the fields, independent of their order and spacing."""
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
