"""Judges of references that a driver keeps, and of the exceptions that it raises."""

import gc
import weakref
from typing import Any

from driverkit.broken import Broken, broken_by_errors
from driverkit.stage import Root, Stage
from drivers.errors import DriverNotReady, ReshapeFailed, ReshapeNeeded
from drivers.loaded import LoadedDriver

NOWHERE = "driver-kit-nowhere"
DOCUMENTED = (DriverNotReady, ReshapeNeeded, ReshapeFailed)


class _Allocations(dict[str, dict[str, Any]]):
    """A dict that can be referred to by a weakref."""


def tree_not_kept(stage: Stage) -> None:
    """Judge whether the driver keeps the tree or the allocations after it has returned."""
    loaded = stage.open()
    for root in stage.roots(loaded):
        handed = _handed_over(root, loaded)
        gc.collect()
        for what, ref in handed.items():
            if (left := ref()) is not None:
                raise Broken(
                    f"node {root.node}: {what} is still there after update_provider_tree has "
                    f"returned{_holder(loaded, left)}"
                )


def _handed_over(root: Root, loaded: LoadedDriver) -> dict[str, weakref.ref[Any]]:
    tree, allocations = root.fresh(), _Allocations()
    root.update_provider_tree(loaded, tree)
    again = root.fresh()
    root.update_provider_tree(loaded, again, allocations)
    return {
        "the tree": weakref.ref(tree),
        "the tree that came with allocations": weakref.ref(again),
        "the dict of allocations": weakref.ref(allocations),
    }


def _holder(loaded: LoadedDriver, left: object) -> str:
    """Return the driver's attribute that holds the object, as text; empty if unknown."""
    for name, value in getattr(loaded.driver, "__dict__", {}).items():
        if value is left or (isinstance(value, list | tuple | set) and left in value):
            return f", in self.{name}"
        if isinstance(value, dict) and any(item is left for item in value.values()):
            return f", in self.{name}"
    return ""


def documented_errors(stage: Stage) -> None:
    """Judge the exception for a node that the backend does not have."""
    loaded = stage.open()
    root = stage.root(NOWHERE)
    where = f"the node {NOWHERE} is in the tree but not in the backend, as when a node vanishes"
    with broken_by_errors(f"{where} between two calls:\n", *DOCUMENTED):
        root.update_provider_tree(loaded, root.fresh())
