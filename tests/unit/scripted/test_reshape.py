"""Inventory that moves, with the allocations that are on it."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from driverkit.scripted.on_tree import move_allocations, own_uuid, pending_moves
from driverkit.scripted.script import Move
from drivers.api import ReshapeFailed, ReshapeNeeded
from reportclient.provider_tree import ProviderTree
from tests.unit.scripted.test_driver import ROOT, Bench

SCRIPT = """
nodes: {h1: {inventory: {VCPU: 8, VGPU: 8}}}
changes:
  - after: 1
    children: {"gpu{n}": {count: 2}}
    moves: {VGPU: {to: {gpu0: 4, gpu1: 4}}}
"""
GPU0, GPU1 = own_uuid(ROOT, "h1_gpu0"), own_uuid(ROOT, "h1_gpu1")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def guest(**held: dict[str, int]) -> dict:
    return {"allocations": {uuid: {"resources": dict(of)} for uuid, of in held.items()}}


def on_root(vgpu: int) -> dict:
    return {"allocations": {ROOT: {"generation": 3, "resources": {"VCPU": 1, "VGPU": vgpu}}}}


def reshaped(bench: Bench, allocations: dict) -> ProviderTree:
    with pytest.raises(ReshapeNeeded, match="VGPU from h1"):
        bench.period()
    tree = ProviderTree(bench.before("h1"))
    bench.driver.update_provider_tree(tree, "h1", allocations)
    bench.snapshots["h1"] = tree.freeze()
    return tree


def test_inventory_and_allocations_move_together(bench):
    bench.start(SCRIPT).period()
    allocations = {
        "a": on_root(3),
        "b": on_root(2),
        "c": on_root(1),
        "d": guest(**{ROOT: {"VCPU": 1}}),
    }
    untouched = deepcopy(allocations["d"])
    tree = reshaped(bench, allocations)
    assert "VGPU" not in tree.data("h1").inventory
    assert tree.data("h1_gpu0").inventory == {"VGPU": {"total": 4}}
    assert allocations["d"] == untouched
    for consumer in "abc":
        assert allocations[consumer]["allocations"].pop(ROOT)["resources"] == {"VCPU": 1}
    assert {name: allocations[name]["allocations"] for name in "abc"} == {
        "a": {GPU0: {"resources": {"VGPU": 3}}},
        "b": {GPU1: {"resources": {"VGPU": 2}}},
        "c": {GPU1: {"resources": {"VGPU": 1}}},
    }


def test_a_consumer_that_fits_nowhere_whole_is_split(bench):
    bench.start(SCRIPT).period()
    allocations = {"a": on_root(6)}
    reshaped(bench, allocations)
    held = allocations["a"]["allocations"]
    assert (held[GPU0]["resources"], held[GPU1]["resources"]) == ({"VGPU": 4}, {"VGPU": 2})


def test_after_the_reshape_all_is_quiet(bench):
    bench.start(SCRIPT).period()
    reshaped(bench, {})
    settled = bench.before("h1")
    bench.period()
    assert bench.before("h1") is settled


def test_both_calls_of_a_reshape_are_one_period(bench):
    bench.start(SCRIPT + "  - {after: 2, add_traits: [CUSTOM_LATER]}").period()
    assert reshaped(bench, {}).data("h1").traits == set()
    assert bench.period().data("h1").traits == {"CUSTOM_LATER"}


def test_a_refused_reshape_is_asked_for_again(bench):
    bench.start(SCRIPT).period()
    for _ in range(3):
        with pytest.raises(ReshapeNeeded):
            bench.period()
    reshaped(bench, {})


def test_a_placement_that_never_had_the_inventory_needs_no_reshape(bench):
    bench.start(SCRIPT.replace("after: 1", "after: 0"))
    assert bench.period().data("h1_gpu1").inventory == {"VGPU": {"total": 4}}


def test_a_new_script_moves_what_an_older_one_reported(bench):
    bench.start("nodes: {h1: {inventory: {VGPU: 8}}}").period()
    bench.start(SCRIPT.replace("after: 1", "after: 0").replace("VCPU: 8, VGPU: 8", "VCPU: 8"))
    assert reshaped(bench, {"a": on_root(3)}).has_inventory("h1_gpu0")


def test_a_class_may_change_its_name_on_the_way(bench):
    bench.start("nodes: {h1: {inventory: {VGPU: 8}}}").period()
    bench.script(
        """
        nodes: {h1: }
        changes: [{moves: {VGPU: {as: CUSTOM_VGPU, to: {.: 8}}}}]
        """
    )
    allocations = {"a": guest(**{ROOT: {"VGPU": 5}})}
    reshaped(bench, allocations)
    assert allocations["a"]["allocations"] == {ROOT: {"resources": {"CUSTOM_VGPU": 5}}}


def test_a_source_that_is_removed_at_once_gives_its_allocations(bench):
    bench.start(
        """
        nodes: {h1: {children: {old: {inventory: {VGPU: 2}}, new: }}}
        changes: [{after: 1, provider: old, moves: {VGPU: {to: {new: 2}}}, remove: true}]
        """
    ).period()
    allocations = {"a": guest(**{own_uuid(ROOT, "h1_old"): {"VGPU": 2}})}
    with pytest.raises(ReshapeNeeded):
        bench.period()
    tree = ProviderTree(bench.before("h1"))
    bench.driver.update_provider_tree(tree, "h1", allocations)
    assert not tree.exists("h1_old")
    new = own_uuid(ROOT, "h1_new")
    assert allocations["a"]["allocations"] == {new: {"resources": {"VGPU": 2}}}


def test_a_source_that_has_the_class_again_later_is_left_alone(bench):
    bench.start(SCRIPT + "  - {after: 1, inventory: {VGPU: 2}}").period()
    assert bench.period().data("h1").inventory["VGPU"] == {"total": 2}


def test_no_room_is_a_failed_reshape_that_names_the_consumer(bench):
    bench.start(SCRIPT).period()
    with pytest.raises(ReshapeFailed, match="no room for 1 of 9 VGPU of consumer a"):
        reshaped(bench, {"a": on_root(9)})


RECORDS = st.builds(
    dict,
    total=st.integers(1, 30),
    reserved=st.just(0),
    max_unit=st.integers(1, 12),
    step_size=st.sampled_from([1, 1, 2]),
    allocation_ratio=st.sampled_from([1.0, 2.0]),
)


@given(
    records=st.lists(RECORDS, min_size=1, max_size=4),
    amounts=st.lists(st.integers(1, 12), max_size=6),
    present=st.lists(st.integers(0, 3), max_size=4),
)
def test_whatever_moves_arrives_within_the_limits_of_its_targets(records, amounts, present):
    tree = ProviderTree()
    tree.new_root("h1", ROOT)
    tree.update_inventory("h1", {"VGPU": {"total": 100}})
    targets = [tree.new_child(f"t{n}", "h1") for n, _ in enumerate(records)]
    for target, record in zip(targets, records, strict=True):
        tree.update_inventory(target, {"VGPU": record})
    allocations = {f"c{n}": guest(**{ROOT: {"VGPU": amount}}) for n, amount in enumerate(amounts)}
    for target, held in zip(targets, present, strict=False):
        limits = tree.data(target).inventory["VGPU"]
        held *= limits["step_size"]
        if 0 < held <= min(limits["max_unit"], limits["total"]):
            allocations[f"there {target}"] = guest(**{target: {"VGPU": held}})
    before = totals(allocations)
    move = Move("h1", "VGPU", "VGPU", tuple(f"t{n}" for n, _ in enumerate(records)))
    (pending,) = pending_moves(tree, [move])
    try:
        move_allocations(tree, [pending], allocations)
    except ReshapeFailed:
        reject()
    assert totals(allocations) == before
    used: Counter[str] = Counter()
    for record in allocations.values():
        for uuid, held in record["allocations"].items():
            limits = tree.data(uuid).inventory["VGPU"]
            amount = held["resources"]["VGPU"]
            assert uuid != ROOT
            assert amount <= limits["max_unit"] and amount % limits["step_size"] == 0
            used[uuid] += amount
    for uuid, amount in used.items():
        limits = tree.data(uuid).inventory["VGPU"]
        assert amount <= limits["total"] * limits["allocation_ratio"]


def totals(allocations: dict) -> dict[str, int]:
    return {
        consumer: sum(held["resources"]["VGPU"] for held in record["allocations"].values())
        for consumer, record in allocations.items()
    }


def test_pending_moves_know_their_source_before_the_tree_is_edited():
    tree = ProviderTree()
    tree.new_root("h1", ROOT)
    move = Move("h1", "VGPU", "VGPU", ("t0",))
    assert pending_moves(tree, [move]) == []
    tree.update_inventory("h1", {"VGPU": {"total": 1}})
    assert pending_moves(tree, [move]) == [(ROOT, move)]
