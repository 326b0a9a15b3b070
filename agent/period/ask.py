"""Ask the drivers what a node has.

Each driver gets the tree as the ones before it left it.  What one of them does
before it fails is dropped, the others' part stays; whose part is what, ``merge`` knows.
``ReshapeNeeded`` becomes a value here and nowhere else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.period.heard import HeardTree
from agent.period.merge import Merge
from agent.period.parts import Parts
from drivers.errors import DriverError, ReshapeNeeded
from drivers.loader import LoadedDriver
from reportclient.model import Allocations
from reportclient.plan import Problem
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Wish:
    """The drivers' answer.

    ``allocations`` are as they shall be after a reshape, ``None`` without one, and
    ``allocations_before`` as they were; ``errors`` are by driver; ``reshape_pending``
    are the drivers that need a reshape which was not allowed now, and ``otherwise`` is
    what they all say if the reshape can't be done.  ``merge`` is the round in which they
    were asked, where what each of them said is kept apart.
    """

    tree: ProviderTree
    allocations: Allocations | None = None
    errors: Mapping[str, BaseException] = field(default_factory=dict)
    reshape_pending: tuple[str, ...] = ()
    allocations_before: Allocations | None = None
    otherwise: Wish | None = None
    merge: Merge | None = None

    @property
    def complete(self) -> bool:
        """Whether every driver has said its part."""
        return not self.errors and not self.reshape_pending

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What one driver said against another."""
        return () if self.merge is None else tuple(self.merge.problems)

    def parts_after(self, new: Snapshot, before: Parts) -> Parts:
        """Which driver has what, once ``new`` is in Placement."""
        return before if self.merge is None else self.merge.parts_after(new)

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
    merge: Callable[[], Merge] | None = None,
) -> Wish:
    """Let each driver say on a tree what ``node`` has.

    ``fresh`` makes a tree of what Placement has; with ``merge``, which begins a round
    that keeps the drivers' parts apart, it has to be a :class:`HeardTree`.
    ``allocations`` reads them, for a reshape; ``None`` means that none may be done now.
    """

    def ask_each(given: Allocations | None) -> Wish:
        return _ask_each(drivers, fresh(), node, given, None if merge is None else merge())

    first = ask_each(None)
    if not first.reshape_pending or allocations is None:
        return first
    before = allocations()
    moved = copy.deepcopy(before)
    second = replace(ask_each(moved), otherwise=first)
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
    merge: Merge | None,
) -> Wish:
    errors: dict[str, BaseException] = {}
    pending = []
    root = tree.data(node).uuid
    for loaded in drivers:
        attempt = copy.deepcopy(tree)
        if merge is not None and isinstance(attempt, HeardTree):
            attempt.hidden = merge.hidden_from(loaded.name)
        try:
            # Of one that fails halfway nothing is kept, of the allocations neither.
            edited = copy.deepcopy(allocations)
            loaded.ask(attempt, node, edited)
            _refuse_other_root(attempt, root, node)
            if merge is not None and isinstance(attempt, HeardTree):
                attempt = merge.take(loaded.name, tree, attempt)
        except ReshapeNeeded:
            pending.append(loaded.name)
        except (Exception, SystemExit) as err:  # noqa: BLE001  the agent lives on, whatever it is
            errors[loaded.name] = err
        else:
            tree = attempt
            if allocations is not None and edited is not None:
                allocations.clear()
                allocations.update(edited)
    if merge is not None:
        merge.finish(tree, complete=not errors and not pending)
    return Wish(tree, None, errors, tuple(pending), merge=merge)


def _refuse_other_root(tree: ProviderTree, root: str, node: str) -> None:
    if not tree.exists(root):
        raise DriverError(f"it took the root provider {node} ({root}) away")
    if not tree.exists(node) or tree.data(node).uuid != root:
        raise DriverError(f"it gave the root provider {node} ({root}) another name")
