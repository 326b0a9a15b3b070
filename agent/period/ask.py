"""Call the drivers of one node and collect their statements.

Each driver edits a tree with the observed state and the statements of the drivers before it,
without what only other managers own.  If it fails, its edits are dropped and its claims stay as
they are.  ``ReshapeNeeded`` is caught here: :class:`DriverAnswers` has it as a value.
"""

import copy
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, TypeVarTuple

from agent.ownership.ledger import (
    ADOPTED,
    DRIVER,
    NOVA_COMPUTE,
    Ledger,
    driver_of,
    joined,
)
from agent.ownership.policy import Policy
from agent.ownership.settle import Settled, settle
from agent.ownership.statement import (
    DriverStatements,
    Statements,
    driver_statements,
    without_moved_classes,
)
from drivers.errors import DriverError, ReshapeNeeded
from drivers.loader import LoadedDriver
from reportclient.model import Allocations
from reportclient.provider_tree import ProviderTree
from reportclient.reshape import Affected, moved_allocations
from reportclient.snapshot import Snapshot
from reportclient.view import View, opened

A = TypeVarTuple("A")
T = TypeVar("T")


@dataclass(slots=True)
class LastResults:
    """The results of the period before: a quiet period would compute the same again.

    An argument that is the same object as then costs nothing to compare, so a period of 10,001
    providers in which nothing changed settles none of them.
    """

    statements: dict[str, DriverStatements] = field(default_factory=dict)
    """By driver; a change of few providers is computed from these."""
    _results: dict[str, tuple[object, Any]] = field(default_factory=dict)

    def result_of(self, step: str, function: Callable[[*A], T], *arguments: *A) -> T:
        """Return the result of a pure function; call it only if the step's arguments changed."""
        if step not in self._results or self._results[step][0] != arguments:
            self._results[step] = arguments, function(*arguments)
        result: T = self._results[step][1]
        return result


