"""Ask the drivers what a node has.

Each driver gets a tree of what is there, and of what the ones before it said, less what
others own.  What one of them does before it fails is dropped; what it asserted before
stays.  ``ReshapeNeeded`` becomes a value here and nowhere else.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.ownership.driver_snapshot import snapshot_for_driver
from agent.ownership.ledger import Ledger, driver_of
from agent.ownership.policy import Policy
from agent.ownership.result_cache import ResultCache
from agent.ownership.settle import settle
from agent.ownership.statement import Statements, without_moved_classes
from drivers.errors import DriverError, ReshapeNeeded
from drivers.loader import LoadedDriver
from reportclient.model import Allocations
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot
from reportclient.view import View


@dataclass(frozen=True, slots=True)
class DriverAnswers:
    """The statements of all drivers of a node.

    ``allocations`` are as they shall be after a reshape, ``None`` without one, and
    ``allocations_before`` as they were; ``errors`` are by driver; ``reshape_pending`` are
    the drivers that need a reshape which was not allowed now, and ``otherwise`` is what
    they all say if the reshape can't be done.
    """

    statements: Statements = field(default_factory=Statements)
    allocations: Allocations | None = None
    errors: Mapping[str, BaseException] = field(default_factory=dict)
    reshape_pending: tuple[str, ...] = ()
    allocations_before: Allocations | None = None
    otherwise: "DriverAnswers | None" = None

    def without_reshape(self, err: BaseException) -> "DriverAnswers":
        """Return the answer without the reshape; the drivers that needed it have failed."""
        assert self.otherwise is not None
        failed = dict.fromkeys(self.otherwise.reshape_pending, err)
        return replace(self.otherwise, errors={**self.otherwise.errors, **failed})


@dataclass(frozen=True, slots=True)
class DriverQueries:
    """Calls of all drivers for one node in a period; ``policy`` names its root."""

    drivers: Sequence[LoadedDriver]
    node: str
    view: View
    ledger: Ledger
    policy: Policy
    hidden: frozenset[str] = frozenset()
    """Providers that are there, and gone as far as the drivers are concerned."""
    cache: ResultCache = field(default_factory=ResultCache)

    def answer(self, allocations: Callable[[], Allocations] | None) -> DriverAnswers:
        """``allocations`` reads them, for a reshape; ``None``: none may be done now."""
        first = self._ask_each(None)
        if not first.reshape_pending or allocations is None:
            return first
        before = allocations()
        moved = copy.deepcopy(before)
        second = replace(self._ask_each(moved), otherwise=first)
        for name in first.reshape_pending:
            # It may have edited half of the allocations: nothing is moved now.
            if name in second.errors:
                return second.without_reshape(second.errors[name])
            if name in second.reshape_pending:
                again = DriverError("it wants a reshape though it was given the allocations")
                return second.without_reshape(again)
        return replace(second, allocations=moved, allocations_before=before)

    def _ask_each(self, allocations: Allocations | None) -> DriverAnswers:
        said = Statements(order=tuple(map(_manager, self.drivers)))
        errors: dict[str, BaseException] = {}
        pending = []
        for loaded in self.drivers:
            # Of one that fails halfway nothing is kept, of the allocations neither.
            edited = copy.deepcopy(allocations)
            try:
                tree, needs_reshape = self._asked(loaded, said, edited)
                # Also this: a thread of the driver's may be at its tree still.
                spoken = self.cache.driver_statements(_manager(loaded), tree, self.ledger)
            except (Exception, SystemExit) as err:  # noqa: BLE001  the agent lives on
                errors[loaded.name] = err
                said = said.with_failed(_manager(loaded))
                continue
            statements, silent = spoken.statements, spoken.silent
            if needs_reshape:
                pending.append(loaded.name)
                statements = tuple(without_moved_classes(one, self.ledger) for one in statements)
                said = said.with_pending_reshape(statements, silent)
                continue
            said = said.with_answer(statements, silent)
            if allocations is not None and edited is not None:
                allocations.clear()
                allocations.update(edited)
        return DriverAnswers(said, None, errors, tuple(pending))

    def _asked(
        self, loaded: LoadedDriver, said: Statements, allocations: Allocations | None
    ) -> tuple[ProviderTree, bool]:
        """The tree as one driver left it, and whether it needs a reshape first."""
        tree, needs_reshape = self._tree(loaded.name, said), False
        try:
            loaded.update_provider_tree(tree, self.node, allocations)
        except ReshapeNeeded:
            needs_reshape = True
        self._refuse_other_root(tree)
        self._refuse_taken_names(loaded, tree)
        return tree, needs_reshape

    def _tree(self, driver: str, said: Statements) -> ProviderTree:
        """Return the tree that a driver is shown, after the drivers before it."""
        whole, ledger, drained = self._with_root(self.view.snapshot), self.ledger, self.view.drained
        cached = self.cache.cached
        if said.statements:
            waiting = frozenset(_manager(one) for one in self.drivers) - said.answered()
            so_far = replace(said, waiting=waiting)
            settled = cached(
                (driver, "settled"), settle, whole, ledger, so_far, self.policy, drained
            )
            whole, ledger = settled.desired, settled.ledger
        shown = cached(
            (driver, "shown"), snapshot_for_driver, f"driver:{driver}", whole, ledger, drained
        )
        shown = shown.with_changes(dict.fromkeys(self.hidden))
        return ProviderTree(shown, self.view.generations, whole)

    def _with_root(self, whole: Snapshot) -> Snapshot:
        tree = ProviderTree(whole)
        if not tree.exists(self.policy.root):
            tree.new_root(self.node, self.policy.root)
        tree.rename(self.policy.root, self.node)
        return tree.freeze()

    def _refuse_other_root(self, tree: ProviderTree) -> None:
        root, node = self.policy.root, self.node
        there = tree.provider(root)
        if there is None:
            raise DriverError(f"it took the root provider {node} ({root}) away")
        if there.name != node:
            raise DriverError(f"it gave the root provider {node} ({root}) another name")
        before = tree.whole.get(root)
        if before is not None and there.parent_uuid != before.parent_uuid:
            raise DriverError(f"it moved the root provider {node} ({root}) below another one")

    def _refuse_taken_names(self, loaded: LoadedDriver, tree: ProviderTree) -> None:
        for provider in filter(None, tree.edits().values()):
            there = tree.whole.named(provider.name)
            if there is None or there.uuid == provider.uuid:
                continue
            if {driver_of(one) for one in self.ledger.holdings_on(there.uuid)} - {_manager(loaded)}:
                raise DriverError(
                    f"it gave provider {provider.uuid} the name {provider.name} of a provider "
                    f"that another driver reports ({there.uuid})"
                )


def _manager(loaded: LoadedDriver) -> str:
    return f"driver:{loaded.name}"
