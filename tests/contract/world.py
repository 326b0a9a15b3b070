"""One Placement as the report client sees it, the fake or the real one, with the same handles."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from reportclient.apply import Outcome, apply
from reportclient.errors import PlacementError
from reportclient.http import API, PlacementAPI, token_adapter
from reportclient.model import Inventory, Provider
from reportclient.plan import Plan, diff
from reportclient.provider_tree import ProviderTree
from reportclient.reader import refresh
from reportclient.snapshot import Snapshot
from reportclient.view import View
from tests.servers.placement import RealPlacement
from tests.stranger import FakePlacement, Stranger

ROOT = "00000000-0000-4000-8000-000000000001"
CHILD = "00000000-0000-4000-8000-000000000002"
GRANDCHILD = "00000000-0000-4000-8000-000000000003"
SECOND = "00000000-0000-4000-8000-000000000004"
OTHER = "00000000-0000-4000-8000-00000000000f"
AGG1 = "00000000-0000-4000-8000-0000000000a1"
AGG2 = "00000000-0000-4000-8000-0000000000a2"


@dataclass
class Flaky:
    """Our door to Placement, through which replies and requests can get lost once."""

    api: API
    faults: list[tuple[str, re.Pattern[str], PlacementError, bool]] = field(default_factory=list)

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        fault = next((f for f in self.faults if f[0] == method and f[1].search(path)), None)
        if fault is None:
            return self.api.request(method, path, json=json, needs=needs)
        self.faults.remove(fault)
        if fault[3]:
            self.api.request(method, path, json=json, needs=needs)
        raise fault[2]

    def fail_next(
        self, method: str, path: str, error: PlacementError, *, after: bool = False
    ) -> None:
        self.faults.append((method, re.compile(path), error, after))


@dataclass
class Listings:
    """A door to Placement whose listings of the tree are wrong while ``edit`` is set."""

    api: API
    edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] | None = None

    def request(self, method: str, path: str, **about: Any) -> dict[str, Any]:
        answer = self.api.request(method, path, **about)
        if self.edit is not None and "in_tree" in path:
            answer = {"resource_providers": self.edit(copy.deepcopy(answer["resource_providers"]))}
        return answer


@dataclass
class World:
    """``api`` is ours; the stranger has a door of his own."""

    placement: FakePlacement | RealPlacement
    api: Flaky

    @classmethod
    def of(cls, placement: FakePlacement | RealPlacement) -> World:
        if isinstance(placement, FakePlacement):
            return cls(placement, Flaky(placement))
        return cls(placement, Flaky(PlacementAPI(token_adapter(placement.url, "admin"))))

    @property
    def stranger(self) -> Stranger:
        return self.placement.stranger

    def calls_of(self, action: Any) -> list[tuple[str, str]]:
        """What ``action`` asked Placement; the stranger keeps still meanwhile."""
        mark = self.placement.mark()
        action()
        return [(request.method, request.path) for request in self.placement.since(mark)]

    def truth(self, *roots: str) -> Snapshot:
        """What Placement has, by a reading of our own."""
        send = self.stranger.send
        listed: list[dict[str, Any]] = []
        for root in roots or (ROOT,):
            listed += send("GET", f"/resource_providers?in_tree={root}")["resource_providers"]
        return Snapshot.build(
            Provider(
                item["uuid"],
                item["name"],
                item["parent_provider_uuid"],
                {
                    name: Inventory.from_dict(record)
                    for name, record in self.stranger.inventory(item["uuid"]).items()
                },
                frozenset(self.stranger.traits(item["uuid"])),
                frozenset(self.stranger.aggregates(item["uuid"])),
            )
            for item in listed
        )

    def generation(self, uuid: str) -> int:
        return int(self.stranger.provider(uuid)["generation"])

    def read(self, view: View | None = None) -> View:
        return refresh(view or View(), ROOT, self.api)

    def planned(self, view: View, tree: ProviderTree) -> Plan:
        return diff(view.snapshot, tree.freeze(), names=view.names)

    def applied(self, view: View, tree: ProviderTree) -> Outcome:
        return apply(self.planned(view, tree), view, self.api)

    def settled(self, tree: ProviderTree) -> View:
        """A Placement that has this tree, and the view of it."""
        view = self.read()
        outcome = self.applied(view, ProviderTree(view.snapshot) if tree is None else tree)
        assert outcome.stopped_by is None and not outcome.failed
        return outcome.view


def host() -> ProviderTree:
    """A host with a device and its port, and a second child."""
    tree = ProviderTree()
    tree.new_root("host", ROOT)
    tree.new_child("device", ROOT, CHILD)
    tree.new_child("port", CHILD, GRANDCHILD)
    tree.new_child("second", ROOT, SECOND)
    tree.update_inventory(ROOT, {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 1024}})
    tree.update_inventory(GRANDCHILD, {"CUSTOM_LINK": {"total": 2}})
    tree.update_traits(ROOT, ["COMPUTE_NODE", "CUSTOM_GOLD"])
    tree.update_traits(CHILD, ["CUSTOM_GOLD"])
    tree.update_aggregates(ROOT, [AGG1])
    return tree


def kinds(calls: Iterable[tuple[str, str]]) -> list[str]:
    """``["GET in_tree", "PUT traits", …]``."""
    return [_kind(method, path) for method, path in calls]


def _kind(method: str, path: str) -> str:
    before, _, query = path.partition("?")
    words = before.strip("/").split("/")
    if query:
        return f"{method} {query.partition('=')[0]}"
    if words[0] == "resource_providers":
        return f"{method} {words[2] if len(words) == 3 else 'provider'}"
    return f"{method} {words[0]}"
