"""ProviderTree against a naive dict of dicts that does the same things slowly."""

import copy
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot
from tests.property import strategies as ours

names = st.sampled_from(ours.NAMES)
uuids = st.sampled_from(ours.UUIDS)
anyone = names | uuids


class Model:
    """Providers by UUID, each a plain dict."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}

    def find(self, who: str) -> dict[str, Any] | None:
        return next((row for row in self.rows.values() if who in (row["uuid"], row["name"])), None)

    def below(self, uuid: str) -> set[str]:
        found = {uuid}
        while more := {u for u, r in self.rows.items() if r["parent"] in found} - found:
            found |= more
        return found

    def add(self, uuid: str, name: str, parent: str | None) -> None:
        self.rows[uuid] = {
            "uuid": uuid,
            "name": name,
            "parent": parent,
            "inventory": {},
            "traits": set(),
            "aggregates": set(),
        }


class TreeMachine(RuleBasedStateMachine):
    """Every rule does one thing to both and compares what they say."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = ProviderTree()
        self.model = Model()
        self.sealed: list[tuple[Snapshot, Snapshot]] = []

    def agree(self, allowed: bool, change: Any) -> Any:
        """Do it; the tree refuses exactly what the model does not allow."""
        try:
            result = change()
        except ValueError:
            assert not allowed
            return None
        assert allowed
        return result

    def gets_its_name_back(self, name: str, uuid: str) -> bool:
        """So may one that somebody renamed in Placement: see test_provider_tree.py."""
        return self.model.find(uuid) is not None and self.model.find(name) is None

    @rule(name=names, uuid=uuids)
    def new_root(self, name: str, uuid: str) -> None:
        if self.gets_its_name_back(name, uuid):
            return
        free = not self.model.find(name) and not self.model.find(uuid)
        self.agree(free, lambda: self.tree.new_root(name, uuid))
        if free:
            self.model.add(uuid, name, None)

    @rule(name=names, parent=anyone, uuid=uuids)
    def new_child(self, name: str, parent: str, uuid: str) -> None:
        if self.gets_its_name_back(name, uuid):
            return
        above = self.model.find(parent)
        good = above and not self.model.find(name) and not self.model.find(uuid)
        made = self.agree(bool(good), lambda: self.tree.new_child(name, parent, uuid))
        if above and good:
            assert made == uuid
            self.model.add(uuid, name, above["uuid"])

    @rule(who=anyone)
    def remove(self, who: str) -> None:
        row = self.model.find(who)
        self.agree(row is not None, lambda: self.tree.remove(who))
        for uuid in self.model.below(row["uuid"]) if row else ():
            del self.model.rows[uuid]

    @rule(who=anyone, name=names)
    def rename(self, who: str, name: str) -> None:
        row = self.model.find(who)
        taken = self.model.find(name)
        good = row is not None and taken in (None, row)
        self.agree(good, lambda: self.tree.rename(who, name))
        if row and good:
            row["name"] = name

    @rule(who=anyone, parent=st.none() | anyone)
    def move(self, who: str, parent: str | None) -> None:
        row = self.model.find(who)
        above = self.model.find(parent) if parent else None
        good = row is not None and (parent is None or above is not None)
        if row and above and above["uuid"] in self.model.below(row["uuid"]):
            good = False
        self.agree(good, lambda: self.tree.move(who, parent))
        if row and good:
            row["parent"] = above["uuid"] if above else None

    @rule(who=anyone, inventory=ours.partial_inventories)
    def update_inventory(self, who: str, inventory: dict[str, Any]) -> None:
        row = self.model.find(who)
        new = ours.as_dicts(inventory)
        changed = row is not None and (
            row["inventory"].keys() != new.keys()
            or any(
                row["inventory"][rc].get(key) != value
                for rc, record in new.items()
                for key, value in record.items()
            )
        )
        if row:
            assert self.tree.has_inventory_changed(who, new) is changed
        said = self.agree(row is not None, lambda: self.tree.update_inventory(who, new))
        if row:
            assert said is changed
        if row and changed:
            row["inventory"] = copy.deepcopy(new)

    @rule(who=anyone, traits=ours.traits, how=st.sampled_from(["update", "add", "remove"]))
    def change_traits(self, who: str, traits: frozenset[str], how: str) -> None:
        self._change_set(who, "traits", traits, how)

    @rule(who=anyone, members=ours.aggregates, how=st.sampled_from(["update", "add", "remove"]))
    def change_aggregates(self, who: str, members: frozenset[str], how: str) -> None:
        self._change_set(who, "aggregates", members, how)

    def _change_set(self, who: str, field: str, values: frozenset[str], how: str) -> None:
        row = self.model.find(who)
        if how == "update":
            said = self.agree(
                row is not None, lambda: getattr(self.tree, f"update_{field}")(who, values)
            )
            assert row is None or said is (row[field] != values)
        else:
            allowed = row is not None or (field == "traits" and not values)
            self.agree(allowed, lambda: getattr(self.tree, f"{how}_{field}")(who, *values))
        if row:
            row[field] = {
                "update": set(values),
                "add": row[field] | values,
                "remove": row[field] - values,
            }[how]

    @rule(who=anyone, traits=ours.traits)
    def ask_traits(self, who: str, traits: frozenset[str]) -> None:
        self._ask_set(who, "traits", traits, self.tree.has_traits)

    @rule(who=anyone, members=ours.aggregates)
    def ask_aggregates(self, who: str, members: frozenset[str]) -> None:
        self._ask_set(who, "aggregates", members, self.tree.in_aggregates)

    def _ask_set(
        self, who: str, field: str, values: frozenset[str], has: Callable[..., bool]
    ) -> None:
        row = self.model.find(who)
        contained = self.agree(row is not None, lambda: has(who, values))
        changed = getattr(self.tree, f"have_{field}_changed")
        other = self.agree(row is not None, lambda: changed(who, values))
        if row:
            assert (contained, other) == (values <= row[field], values != row[field])

    @rule(resource_class=st.sampled_from(ours.CLASSES))
    def ask_sharing(self, resource_class: str) -> None:
        sharing = "MISC_SHARES_VIA_AGGREGATE"
        expected = any(
            sharing in row["traits"] and resource_class in row["inventory"]
            for row in self.model.rows.values()
        )
        assert self.tree.has_sharing_provider(resource_class) is expected

    @rule(who=anyone)
    def share(self, who: str) -> None:
        self._change_set(who, "traits", frozenset({"MISC_SHARES_VIA_AGGREGATE"}), "add")

    @rule(who=anyone)
    def listed_again(self, who: str) -> None:
        row = self.model.find(who)
        if row is None:
            return
        self.tree.populate_from_iterable(
            [{"uuid": row["uuid"], "name": row["name"], "parent_provider_uuid": row["parent"]}]
        )
        for uuid in self.model.below(row["uuid"]):
            del self.model.rows[uuid]
        self.model.add(row["uuid"], row["name"], row["parent"])

    @rule()
    def copy(self) -> None:
        old, self.tree = self.tree, copy.deepcopy(self.tree)
        for uuid in old.get_provider_uuids():
            old.update_traits(uuid, ["CUSTOM_THE_OTHER"])

    @rule(build_on=st.booleans())
    def seal(self, build_on: bool) -> None:
        snapshot = self.tree.freeze()
        self.sealed.append((snapshot, ours.rebuilt(snapshot)))
        if build_on:
            self.tree = ProviderTree(snapshot)
            assert self.tree.freeze() is snapshot

    @precondition(lambda self: self.model.rows)
    @rule(who=anyone)
    def subtree(self, who: str) -> None:
        row = self.model.find(who)
        is_root = row is not None and row["parent"] is None
        part = self.agree(is_root, lambda: self.tree.subtree(who))
        if row and part:
            assert set(part.get_provider_uuids()) == self.model.below(row["uuid"])

    @invariant()
    def both_say_the_same(self) -> None:
        assert {u: self.seen(u) for u in self.tree.get_provider_uuids()} == self.model.rows
        for who in (*ours.NAMES, *ours.UUIDS):
            assert self.tree.exists(who) == (self.model.find(who) is not None)

    def seen(self, uuid: str) -> dict[str, Any]:
        data = self.tree.data(uuid)
        assert self.tree.data(data.name) == data
        return {
            "uuid": data.uuid,
            "name": data.name,
            "parent": data.parent_uuid,
            "inventory": data.inventory,
            "traits": data.traits,
            "aggregates": data.aggregates,
        }

    @invariant()
    def walks_are_top_down_and_complete(self) -> None:
        order = self.tree.get_provider_uuids()
        assert len(order) == len(set(order))
        for uuid in order:
            parent = self.tree.data(uuid).parent_uuid
            assert parent is None or order.index(parent) < order.index(uuid)
            assert set(self.tree.get_provider_uuids(uuid)) == self.model.below(uuid)

    @invariant()
    def frozen_trees_say_the_same(self) -> None:
        frozen = self.tree.freeze()
        assert set(frozen.providers) == set(self.model.rows)
        assert {p.uuid for p in frozen.walk()} == set(self.model.rows)

    def teardown(self) -> None:
        for snapshot, as_it_was in self.sealed:
            assert snapshot == as_it_was


TestProviderTree = TreeMachine.TestCase
TestProviderTree.settings = settings(stateful_step_count=25, max_examples=60)
