"""Small drivers and the agent's working parts around a real Placement; time is told."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.nodes.nodes import Nodes
from agent.period.rules import Rules
from agent.told.reports import Report
from drivers.api import ComputeDriver, DriverContext
from drivers.loader import LoadedDriver
from reportclient.http import PlacementAPI, token_adapter
from reportclient.provider_tree import ProviderTree
from tests.servers.placement import RealPlacement

ROOT = "c0ffee00-0000-4000-8000-000000000001"
NODE = "host1"
OWNER = "CUSTOM_OWNER_COMPUTE_AGENT"
VERIFY = 300.0

Body = Callable[..., None]


class Small(ComputeDriver):
    """A driver whose ``update_provider_tree`` is a function; it keeps what it was shown."""

    def __init__(self, body: Body, nodes: list[str] | None = None, **capabilities: bool) -> None:
        super().__init__(DriverContext(NODE, Path("/nonexistent")))
        self.body = body
        self.nodes = nodes or [NODE]
        self.capabilities: Mapping[str, bool] = capabilities  # type: ignore[misc]
        self.shown: list[dict[str, Any]] = []

    def get_available_nodes(self) -> list[str]:
        return self.nodes

    def update_provider_tree(
        self, provider_tree: ProviderTree, nodename: str, allocations: Any = None
    ) -> None:
        self.shown.append({u: provider_tree.data(u) for u in provider_tree.get_provider_uuids()})
        self.body(provider_tree, nodename, allocations)


class Agent:
    """Nodes of one service against one Placement, period by period."""

    def __init__(
        self,
        placement: RealPlacement,
        *drivers: ComputeDriver,
        state: Path | None = None,
        **rules: Any,
    ) -> None:
        self.placement = placement
        self.now = 0.0
        named = [LoadedDriver.of(f"driver{n}", driver) for n, driver in enumerate(drivers, 1)]
        self.nodes = Nodes(
            ROOT,
            named,
            PlacementAPI(token_adapter(placement.url, "admin")),
            Rules(**{"owner_traits": (OWNER,), "verify_every": VERIFY, **rules}),
            state_path=state,
        )

    def period(self, after: float = 2 * VERIFY, **options: Any) -> Report:
        """By default so much later that Placement is verified."""
        (report,) = self.periods(after, **options)
        return report

    def periods(self, after: float = 2 * VERIFY, **options: Any) -> list[Report]:
        self.now += after
        return self.nodes.period(self.now, **options)

    def settle(self) -> None:
        """Until a verification has nothing more to write."""
        for _ in range(3):
            report = self.period()
            assert report.ok, report.texts()
        assert not report.done

    def calls_of(self, action: Callable[[], object]) -> list[str]:
        mark = self.placement.mark()
        action()
        return [f"{r.method} {r.path}" for r in self.placement.since(mark)]


def child_uuid(name: str, root: str = ROOT) -> str:
    """What an unnumbered child gets."""
    return str(uuid.uuid5(uuid.UUID(root), name))


def inventory(total: int = 8) -> Body:
    """Everything on the root."""

    def body(tree: ProviderTree, nodename: str, allocations: Any = None) -> None:
        tree.update_inventory(nodename, {"VCPU": {"total": total}})

    return body


def devices(*names: str, total: int = 1) -> Body:
    """A child for each name; those of ours that are not named are removed."""

    def body(tree: ProviderTree, nodename: str, allocations: Any = None) -> None:
        for uuid_ in tree.get_provider_uuids_in_tree(nodename):
            name = tree.data(uuid_).name
            if name.startswith(f"{nodename}_dev") and name not in names:
                tree.remove(uuid_)
        for name in names:
            if not tree.exists(name):
                tree.new_child(name, nodename)
            tree.update_inventory(name, {"CUSTOM_DEVICE": {"total": total}})

    return body


def fails(error: BaseException) -> Body:
    def body(tree: ProviderTree, nodename: str, allocations: Any = None) -> None:
        tree.update_inventory(nodename, {"VCPU": {"total": 666}})
        tree.add_traits(nodename, "CUSTOM_HALF_DONE")
        raise error

    return body
