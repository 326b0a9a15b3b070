"""Pure: the same thing under the name that it had while the host was called otherwise.

All names begin with the host's, and so do what UUIDs are made of: a host that is renamed
has new providers, which get what the old ones had, allocations with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from reportclient.model import ProviderData
from reportclient.provider_tree import ProviderTree

GROUP = "_all_"
_CELL = re.compile(r".+_numa\d+")


def is_cell_of_any(name: str) -> bool:
    """Whether a provider of this name is a NUMA cell, whatever the host is called."""
    return _CELL.fullmatch(name) is not None and GROUP not in name


def is_same_thing(node: str, name: str, old: str) -> bool:
    """Whether ``name``, a child of ``node``, was ``old`` below a node with another name.

    A group on a cell, ``<node>_all_VGPU_numa0``, ends like the cell and is none.
    """
    what = name.removeprefix(node)
    if not name.startswith(f"{node}_") or not old.endswith(what) or old.startswith(f"{node}_"):
        return False
    other_node = old.removesuffix(what)
    return bool(other_node) and GROUP not in other_node


def predecessor(tree: ProviderTree, node: str, name: str, gone: Iterable[str]) -> str | None:
    """The UUID of the provider of ``gone`` that was the same thing."""
    return next((uuid for uuid in gone if is_same_thing(node, name, tree.data(uuid).name)), None)


def inherited(
    inventory: Mapping[str, Mapping[str, Any]], old: ProviderData
) -> dict[str, Mapping[str, Any]]:
    """``inventory``, where it says nothing of what is reserved with what the old one had."""
    return {
        name: {"reserved": min(_reserved(old, name), record["total"]), **record}
        for name, record in inventory.items()
    }


def _reserved(old: ProviderData, name: str) -> int:
    return int(old.inventory.get(name, {}).get("reserved") or 0)
