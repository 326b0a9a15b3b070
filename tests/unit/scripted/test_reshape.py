"""Inventory that moves, with the allocations that are on it."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from driverkit.scripted.edit import own_uuid
from drivers.api import ReshapeFailed, ReshapeNeeded
from drivers.reallocate import Move, move_allocations
from reportclient.provider_tree import ProviderTree
from tests.unit.scripted.test_driver import ROOT, Bench

SCRIPT = """
- nodes: {h1: {inventory: {VCPU: 8, VGPU: 8}}}
- after: 1
  nodes:
    h1: &last
      inventory: {VCPU: 8}
      children: {"gpu{n}": {count: 2, inventory: {VGPU: 4}}}
      moves: [VGPU]
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
    with pytest.raises(ReshapeNeeded, match="VGPU of h1"):
        bench.period()
    tree = ProviderTree(bench.before("h1"))
    bench.driver.update_provider_tree(tree, "h1", allocations)
    bench.snapshots["h1"] = tree.freeze()
    return tree


def test_a_move_to_a_sharing_provider_that_another_node_creates_later_fails_with_its_reason(bench):
    bench.start(
        "- nodes: {h2: , h1: {aggregates: [&rack aaaaaaaa-0000-4000-8000-000000000001],"
        " inventory: {VGPU: 8}}}\n"
        "- after: 1\n"
        "  nodes:\n"
        "    h2: &with\n"
        "      aggregates: [*rack]\n"
        "      sharing: {nfs: {name: nfs, aggregates: [*rack], inventory: {VGPU: 8}}}\n"
        "    h1: {aggregates: [*rack], sharing: {nfs: {name: nfs, aggregates: [*rack],"
        " inventory: {VGPU: 8}}}, moves: [VGPU]}\n"
    )
    bench.driver.get_available_nodes()
    tree = ProviderTree(bench.before("h1"))
    bench.driver.update_provider_tree(tree, "h1")
    bench.snapshots["h1"] = tree.freeze()
    allocations = {"a": {"allocations": {ROOT: {"generation": 1, "resources": {"VGPU": 3}}}}}
    tree = ProviderTree(bench.before("h1"))
    with pytest.raises(ReshapeNeeded):
        bench.driver.update_provider_tree(tree, "h1")
    with pytest.raises(ReshapeFailed):
        bench.driver.update_provider_tree(ProviderTree(bench.before("h1")), "h1", allocations)


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
        "c": {GPU0: {"resources": {"VGPU": 1}}},
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
    bench.start(SCRIPT + "- {after: 2, nodes: {h1: {<<: *last, traits: [CUSTOM_LATER]}}}").period()
    assert reshaped(bench, {}).data("h1").traits == set()
    assert bench.period().data("h1").traits == {"CUSTOM_LATER"}


def test_a_refused_reshape_is_asked_for_again(bench):
    bench.start(SCRIPT).period()
    for _ in range(3):
        with pytest.raises(ReshapeNeeded):
            bench.period()
    reshaped(bench, {})


def test_a_placement_that_never_had_the_inventory_needs_no_reshape(bench):
    bench.start("nodes: {h1: {children: {gpu: {inventory: {VGPU: 4}}}, moves: [VGPU]}}")
    assert bench.period().data("h1_gpu").inventory == {"VGPU": {"total": 4}}


def test_a_new_script_moves_what_an_older_one_reported(bench):
    bench.start("nodes: {h1: {inventory: {VGPU: 8}}}").period()
    bench.start("nodes: {h1: {children: {gpu0: {inventory: {VGPU: 8}}}, moves: [VGPU]}}")
    assert reshaped(bench, {"a": on_root(3)}).has_inventory("h1_gpu0")


def test_a_source_that_is_removed_at_once_gives_its_allocations(bench):
    bench.start(
        """
        - nodes: {h1: {children: {old: {inventory: {VGPU: 2}}}}}
        - {after: 1, nodes: {h1: {children: {new: {inventory: {VGPU: 2}}}, moves: [VGPU]}}}
        """
    ).period()
    allocations = {"a": guest(**{own_uuid(ROOT, "h1_old"): {"VGPU": 2}})}
    tree = reshaped(bench, allocations)
    assert not tree.exists("h1_old")
    new = own_uuid(ROOT, "h1_new")
    assert allocations["a"]["allocations"] == {new: {"resources": {"VGPU": 2}}}


def test_a_class_of_a_foreign_provider_does_not_move(bench):
    def visit(tree):
        tree.update_inventory(tree.new_child("theirs", "h1"), {"VGPU": {"total": 2}})

    bench.stranger(visit)
    bench.start("nodes: {h1: {children: {gpu: {inventory: {VGPU: 4}}}, moves: [VGPU]}}")
    assert bench.period().data("theirs").inventory == {"VGPU": {"total": 2}}


def test_no_room_is_a_failed_reshape_that_names_the_consumer(bench):
    bench.start(SCRIPT).period()
    with pytest.raises(ReshapeFailed, match="no room for 1 of 9 VGPU of consumer a"):
        reshaped(bench, {"a": on_root(9)})


RECORDS = st.builds(
    dict,
    total=st.integers(1, 30),
    reserved=st.just(0),
    min_unit=st.sampled_from([1, 1, 2]),
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
        if limits["min_unit"] <= held <= min(limits["max_unit"], limits["total"]):
            allocations[f"there {target}"] = guest(**{target: {"VGPU": held}})
    before = totals(allocations)
    try:
        move_allocations(tree, [Move({ROOT: frozenset({"VGPU"})}, tuple(targets))], allocations)
    except ReshapeFailed:
        reject()
    assert totals(allocations) == before
    used: Counter[str] = Counter()
    for record in allocations.values():
        for uuid, held in record["allocations"].items():
            limits = tree.data(uuid).inventory["VGPU"]
            amount = held["resources"]["VGPU"]
            assert uuid != ROOT
            assert limits["min_unit"] <= amount <= limits["max_unit"]
            assert amount % limits["step_size"] == 0
            used[uuid] += amount
    for uuid, amount in used.items():
        limits = tree.data(uuid).inventory["VGPU"]
        assert amount <= limits["total"] * limits["allocation_ratio"]


def totals(allocations: dict) -> dict[str, int]:
    return {
        consumer: sum(held["resources"]["VGPU"] for held in record["allocations"].values())
        for consumer, record in allocations.items()
    }
