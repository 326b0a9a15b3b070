"""Ask the drivers what a node has.

Each driver gets the tree as the ones before it left it.  What one of them does
before it fails is dropped, the others' part stays.  ``ReshapeNeeded`` becomes a
value here and nowhere else.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from drivers.errors import DriverError, ReshapeFailed, ReshapeNeeded
from drivers.loader import LoadedDriver
from reportclient.model import Allocations
from reportclient.provider_tree import ProviderTree

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wish:
    """The drivers' answer.

    ``allocations`` are as they shall be after a reshape, ``None`` without one, and
    ``allocations_before`` as they were;
    ``errors`` are by driver; ``reshape_pending`` are the drivers that need a reshape
    which was not allowed now.
    """

    tree: ProviderTree
    allocations: Allocations | None = None
    errors: Mapping[str, BaseException] = field(default_factory=dict)
    reshape_pending: tuple[str, ...] = ()
    allocations_before: Allocations | None = None


def ask_drivers(
    drivers: Sequence[LoadedDriver],
    fresh: Callable[[], ProviderTree],
    node: str,
    allocations: Callable[[], Allocations] | None,
) -> Wish:
    """Let each driver say on a tree what ``node`` has.

    ``fresh`` makes a tree of what Placement has.  ``allocations`` reads them, for a
    reshape; ``None`` means that none may be done now.
    """
    first = _ask_each(drivers, fresh(), node, None)
    if not first.reshape_pending or allocations is None:
        return first
    before = allocations()
    moved = copy.deepcopy(before)
    second = _ask_each(drivers, fresh(), node, moved)
    if second.errors.keys() & set(first.reshape_pending):
        # It may have edited half of the allocations: nothing is moved now.
        return replace(first, errors={**first.errors, **second.errors})
    return replace(second, allocations=moved, allocations_before=before)


def _ask_each(
    drivers: Sequence[LoadedDriver],
    tree: ProviderTree,
    node: str,
    allocations: Allocations | None,
) -> Wish:
    errors: dict[str, BaseException] = {}
    pending = []
    for loaded in drivers:
        attempt = copy.deepcopy(tree)
        try:
            loaded.driver.update_provider_tree(attempt, node, allocations)
        except ReshapeNeeded:
            pending.append(loaded.name)
        except ReshapeFailed:
            raise
        except (Exception, SystemExit) as err:  # noqa: BLE001  the agent lives on, whatever it is
            errors[loaded.name] = err
        else:
            if attempt.exists(node):
                tree = attempt
            else:
                errors[loaded.name] = DriverError(f"it took the root provider {node} away")
    return Wish(tree, None, errors, tuple(pending))
