"""Several drivers on one root, against a model: the first who says a class, or has it, counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.period.ask import ask_drivers
from agent.period.heard import HeardTree
from agent.period.merge import Merge
from agent.period.parts import Parts, as_json, from_json
from drivers.api import ComputeDriver, DriverContext, DriverNotReady
from drivers.loader import LoadedDriver
from reportclient.diff import resolved
from reportclient.model import Provider
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot

ROOT, NODE = "c0ffee00-0000-4000-8000-000000000001", "host1"
DRIVERS = ("a", "b", "c")
CLASSES = ("VCPU", "FPGA", "PGPU")
TRAITS = ("CUSTOM_X", "CUSTOM_Y")


@dataclass
class Wish:
    """What one driver says in one round; ``bullies`` are others whose children it removes."""

    totals: Mapping[str, int] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    children: Mapping[int, int] = field(default_factory=dict)
    fails: bool = False
    bullies: frozenset[str] = frozenset()
    wipes_traits: bool = False
    passes_along: bool = False


wishes = st.builds(
    Wish,
    totals=st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 3)),
    traits=st.frozensets(st.sampled_from(TRAITS)),
    children=st.dictionaries(st.integers(0, 2), st.integers(1, 3)),
    fails=st.sampled_from([False, False, True]),
    bullies=st.frozensets(st.sampled_from(DRIVERS)),
    wipes_traits=st.booleans(),
    passes_along=st.booleans(),
)
rounds = st.lists(st.fixed_dictionaries(dict.fromkeys(DRIVERS, wishes)), min_size=1, max_size=5)


class Wishing(ComputeDriver):
    wish: Wish

    def __init__(self, name: str) -> None:
        super().__init__(DriverContext(NODE, Path("/nonexistent")))
        self.name = name

    def get_available_nodes(self):
        return [NODE]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        tree, wish = provider_tree, self.wish
        self._root(tree, wish)
        for prefix in {self.name, *wish.bullies}:
            for number in range(3):
                name = f"{prefix}{number}"
                gone = prefix != self.name or number not in wish.children
                if gone and tree.exists(name):
                    tree.remove(name)
        for number, total in wish.children.items():
            name = f"{self.name}{number}"
            if not tree.exists(name):
                tree.new_child(name, NODE)
            tree.update_inventory(name, {"CUSTOM_DEVICE": {"total": total}})
        if wish.fails:
            raise DriverNotReady("not now")

    def _root(self, tree: ProviderTree, wish: Wish) -> None:
        said = {name: {"total": total} for name, total in wish.totals.items()}
        if wish.passes_along:
            shown = tree.data(NODE).inventory
            assert tree.has_inventory_changed(NODE, shown) is False
            said = {**{k: v for k, v in shown.items() if k in wish.totals}, **said}
        tree.update_inventory(NODE, said)
        if wish.wipes_traits:
            tree.update_traits(NODE, wish.traits)
        else:
            tree.remove_traits(NODE, *TRAITS)
        tree.add_traits(NODE, *wish.traits)


class World:
    """Placement that takes all; the journal goes through JSON between rounds."""

    def __init__(self) -> None:
        self.base = Snapshot.build([Provider(ROOT, NODE)])
        self.parts = Parts()
        self.drivers = [LoadedDriver.of(name, Wishing(name)) for name in DRIVERS]
        self.had: dict[str, Wish] = {name: Wish() for name in DRIVERS}
        self.owner: dict[str, str] = {}

    def round(self, said: Mapping[str, Wish]) -> Snapshot:
        for loaded in self.drivers:
            loaded.driver.wish = said[loaded.name]
        made = frozenset(self.base.providers)
        wish = ask_drivers(
            self.drivers,
            lambda: HeardTree(self.base),
            NODE,
            None,
            lambda: Merge(DRIVERS, self.parts, self.base, made),
        )
        assert wish.errors.keys() == {name for name in DRIVERS if said[name].fails}
        new = wish.tree.freeze()
        self.parts = from_json(as_json(wish.parts_after(new, self.parts)))
        before, self.base = self.base, self._in_full(new)
        return before

    def _in_full(self, new: Snapshot) -> Snapshot:
        def full(provider: Provider) -> Provider:
            known = self.base.get(provider.uuid)
            inventory = resolved(provider.inventory, known.inventory if known else {}, frozenset())
            return Provider(
                provider.uuid,
                provider.name,
                provider.parent_uuid,
                inventory,
                provider.traits,
                provider.aggregates,
            )

        found = Snapshot.build(full(provider) for provider in new.walk())
        return self.base if found == self.base else found

    def expect(self, said: Mapping[str, Wish], before: Snapshot) -> None:
        totals, owner = self._root_model(said, before)
        found = self.base.providers[ROOT]
        assert {k: r.total for k, r in found.inventory.items()} == totals
        self.owner = owner
        for name in DRIVERS:
            if not said[name].fails:
                self.had[name] = said[name]
        assert found.traits == frozenset().union(*(wish.traits for wish in self.had.values()))
        for name in DRIVERS:
            assert self._children(name) == dict(self.had[name].children), name

    def _root_model(
        self, said: Mapping[str, Wish], before: Snapshot
    ) -> tuple[dict[str, int], dict[str, str]]:
        was = {k: r.total for k, r in before.providers[ROOT].inventory.items()}
        totals, owner = {}, {}
        for key in CLASSES:
            for name in DRIVERS:
                if said[name].fails and self.owner.get(key) == name:
                    totals[key], owner[key] = was[key], name
                elif not said[name].fails and key in said[name].totals:
                    totals[key], owner[key] = said[name].totals[key], name
                else:
                    continue
                break
        return totals, owner

    def _children(self, prefix: str) -> dict[int, int]:
        return {
            int(p.name[1:]): p.inventory["CUSTOM_DEVICE"].total
            for p in self.base.walk()
            if p.name.startswith(prefix) and p.name[1:].isdigit()
        }


@given(rounds)
def test_each_driver_has_its_part_whatever_the_others_do(script: list[dict[str, Wish]]) -> None:
    world = World()
    for said in script:
        before = world.round(said)
        world.expect(said, before)


@given(rounds)
def test_a_round_that_says_the_same_changes_nothing(script: list[dict[str, Any]]) -> None:
    world = World()
    for said in script:
        world.round(said)
    settled = world.base
    world.round(script[-1])  # the journal forgets what is gone once Placement has acknowledged
    parts = world.parts
    world.round(script[-1])
    assert world.base is settled
    assert world.parts == parts
