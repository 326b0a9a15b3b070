"""Ask the drivers what a node has.

Each driver gets the tree as the ones before it left it.  What one of them does
before it fails is dropped, the others' part stays.  ``ReshapeNeeded`` becomes a
value here and nowhere else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from drivers.errors import DriverError, ReshapeNeeded
from drivers.loader import LoadedDriver
from reportclient.model import Allocations
from reportclient.provider_tree import ProviderTree


@dataclass(frozen=True, slots=True)
class Wish:
    """The drivers' answer.

    ``allocations`` are as they shall be after a reshape, ``None`` without one, and
    ``allocations_before`` as they were; ``errors`` are by driver; ``reshape_pending``
    are the drivers that need a reshape which was not allowed now, and ``otherwise`` is
    what they all say if the reshape can't be done.
    """

    tree: ProviderTree
    allocations: Allocations | None = None
    errors: Mapping[str, BaseException] = field(default_factory=dict)
    reshape_pending: tuple[str, ...] = ()
    allocations_before: Allocations | None = None
    otherwise: Wish | None = None

    @property
    def complete(self) -> bool:
        """Whether every driver has said its part."""
        return not self.errors and not self.reshape_pending

    def without_reshape(self, err: BaseException) -> Wish:
        """What remains when the reshape fails; the drivers that wanted it have failed."""
        assert self.otherwise is not None
        failed = dict.fromkeys(self.otherwise.reshape_pending, err)
        return replace(self.otherwise, errors={**self.otherwise.errors, **failed})


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
    second = replace(_ask_each(drivers, fresh(), node, moved), otherwise=first)
    for name in first.reshape_pending:
        # It may have edited half of the allocations: nothing is moved now.
        if name in second.errors:
            return second.without_reshape(second.errors[name])
        if name in second.reshape_pending:
            again = DriverError("it wants a reshape though it was given the allocations")
            return second.without_reshape(again)
    return replace(second, allocations=moved, allocations_before=before)


def _ask_each(
    drivers: Sequence[LoadedDriver],
    tree: ProviderTree,
    node: str,
    allocations: Allocations | None,
) -> Wish:
    errors: dict[str, BaseException] = {}
    pending = []
    root = tree.data(node).uuid
    for loaded in drivers:
        attempt = copy.deepcopy(tree)
        try:
            loaded.ask(attempt, node, allocations)
            _refuse_other_root(attempt, root, node)
        except ReshapeNeeded:
            pending.append(loaded.name)
        except (Exception, SystemExit) as err:  # noqa: BLE001  the agent lives on, whatever it is
            errors[loaded.name] = err
        else:
            tree = attempt
    return Wish(tree, None, errors, tuple(pending))


def _refuse_other_root(tree: ProviderTree, root: str, node: str) -> None:
    if not tree.exists(root):
        raise DriverError(f"it took the root provider {node} ({root}) away")
    if not tree.exists(node) or tree.data(node).uuid != root:
        raise DriverError(f"it gave the root provider {node} ({root}) another name")
