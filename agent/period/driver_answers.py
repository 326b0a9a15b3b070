"""Call the drivers of one node and collect their statements.

Each driver edits a tree with the observed state and the statements of the drivers before it,
without what only other managers own.  If it fails, its edits are dropped and its claims stay as
they are.  ``ReshapeNeeded`` is caught here: :class:`DriverAnswers` has it as a value.
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

    ``allocations`` are those after a reshape, ``None`` without one; ``allocations_before`` those
    before it.  ``errors`` is by driver name.  ``reshape_pending`` names the drivers that need a
    reshape that may not be done now.  ``otherwise`` are the answers without the reshape, should it
    fail.
    """

    statements: Statements = field(default_factory=Statements)
    allocations: Allocations | None = None
    errors: Mapping[str, BaseException] = field(default_factory=dict)
    reshape_pending: tuple[str, ...] = ()
    allocations_before: Allocations | None = None
    otherwise: "DriverAnswers | None" = None

    def without_reshape(self, err: BaseException) -> "DriverAnswers":
        """Return the answers without the reshape, with ``err`` for the drivers that needed it."""
        assert self.otherwise is not None
        failed = dict.fromkeys(self.otherwise.reshape_pending, err)
        return replace(self.otherwise, errors={**self.otherwise.errors, **failed})


@dataclass(frozen=True, slots=True)
class DriverQueries:
    """The calls of all drivers for one node in one period; ``policy`` has its root's UUID."""

    drivers: Sequence[LoadedDriver]
    node: str
    view: View
    ledger: Ledger
    policy: Policy
    hidden: frozenset[str] = frozenset()
    """UUIDs of observed providers that drivers are not shown."""
    cache: ResultCache = field(default_factory=ResultCache)

    def collect(self, allocations: Callable[[], Allocations] | None) -> DriverAnswers:
        """Call all drivers, and again with the allocations if one needs a reshape.

        ``allocations`` reads the allocations; without it no reshape is done now.
        """
        first = self._call_each(None)
        if not first.reshape_pending or allocations is None:
            return first
        before = allocations()
        moved = copy.deepcopy(before)
        second = replace(self._call_each(moved), otherwise=first)
        for name in first.reshape_pending:
            # The driver may have edited only a part of the allocations: nothing is moved.
            if name in second.errors:
                return second.without_reshape(second.errors[name])
            if name in second.reshape_pending:
                again = DriverError("raised ReshapeNeeded although the allocations were passed")
                return second.without_reshape(again)
        return replace(second, allocations=moved, allocations_before=before)

    def _call_each(self, allocations: Allocations | None) -> DriverAnswers:
        collected = Statements(order=tuple(map(_manager, self.drivers)))
        errors: dict[str, BaseException] = {}
        pending = []
        for loaded in self.drivers:
            # A copy: if the driver fails, its edits of the allocations are dropped.
            edited = copy.deepcopy(allocations)
            try:
                tree, needs_reshape = self._call(loaded, collected, edited)
                # In the try block: a thread of the driver may still be editing the tree.
                answer = self.cache.driver_statements(_manager(loaded), tree, self.ledger)
            except (Exception, SystemExit) as err:  # noqa: BLE001  the agent lives on
                errors[loaded.name] = err
                collected = collected.with_failed(_manager(loaded))
                continue
            statements, silent = answer.statements, answer.silent
            if needs_reshape:
                pending.append(loaded.name)
                statements = tuple(without_moved_classes(each, self.ledger) for each in statements)
                collected = collected.with_pending_reshape(statements, silent)
                continue
            collected = collected.with_answer(statements, silent)
            if allocations is not None and edited is not None:
                allocations.clear()
                allocations.update(edited)
        return DriverAnswers(collected, None, errors, tuple(pending))

    def _call(
        self, loaded: LoadedDriver, collected: Statements, allocations: Allocations | None
    ) -> tuple[ProviderTree, bool]:
        """Call a driver; return the tree that it edited, and whether it needs a reshape first."""
        tree, needs_reshape = self._tree(loaded.name, collected), False
        try:
            loaded.update_provider_tree(tree, self.node, allocations)
        except ReshapeNeeded:
            needs_reshape = True
        self._refuse_other_root(tree)
        self._refuse_taken_names(loaded, tree)
        return tree, needs_reshape

    def _tree(self, driver: str, collected: Statements) -> ProviderTree:
        """Return the tree for a driver, with the statements of the drivers before it."""
        whole, ledger, drained = self._with_root(self.view.snapshot), self.ledger, self.view.drained
        cached = self.cache.cached
        if collected.statements:
            waiting = frozenset(map(_manager, self.drivers)) - collected.answered()
            so_far = replace(collected, waiting=waiting)
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
        provider = tree.provider(root)
        if provider is None:
            raise DriverError(f"removed the root provider {node} ({root})")
        if provider.name != node:
            raise DriverError(f"renamed the root provider {node} ({root})")
        before = tree.whole.get(root)
        if before is not None and provider.parent_uuid != before.parent_uuid:
            raise DriverError(f"moved the root provider {node} ({root}) below another provider")

    def _refuse_taken_names(self, loaded: LoadedDriver, tree: ProviderTree) -> None:
        for provider in filter(None, tree.edits().values()):
            other = tree.whole.named(provider.name)
            if other is None or other.uuid == provider.uuid:
                continue
            if {driver_of(holder) for holder in self.ledger.holdings_on(other.uuid)} - {
                _manager(loaded)
            }:
                raise DriverError(
                    f"gave provider {provider.uuid} the name {provider.name} of a provider "
                    f"that another driver reports ({other.uuid})"
                )


def _manager(loaded: LoadedDriver) -> str:
    return f"driver:{loaded.name}"
