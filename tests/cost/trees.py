"""Drivers and agents for counting: a tree of N providers, reported period by period."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.reporting.reports import Report
from drivers.api import ComputeDriver, DriverContext
from reportclient.root import BulkWrites
from tests import agents
from tests.agents import NODE, OWNER, ROOT, VERIFY

__all__ = ["NODE", "OWNER", "ROOT", "VERIFY", "Agent", "leaf_uuid", "tree_driver"]


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


class Agent(agents.Agent):
    """With one driver, called ``tree``; periods are a minute apart unless a test says otherwise."""

    def __init__(
        self, placement: Any, driver: ComputeDriver, state: Path | None = None, **rules: Any
    ) -> None:
        bulk = BulkWrites(rules.pop("bulk_chunk", 0))
        super().__init__(placement, named={"tree": driver}, state=state, bulk=bulk, **rules)
        self.driver = driver

    def period(self, after: float = 60.0, **options: Any) -> Report:
        return super().period(after, **options)


def tree_driver(size: int, *, aggregate: str | None = None) -> Tree:
    driver = Tree(DriverContext(NODE, Path("/nonexistent")))
    driver.size, driver.aggregate = size, aggregate
    return driver


def leaf_uuid(number: int) -> str:
    return str(uuid.uuid5(uuid.UUID(ROOT), f"leaf{number}"))
