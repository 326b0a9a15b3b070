"""From what Placement has and what the drivers say to a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.ask import Wish, ask_drivers
from agent.keep import keep_strangers, open_again, take_nothing_away
from agent.provider_config.overlay import Laid, Overlay
from agent.rules import Rules
from agent.traits import AgentTraits, add_agent_traits, agent_traits
from drivers.errors import ReshapeFailed
from drivers.loader import LoadedDriver
from reportclient.diff import diff
from reportclient.model import Allocations, Inventory
from reportclient.plan import Plan
from reportclient.provider_tree import ProviderTree
from reportclient.reshape import Affected, AllocationsBroken, moved_allocations
from reportclient.snapshot import Snapshot
from reportclient.view import View


@dataclass(frozen=True, slots=True)
class Decision:
    """What one look led to: the drivers' wish and the plan that would fulfil it.

    ``laid`` is what provider files add.
    """

    wish: Wish
    plan: Plan
    laid: Laid = field(default_factory=Laid)


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides for one root; knows nothing but its identity, its drivers and the rules."""

    uuid: str
    node: str
    drivers: Sequence[LoadedDriver]
    rules: Rules
    overlay: Overlay = field(default_factory=Overlay)

    def decide(
        self,
        placement: View,
        disabled: bool | None,
        allocations: Callable[[], Allocations] | None,
    ) -> Decision:
        """Ask the drivers and plan.

        ``allocations`` reads them, should a driver need a reshape; ``None`` means that
        none may be done now.
        """
        view = self.overlay.under(placement)  # what files add is not the drivers' business
        wish = ask_drivers(self.drivers, lambda: self._fresh_tree(view), self.node, allocations)
        if len(wish.errors) == len(self.drivers) and self.uuid not in view.snapshot:
            return Decision(wish, Plan())  # nobody could say anything about a new host
        moved: Allocations | None = None
        if wish.allocations is not None and wish.allocations_before is not None:
            try:
                affected = _affected(view.snapshot, wish.tree.freeze())
                moved = moved_allocations(wish.allocations_before, wish.allocations, affected)
            except AllocationsBroken as err:
                wish = wish.without_reshape(ReshapeFailed(f"node {self.node}: {err}"))
        plan, laid = self._plan(placement, view, wish, moved, disabled)
        return Decision(wish, plan, laid)

    def _plan(
        self,
        placement: View,
        view: View,
        wish: Wish,
        moved: Allocations | None,
        disabled: bool | None,
    ) -> tuple[Plan, Laid]:
        """``view`` is ``placement`` without what files added."""
        tree = wish.tree
        if wish.complete:
            open_again(tree, view)
        else:
            take_nothing_away(tree, view.snapshot)
        kept = list(keep_strangers(tree, view))
        strangers, before = self._strangers(placement), placement.snapshot
        laid = self.overlay.lay(tree, self.uuid, before, strangers)
        add_agent_traits(tree, self.uuid, before, self._traits(disabled))
        new = tree.freeze()
        plan = diff(before, new, moved, known=placement.known, strangers=strangers)
        problems = (*plan.problems, *kept, *laid.problems)
        return replace(plan, problems=problems) if problems else plan, laid

    def _fresh_tree(self, view: View) -> ProviderTree:
        tree = view.edit()
        if not tree.exists(self.uuid):
            tree.new_root(self.node, self.uuid)
        tree.rename(self.uuid, self.node)
        return tree

    def _traits(self, disabled: bool | None) -> AgentTraits:
        capabilities = [loaded.driver.capabilities for loaded in self.drivers]
        return agent_traits(capabilities, disabled, self.rules.owner_trait)

    def _strangers(self, view: View) -> frozenset[str]:
        """Sharing providers that no agent of ours made."""
        providers, owner = view.snapshot.providers, self.rules.owner_trait
        return frozenset(uuid for uuid in view.strangers if owner not in providers[uuid].traits)


def _affected(old: Snapshot, new: Snapshot) -> Affected:
    changed = [u for u in new.changed_since(old) if _inventory(old, u) != _inventory(new, u)]
    return Affected(
        {uuid: _inventory(old, uuid) for uuid in changed},
        {uuid: _inventory(new, uuid) for uuid in changed},
    )


def _inventory(snapshot: Snapshot, uuid: str) -> Mapping[str, Inventory]:
    provider = snapshot.get(uuid)
    return {} if provider is None else provider.inventory
