"""A view as bytes, and back: what was acknowledged survives a restart.  Pure.

Whatever does not fit exactly is refused, never mended: reading Placement again costs little,
believing a wrong view costs much.
"""

from collections.abc import Mapping
from typing import Any

from reportclient.model import Inventory, Provider
from reportclient.names import Names
from reportclient.plan import as_dicts
from reportclient.sealed import DAMAGE, sealed, unsealed
from reportclient.snapshot import Snapshot
from reportclient.view import View

VERSION = 1


class UnusableView(Exception):
    """The saved bytes are damaged, of another version or of another root."""


def dump_view(view: View, root: str) -> bytes:
    """``view`` of the tree of ``root`` as bytes, for :func:`load_view`."""
    rows = [provider_row(provider) for provider in view.snapshot.providers.values()]
    kept = {"version": VERSION, "root": root, "providers": rows}
    return sealed({**kept, **view_fields(view)})


def load_view(data: bytes, root: str) -> View:
    """The view that was saved.  It still has to be verified: it is not ``certain``.

    :raises UnusableView: saying why.
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
    """All else of a view as JSON has it."""
    return {
        "generations": dict(view.generations),
        "sharing": sorted(view.sharing),
        "drained": {uuid: dict(before) for uuid, before in view.drained.items()},
        "traits": sorted(view.names.traits),
        "classes": sorted(view.names.classes),
        "absent": sorted(view.names.absent),
    }


def view_from_json(body: Mapping[str, Any]) -> View:
    """Return the view of JSON values: those of :func:`view_fields`, and ``providers``."""
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
    names = Names(*(frozenset(body[key]) for key in ("traits", "classes", "absent")))
    return View(
        Snapshot.build(providers),
        dict(body["generations"]),
        names,
        frozenset(body["sharing"]),
        {uuid: dict(before) for uuid, before in body["drained"].items()},
    )
