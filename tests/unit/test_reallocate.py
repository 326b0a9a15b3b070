"""Allocations that move to other providers: none is lost, and none exceeds its target."""

from collections import Counter

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from drivers.api import ReshapeFailed
from drivers.reallocate import Move, move_allocations
from reportclient.provider_tree import ProviderTree

ROOT = "11111111-1111-4111-8111-111111111111"


def guest(**held: dict[str, int]) -> dict:
    return {"allocations": {uuid: {"resources": dict(of)} for uuid, of in held.items()}}


def two_cards() -> tuple[ProviderTree, list[Move], str, str]:
    tree = ProviderTree()
    tree.new_root("h1", ROOT)
    cards = tuple(tree.new_child(f"h1_gpu{n}", "h1") for n in (0, 1))
    for card in cards:
        tree.update_inventory(card, {"VGPU": {"total": 4}})
    return tree, [Move({ROOT: frozenset({"VGPU"})}, cards)], *cards


def test_a_consumer_that_fits_nowhere_whole_is_split() -> None:
    tree, moves, first, second = two_cards()
    allocations = {"a": guest(**{ROOT: {"VCPU": 1, "VGPU": 6}})}
    move_allocations(tree, moves, allocations)
    held = {uuid: part["resources"] for uuid, part in allocations["a"]["allocations"].items()}
    assert held == {ROOT: {"VCPU": 1}, first: {"VGPU": 4}, second: {"VGPU": 2}}


def test_no_room_is_a_failed_reshape_that_names_the_consumer() -> None:
    tree, moves, *_ = two_cards()
    with pytest.raises(ReshapeFailed, match="no room for 1 of 9 VGPU of consumer a"):
        move_allocations(tree, moves, {"a": guest(**{ROOT: {"VGPU": 9}})})


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
