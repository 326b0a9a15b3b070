"""From what Placement has and what the drivers say to a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.ask import Wish, ask_drivers
from agent.rules import Rules
from agent.traits import AgentTraits, add_agent_traits, agent_traits
from drivers.errors import ReshapeFailed
from drivers.loader import LoadedDriver
from reportclient.diff import diff
from reportclient.model import Allocations, Provider
from reportclient.plan import Plan
from reportclient.provider_tree import ProviderTree
from reportclient.reshape import AllocationsBroken, moved_allocations
from reportclient.snapshot import Snapshot
from reportclient.view import View


@dataclass(frozen=True, slots=True)
class Decision:
    """What one look led to: the drivers' wish and the plan that would fulfil it."""

    wish: Wish
    plan: Plan


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides for one root; knows nothing but its identity, its drivers and the rules."""

    uuid: str
    node: str
    drivers: Sequence[LoadedDriver]
    rules: Rules

    def decide(
        self,
        view: View,
        disabled: bool | None,
        allocations: Callable[[], Allocations] | None,
    ) -> Decision:
        """Ask the drivers and plan.

        ``allocations`` reads them, should a driver need a reshape; ``None`` means that
        none may be done now.

        :raises ReshapeFailed: allocations were lost, invented or misplaced.
        :raises ValueError: a driver took the root away.
        """
        wish = ask_drivers(self.drivers, lambda: self._fresh_tree(view), self.node, allocations)
        if len(wish.errors) == len(self.drivers) and self.uuid not in view.snapshot:
            return Decision(wish, Plan())  # nobody could say anything about a new host
        add_agent_traits(wish.tree, self.uuid, view.snapshot, self._traits(disabled))
        wished = wish.tree.freeze()
        moved = self._moved(wish, view.snapshot, wished)
        strangers = self._strangers(view)
        plan = diff(view.snapshot, wished, moved, known=view.known, strangers=strangers)
        return Decision(wish, plan)

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

    def _moved(self, wish: Wish, old: Snapshot, new: Snapshot) -> Allocations | None:
        if wish.allocations is None or wish.allocations_before is None:
            return None
        affected = frozenset(
            uuid
            for uuid in new.changed_since(old)
            if _inventory(old.get(uuid)) != _inventory(new.get(uuid))
        )
        try:
            return moved_allocations(wish.allocations_before, wish.allocations, affected)
        except AllocationsBroken as err:
            raise ReshapeFailed(f"node {self.node}: {err}") from err


def _inventory(provider: Provider | None) -> Mapping[str, object]:
    return {} if provider is None else provider.inventory