@dataclass(frozen=True, slots=True)
class DriverAnswers:
    """The statements of all drivers of a node.

    ``allocations`` are those after a reshape, ``None`` without one; ``allocations_before`` those
    before it.  ``errors`` is by driver name.  ``reshape_pending`` names the drivers that need a
    reshape that is not done now.
    """

    statements: Statements = field(default_factory=Statements)
    allocations: Allocations | None = None
    errors: Mapping[str, BaseException] = field(default_factory=dict)
    reshape_pending: tuple[str, ...] = ()
    allocations_before: Allocations | None = None

    def moved(self, observed: Snapshot, settled: Settled, policy: Policy) -> Allocations:
        """Return the allocations that the reshape changes.

        :raises AllocationsBroken: they were lost, or another service owns a provider.
        """
        before, after = self.allocations_before, self.allocations
        assert before is not None and after is not None
        ledger, providers = settled.before, observed.providers.items()
        foreign = {uuid: it.name for uuid, it in providers if not policy.may_move(uuid, ledger)}
        affected = Affected.between(observed, settled.desired)
        return moved_allocations(before, after, affected, foreign)


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
    last: LastResults = field(default_factory=LastResults)

    @property
    def observed(self) -> Snapshot:
        """The snapshot that drivers edit: Placement's state, with drained classes shown open."""
        return self.last.result_of("opened", opened, self.view.snapshot, self.view.drained)

    def collect(
        self, allocations: Callable[[], Allocations], may_reshape: Container[str]
    ) -> DriverAnswers:
        """Call all drivers, and again if a driver in ``may_reshape`` needs a reshape.

        ``allocations`` reads the allocations, which only those drivers are passed.
        """
        first = self._call_each(None)
        moving = [name for name in first.reshape_pending if name in may_reshape]
        if not moving:
            return first
        before = allocations()
        moved = copy.deepcopy(before)  # edited in place by the drivers, one after the other
        second = self._call_each(moved, moving)
        for name in moving:
            # The driver may have edited only a part of the allocations: nothing is moved.
            if name in second.errors:
                return self.collect_without_reshape(second.errors[name], may_reshape)
            if name in second.reshape_pending:
                again = DriverError("raised ReshapeNeeded although the allocations were passed")
                return self.collect_without_reshape(again, may_reshape)
        return replace(second, allocations=moved, allocations_before=before)

    def collect_without_reshape(
        self, err: BaseException, may_reshape: Container[str]
    ) -> DriverAnswers:
        """Call all drivers once more, without allocations; ``err`` is why the reshape failed.

        The answers before the reshape would be older than those that a driver gave since.
        """
        answer = self._call_each(None)
        failed = {name: err for name in answer.reshape_pending if name in may_reshape}
        return replace(answer, errors={**answer.errors, **failed})

    def _call_each(
        self, allocations: Allocations | None, moving: Sequence[str] = ()
    ) -> DriverAnswers:
        """Call all drivers, those in ``moving`` with the allocations."""
        collected = Statements(order=tuple(DRIVER + loaded.name for loaded in self.drivers))
        errors: dict[str, BaseException] = {}
        pending = []
        for loaded in self.drivers:
            manager = DRIVER + loaded.name
            needs_reshape = False
            try:
                tree = self._tree(manager, collected)
                try:
                    given = allocations if loaded.name in moving else None
                    loaded.update_provider_tree(tree, self.node, given)
                except ReshapeNeeded:
                    needs_reshape = True
                self._check_root(tree)
                # In the try block: a thread of the driver may still be editing the tree.
                for claims in tree.claims.values() if loaded.name in moving else ():
                    claims.missing.clear()  # what it had moves in this reshape
                last = self.last.statements.get(manager)
                answer = driver_statements(manager, tree, self.ledger, last, self.view.drained)
            except (Exception, SystemExit) as err:  # noqa: BLE001  the agent lives on
                errors[loaded.name] = err
                collected = collected.with_answer(silent=frozenset({manager}))
                continue
            self.last.statements[manager] = answer
            statements, silent = answer.statements, answer.silent
            if needs_reshape:
                pending.append(loaded.name)
                statements = tuple(without_moved_classes(each, self.ledger) for each in statements)
                silent |= {manager}  # what it left out is not removed
            collected = collected.with_answer(statements, silent)
        return DriverAnswers(collected, None, errors, tuple(pending))

    def _tree(self, manager: str, collected: Statements) -> ProviderTree:
        """Return the tree for a driver, with the statements of the drivers before it."""
        tree = ProviderTree(self.observed)
        if not tree.exists(self.policy.root):
            tree.new_root(self.node, self.policy.root)
        tree.rename(self.policy.root, self.node)
        whole, ledger, result_of = tree.freeze(), self.ledger, self.last.result_of
        if collected.statements:
            so_far = replace(collected, waiting=frozenset(collected.order) - collected.answered())
            settled = result_of(f"before {manager}", settle, whole, ledger, so_far, self.policy)
            whole, ledger = settled.desired, settled.ledger
        shown = result_of(f"shown to {manager}", snapshot_for_driver, manager, whole, ledger)
        shown = shown.with_changes(dict.fromkeys(self.hidden))

        def reported_by(source: str) -> frozenset[str]:
            holder = f"{manager}/{source}" if source else manager
            return self.ledger.reported_by(holder, self.policy.root)

        return ProviderTree(shown, self.view.generations, whole, reported_by)

    def _check_root(self, tree: ProviderTree) -> None:
        """:raises DriverError: the driver removed, renamed or moved the root."""
        root, node = self.policy.root, self.node
        provider, before = tree.provider(root), tree.whole.get(root)
        if provider is None:
            raise DriverError(f"removed the root provider {node} ({root})")
        if provider.name != node:
            raise DriverError(f"renamed the root provider {node} ({root})")
        if before is not None and provider.parent_uuid != before.parent_uuid:
            raise DriverError(f"moved the root provider {node} ({root}) below another provider")


def snapshot_for_driver(driver: str, whole: Snapshot, ledger: Ledger) -> Snapshot:
    """Return ``whole`` without classes, traits and aggregates that only other managers claim."""
    # What nova-compute had, and what an operator adopted, is shown to every driver.
    every = (NOVA_COMPUTE, ADOPTED)
    own_managers = {it for it in ledger.managers() if driver_of(it) == driver or it in every}
    changed = {}
    for uuid, row in ledger.holders.items():
        if own_managers.issuperset(row) or uuid not in whole:
            continue
        provider = whole.providers[uuid]
        own = joined(held for manager, held in row.items() if manager in own_managers)
        others = joined(held for manager, held in row.items() if manager not in own_managers)
        hidden, inventory = others.without(own), provider.inventory
        changed[uuid] = replace(
            provider,
            inventory={n: record for n, record in inventory.items() if n not in hidden.classes},
            traits=provider.traits - hidden.traits,
            aggregates=provider.aggregates - hidden.aggregates,
        )
    return whole.with_changes(changed)
