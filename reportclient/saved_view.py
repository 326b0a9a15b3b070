"""A view as bytes, and back: what was acknowledged survives a restart.  Pure.

Two lines: a header with the format's version, the root and a checksum, and the
view.  Whatever does not fit exactly is refused, never mended: reading Placement
again costs little, believing a wrong view costs much.
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

VERSION = 2


class UnusableView(Exception):
    """The saved bytes are damaged, of another version or of another root."""


def saved(view: View, root: str) -> bytes:
    """``view`` of the tree of ``root`` as bytes."""
    rows = [provider_row(provider) for provider in view.snapshot.providers.values()]
    body = json.dumps(
        {"providers": rows, **besides_providers(view)}, separators=(",", ":")
    ).encode()
    header = {"version": VERSION, "root": root, "sha256": hashlib.sha256(body).hexdigest()}
    return json.dumps(header).encode() + b"\n" + body + b"\n"


def restored(data: bytes, root: str) -> View:
    """The view that was saved.  It still has to be verified: it is not ``certain``.

    :raises UnusableView: saying why.
    """
    first, _, body = data.partition(b"\n")
    body = body.removesuffix(b"\n")
    header = _header(first)
    if header.get("version") != VERSION:
        raise UnusableView(f"it has version {header.get('version')}, not {VERSION}")
    if header.get("root") != root:
        raise UnusableView(f"it is of another root, {header.get('root')}")
    if header.get("sha256") != hashlib.sha256(body).hexdigest():
        raise UnusableView("its checksum is wrong")
    try:
        return view_of(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise UnusableView(f"it can't be read: {err}") from err


def _header(line: bytes) -> Mapping[str, Any]:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise UnusableView("it has no header")
    return header


def provider_row(provider: Provider) -> list[Any]:
    """One provider as JSON has it."""
    return [
        provider.uuid,
        provider.name,
        provider.parent_uuid,
        as_dicts(provider.inventory),
        sorted(provider.traits),
        sorted(provider.aggregates),
    ]


def besides_providers(view: View) -> dict[str, Any]:
    """All else of a view as JSON has it."""
    return {
        "generations": dict(view.generations),
        "sharing": sorted(view.sharing),
        "drained": {uuid: dict(before) for uuid, before in view.drained.items()},
        "traits": sorted(view.known.traits),
        "classes": sorted(view.known.classes),
        "absent": sorted(view.known.absent),
    }


def view_of(body: Mapping[str, Any]) -> View:
    """What :func:`besides_providers` gave, with ``providers``, the rows of all."""
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
    known = Names(*(frozenset(body[key]) for key in ("traits", "classes", "absent")))
    return View(
        Snapshot.build(providers),
        dict(body["generations"]),
        known,
        frozenset(body["sharing"] if "sharing" in body else body["strangers"]),
        {uuid: dict(before) for uuid, before in body["drained"].items()},
    )
