"""nova-compute beside an agent in attach mode: it owns the root and keeps it up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.world.placement import is_accepted

if TYPE_CHECKING:
    from tests.world.hypervisor import Hypervisor
    from tests.world.world import World

EVERY = 60.0
TRAIT = "COMPUTE_NODE"
INVENTORY = {"MEMORY_MB": {"total": 4096}}


class Nova:
    def __init__(self, world: World, node: Hypervisor) -> None:
        self.world, self.node = world, node

    def period(self) -> None:
        """Restore name, inventory and trait of the root; data of others stays, as with real Nova."""
        self.world.scheduler.call(self.period, EVERY)
        placement, root = self.world.placement, self.node.root
        if root not in placement.rows:
            if not is_accepted(placement.stranger.create_provider, self.node.host, root):
                return
        row = placement.rows[root]
        if row.name != self.node.host:
            placement.stranger.rename(root, self.node.host)
        if INVENTORY.keys() - row.inventory.keys():
            placement.stranger.set_inventory(
                root, {**placement.stranger.inventory(root), **INVENTORY}
            )
        if TRAIT not in row.traits:
            placement.stranger.add_trait(root, TRAIT)
        claims = placement.foreign.claims.setdefault(root, {})
        claims["class", "MEMORY_MB"] = dict(row.inventory["MEMORY_MB"])
        claims["trait", TRAIT] = True
