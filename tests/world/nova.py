"""nova-compute beside an attached agent: the root is its own, and it keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.world.placement import tried

if TYPE_CHECKING:
    from tests.world.hypervisor import Hypervisor
    from tests.world.world import World

EVERY = 60.0
TRAIT = "COMPUTE_NODE"
INVENTORY = {"MEMORY_MB": {"total": 4096}}


class Nova:
    def __init__(self, world: World, here: Hypervisor) -> None:
        self.world, self.here = world, here

    def period(self) -> None:
        """The root as it should be; what others put there stays, as with its real tracker."""
        self.world.scheduler.call(self.period, EVERY)
        placement, root = self.world.placement, self.here.root
        if root not in placement.rows:
            if not tried(placement.stranger.create_provider, self.here.host, root):
                return
        row = placement.rows[root]
        if row.name != self.here.host:
            placement.stranger.rename(root, self.here.host)
        if INVENTORY.keys() - row.inventory.keys():
            placement.stranger.set_inventory(
                root, {**placement.stranger.inventory(root), **INVENTORY}
            )
        if TRAIT not in row.traits:
            placement.stranger.add_trait(root, TRAIT)
        things = placement.whose.things.setdefault(root, {})
        things["class", "MEMORY_MB"] = dict(row.inventory["MEMORY_MB"])
        things["trait", TRAIT] = True
