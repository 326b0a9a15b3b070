"""Drivers and agents for counting: a tree of N providers, reported period by period."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.nodes.nodes import Nodes
from agent.period.rules import Rules
from drivers.api import ComputeDriver, DriverContext
from drivers.loader import LoadedDriver
from reportclient.http import PlacementAPI, token_adapter
from reportclient.root import BulkWrites
from tests.waiting import no_pause

ROOT = "c0ffee00-0000-4000-8000-000000000001"
NODE = "host1"
OWNER = "CUSTOM_OWNER_COMPUTE_AGENT"
VERIFY = 300.0


class Tree(ComputeDriver):
    """A root and ``size - 1`` children, each with inventory; ``edit`` is done last."""

    size = 1
    aggregate: str | None = None
    custom_class = "CUSTOM_LEAF"

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self.inventories: dict[str, dict[str, Any]] = {}
        self.edit: Callable[..., None] = lambda tree, allocations: None

    def get_available_nodes(self):
        return [NODE]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        provider_tree.update_inventory(
            nodename, self.inventories.get(nodename, {"VCPU": {"total": 8, "max_unit": 8}})
        )
        if self.aggregate:
            provider_tree.add_aggregates(nodename, self.aggregate)
        for number in range(1, self.size):
            name = f"{nodename}_leaf{number}"
            if not provider_tree.exists(name):
                provider_tree.new_child(name, nodename)
            default = {self.custom_class: {"total": 4, "max_unit": 4}}
            provider_tree.update_inventory(name, self.inventories.get(name, default))
        self.edit(provider_tree, allocations)


class Agent:
    """One agent's working parts, against one Placement; time is told, not waited for."""

    def __init__(self, url: str, driver: ComputeDriver, state: Path | None = None, **rules: Any):
        self.now = 0.0
        self.driver = driver
        self.api = PlacementAPI(token_adapter(url, "admin"))
        chunk = rules.pop("bulk_chunk", 0)
        self.nodes = Nodes(
            ROOT,
            [LoadedDriver.of("tree", driver)],
            self.api,
            Rules(**{"owner_traits": (OWNER,), "verify_every": VERIFY, "pause": no_pause, **rules}),
            BulkWrites(chunk),
            state,
        )

    def period(self, after: float = 60.0, **options: Any):
        self.now += after
        (report,) = self.nodes.period(self.now, **options)
        return report

    @property
    def tracker(self):
        (tracker,) = self.nodes.trackers.values()
        return tracker


def tree_driver(size: int, *, aggregate: str | None = None) -> Tree:
    driver = Tree(DriverContext(NODE, Path("/nonexistent")))
    driver.size, driver.aggregate = size, aggregate
    return driver


def leaf_uuid(number: int) -> str:
    return str(uuid.uuid5(uuid.UUID(ROOT), f"{NODE}_leaf{number}"))
