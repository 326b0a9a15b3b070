"""What the drivers' answer must not take away.  Pure: it changes a tree that is ours.

A driver says what its part has.  It can't know that a stranger hung something below its
device, or that a class was only reserved because guests still used it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reportclient.model import Inventory
from reportclient.plan import Problem
from reportclient.provider_tree import ProviderTree, own_uuid
from reportclient.view import View


def keep_strangers(tree: ProviderTree, view: View) -> Iterator[Problem]:
    """Put back what was removed only because it is below something else, and is not ours.

    What is above it has to stay too, emptied.
    """
    for uuid in tree.taken_along():
        provider = view.snapshot.get(uuid)
        if provider is None or _is_ours(uuid, view):
            continue
        *above, _ = tree.put_back(uuid)
        for holder in above:
            tree.update_inventory(holder, {})
        text = "is below a device that is gone, and was not made by this agent: both are kept"
        yield Problem(uuid, provider.name, text)


def _is_ours(uuid: str, view: View) -> bool:
    provider = view.snapshot.providers[uuid]
    return uuid in view.made or uuid == own_uuid(view.snapshot.root_of(uuid), provider.name)


def open_again(tree: ProviderTree, view: View) -> None:
    """A class that was drained and is wanted after all gets back what was free of it.

    Unless the driver itself says now what is reserved: otherwise than it was drained, or
    all of a total that has become smaller, which it has to.
    """
    for uuid, drained in view.drained.items():
        if not tree.exists(uuid) or uuid not in view.snapshot:
            continue
        current = view.snapshot.providers[uuid].inventory
        inventory = tree.data(uuid).inventory
        for name, reserved in drained.items():
            record, known = inventory.get(name), current.get(name)
            if record and known and record.get("reserved") in (None, *_as_drained(known, record)):
                record["reserved"] = min(reserved, record["total"])
        tree.update_inventory(uuid, inventory)


def _as_drained(known: Inventory, record: Mapping[str, Any]) -> tuple[int, int]:
    reserved = known.reserved or 0
    return reserved, min(reserved, record["total"])
