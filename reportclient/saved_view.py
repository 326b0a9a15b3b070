"""Serialize views with a checksum, so that they survive a restart.  Pure.

Data that does not fit exactly is refused, never repaired: reading Placement again is cheap,
acting on a wrong view is not.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from reportclient.model import Inventory, Provider
from reportclient.names import Names
from reportclient.plan import as_dicts
from reportclient.snapshot import Snapshot
from reportclient.view import View

VERSION = 1


class UnusableView(Exception):
    """The saved bytes are damaged, of another version or of another root."""


def dump_view(view: View, root: str) -> bytes:
    """Return the view of the tree of ``root`` (UUID) as bytes, for :func:`load_view`."""
    rows = [provider_row(provider) for provider in view.snapshot.providers.values()]
    head = {"version": VERSION, "root": root, "providers": rows}
    return sealed({**head, **view_fields(view)})


def load_view(data: bytes, root: str) -> View:
    """Return the view that :func:`dump_view` saved; it is not ``certain`` until it is verified.

    :raises UnusableView: the data is damaged, of another version or of another root.
    """
    try:
        fields = unsealed(data)
        for name, wanted in (("version", VERSION), ("root", root)):
            if fields[name] != wanted:
                raise ValueError(f"its {name} is {fields[name]}, not {wanted}")
        return view_from_json(fields)
    except DAMAGE as err:
        raise UnusableView(f"the saved view of the root {root} can't be used: {err}") from err


def provider_row(provider: Provider) -> list[Any]:
    """Return a provider as JSON values."""
    return [
        provider.uuid,
        provider.name,
        provider.parent_uuid,
        as_dicts(provider.inventory),
        sorted(provider.traits),
        sorted(provider.aggregates),
    ]


def view_fields(view: View) -> dict[str, Any]:
    """Return the rest of a view, besides the providers, as JSON values."""
    return {
        "generations": dict(view.generations),
        "sharing": sorted(view.sharing),
        "drained": {uuid: dict(before) for uuid, before in view.drained.items()},
        "traits": sorted(view.names.traits),
        "classes": sorted(view.names.classes),
    }


def view_from_json(body: Mapping[str, Any]) -> View:
    """Return the view of ``body``: the values of :func:`view_fields`, and ``providers`` as rows."""
    providers = (
        Provider(
            uuid,
            name,
            parent,
            {key: Inventory.from_dict(record) for key, record in inventory.items()},
            frozenset(traits),
            frozenset(aggregates),
        )
        for uuid, name, parent, inventory, traits, aggregates in body["providers"]
    )
    names = Names(*(frozenset(body[key]) for key in ("traits", "classes")))
    return View(
        Snapshot.build(providers),
        dict(body["generations"]),
        names,
        frozenset(body["sharing"]),
        {uuid: dict(before) for uuid, before in body["drained"].items()},
    )


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
