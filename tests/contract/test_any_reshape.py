"""Whatever a reshape moves, Placement accepts it and no guest has more or less than before."""

import copy
import random
from collections import Counter
from typing import Any

import pytest

from reportclient.client import Client
from reportclient.reshape import AllocationsBroken
from tests.contract.world import CHILD, GRANDCHILD, OTHER, ROOT, SECOND, World

CLASSES = ("VCPU", "VGPU", "CUSTOM_LINK", "PGPU")
BYSTANDER = OTHER
"""Has guests, and nobody edits it."""
SEEDS = range(16)


def uses(world: World, guest: str) -> set[str]:
    """The providers that it has something of."""
    return set(world.stranger.allocation(guest)["allocations"])


class Host:
    """Each class is on one provider, and guests hold some of some classes."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.random = world, random.Random(seed)
        self.client = Client(world.api)
        self.place = {name: self.random.choice((ROOT, CHILD, SECOND)) for name in CLASSES}
        tree = self.client.tree(ROOT, name="host")
        for name, parent, uuid in (("device", ROOT, CHILD), ("second", ROOT, SECOND)):
            tree.new_child(name, parent, uuid)
        tree.new_child("bystander", CHILD, BYSTANDER)
        tree.update_inventory(BYSTANDER, {"FPGA": {"total": 4}})
        self.set_inventories(tree, {ROOT, CHILD, SECOND})
        assert self.client.update(tree).ok
        self.guests = [self.guest() for _ in range(self.random.randint(1, 4))]

    def set_inventories(self, tree: Any, providers: set[str]) -> None:
        for uuid in providers:
            classes = [name for name in CLASSES if self.place[name] == uuid]
            tree.update_inventory(uuid, {name: {"total": 16} for name in classes})

    def guest(self) -> str:
        names = self.random.sample(CLASSES, self.random.randint(1, len(CLASSES)))
        uses: dict[str, dict[str, int]] = {}
        for name in names:
            uses.setdefault(self.place[name], {})[name] = self.random.randint(1, 2)
        if self.random.random() < 0.5:
            uses[BYSTANDER] = {"FPGA": 1}
        kind = self.random.choice((None, "INSTANCE", "MIGRATION"))
        return self.world.stranger.put_allocation(uses, consumer_type=kind)

    def moved(self, allocations: Any) -> dict[str, Any]:
        """Each amount where its class is now."""
        after = copy.deepcopy(dict(allocations))
        for record in after.values():
            parts: dict[str, dict[str, dict[str, int]]] = {}
            for uuid, part in record["allocations"].items():
                for name, amount in part["resources"].items():
                    there = parts.setdefault(self.place.get(name, uuid), {"resources": {}})
                    there["resources"][name] = amount
            record["allocations"] = parts
        return after

    def kinds(self) -> list[Any]:
        """Return each guest's project, user and type."""
        keys = ("project_id", "user_id", "consumer_type")
        held = [self.world.stranger.allocation(guest) for guest in self.guests]
        return [[record[key] for key in keys] for record in held]

    def totals(self) -> dict[str, Counter[str]]:
        """Return each guest's amounts by class, on whatever provider."""
        held = {}
        for guest in self.guests:
            held[guest] = Counter[str]()
            for part in self.world.stranger.allocation(guest)["allocations"].values():
                held[guest].update(part["resources"])
        return held


@pytest.mark.parametrize("seed", SEEDS)
def test_any_reshape_is_accepted_and_no_guest_gains_or_loses(world: World, seed: int) -> None:
    host = Host(world, seed)
    held, kinds, bystander = host.totals(), host.kinds(), world.truth().get(BYSTANDER)
    tree, allocations = host.client.tree(ROOT), host.client.allocations(ROOT)
    targets = (ROOT, CHILD, SECOND, GRANDCHILD)
    moving = host.random.sample(CLASSES, host.random.randint(1, 3))
    before = dict(host.place)
    host.place.update({name: host.random.choice(targets) for name in moving})
    changed = [name for name in moving if before[name] != host.place[name]]
    edited = {place[name] for name in changed for place in (before, host.place)}
    if GRANDCHILD in edited:
        tree.new_child("new", SECOND, GRANDCHILD)
    host.set_inventories(tree, edited)
    untouched = set(world.truth().providers) - edited
    holding = {uuid for guest in host.guests for uuid in uses(world, guest)}
    generations = {uuid: world.generation(uuid) for uuid in untouched - holding}
    result = host.client.update(tree, allocations=host.moved(allocations))
    assert result.ok, result.failed
    assert (host.totals(), host.kinds()) == (held, kinds)
    for guest in host.guests:
        for uuid, part in world.stranger.allocation(guest)["allocations"].items():
            assert all(host.place.get(name, uuid) == uuid for name in part["resources"])
    truth = world.truth()
    assert {name: uuid for uuid in truth.providers for name in truth.get(uuid).inventory} == {
        **host.place,
        "FPGA": BYSTANDER,
    }
    assert truth.get(BYSTANDER) == bystander
    assert {uuid: world.generation(uuid) for uuid in generations} == generations
    assert host.client.update(host.client.tree(ROOT)).calls == 0
    host.client.stale(ROOT)
    assert host.client.tree(ROOT).freeze() == truth


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reshape_that_would_lose_something_writes_nothing(world: World, seed: int) -> None:
    host = Host(world, seed)
    tree, allocations = host.client.tree(ROOT), host.client.allocations(ROOT)
    name = host.random.choice(CLASSES)
    before = host.place[name]
    host.place[name] = host.random.choice([u for u in (ROOT, CHILD, SECOND) if u != before])
    host.set_inventories(tree, {before, host.place[name]})
    broken = host.moved(allocations)
    victim = host.random.choice(sorted(broken))
    part = host.random.choice(sorted(broken[victim]["allocations"]))
    resources = broken[victim]["allocations"][part]["resources"]
    resources[host.random.choice(sorted(resources))] += host.random.choice((-1, 1))
    held, truth = host.totals(), world.truth()
    mark = world.placement.mark()
    with pytest.raises(AllocationsBroken, match=victim):
        host.client.update(tree, allocations=broken)
    assert [one for one in world.placement.since(mark) if one.method != "GET"] == []
    assert (host.totals(), world.truth()) == (held, truth)
