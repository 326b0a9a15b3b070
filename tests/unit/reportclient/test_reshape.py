"""A reshape moves what guests have, and loses and invents nothing: each rule, and each law."""

import copy
from collections import Counter
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reportclient.model import Inventory, Provider, used_providers
from reportclient.plan import Reshape, SetInventories
from reportclient.reshape import (
    Affected,
    AllocationsBroken,
    generations_after,
    moved_allocations,
    refuse_malformed,
    reshape_payload,
)
from reportclient.snapshot import Snapshot

ROOT, CHILD, OTHER = (f"c0ffee00-0000-4000-8000-00000000000{n}" for n in range(3))
GUEST, SECOND = (f"00000000-0000-4000-8000-00000000000{n}" for n in range(2))


def held(**amounts: dict[str, int]) -> dict[str, Any]:
    """One consumer's record; providers by ``root``, ``child`` and ``other``."""
    uuids = {"root": ROOT, "child": CHILD, "other": OTHER}
    parts = {uuids[name]: {"resources": dict(one)} for name, one in amounts.items()}
    return {"allocations": parts, "project_id": "p", "user_id": "u", "consumer_generation": 3}


def providers(**inventories: dict[str, int]) -> Snapshot:
    uuids = {"root": (ROOT, None), "child": (CHILD, ROOT), "other": (OTHER, ROOT)}
    return Snapshot.build(
        Provider(
            uuids[name][0],
            name,
            uuids[name][1],
            {key: Inventory(total).with_defaults(None) for key, total in classes.items()},
        )
        for name, classes in inventories.items()
    )


VGPU_MOVES = Affected.between(
    providers(root={"VCPU": 8, "VGPU": 4}, other={"FPGA": 1}),
    providers(root={"VCPU": 8}, child={"VGPU": 4}, other={"FPGA": 1}),
)
BEFORE = {GUEST: held(root={"VCPU": 2, "VGPU": 1})}


def moved(after: dict[str, Any], affected: Affected = VGPU_MOVES) -> Any:
    return moved_allocations(BEFORE, {GUEST: after}, affected)


def test_what_is_affected_is_what_has_another_inventory_before_and_after() -> None:
    assert VGPU_MOVES.providers == {ROOT, CHILD}
    assert (VGPU_MOVES.appeared, VGPU_MOVES.vanished) == (set(), set())
    traits = Provider(
        ROOT, "root", None, {"VGPU": Inventory(4).with_defaults(None)}, frozenset({"T"})
    )
    assert (
        Affected.between(providers(root={"VGPU": 4}), Snapshot.build([traits])).providers == set()
    )
    renamed = Affected.between(providers(root={"VGPU": 4}), providers(root={"CUSTOM_VGPU": 4}))
    assert (renamed.appeared, renamed.vanished) == ({"CUSTOM_VGPU"}, {"VGPU"})


def test_a_consumer_that_moved_is_written_whole_with_its_own_generation() -> None:
    after = held(root={"VCPU": 2}, child={"VGPU": 1})
    assert moved({**after, "consumer_generation": 99, "project_id": "another"}) == {
        GUEST: {**BEFORE[GUEST], "allocations": after["allocations"]}
    }


def test_a_consumer_that_is_as_before_is_not_written() -> None:
    assert moved(copy.deepcopy(BEFORE[GUEST])) == {}


@pytest.mark.parametrize(
    ("after", "said"),
    [({}, "were lost"), ({**BEFORE, SECOND: held(root={"VCPU": 1})}, "were invented")],
)
def test_a_consumer_is_neither_lost_nor_invented(after: dict[str, Any], said: str) -> None:
    with pytest.raises(AllocationsBroken, match=said):
        moved_allocations(BEFORE, after, VGPU_MOVES)


def test_another_provider_loses_nothing_though_the_sum_is_right() -> None:
    before = {GUEST: held(root={"VGPU": 1}, other={"FPGA": 1})}
    after = {GUEST: held(root={"VGPU": 1}, child={"FPGA": 1})}
    with pytest.raises(AllocationsBroken) as broken:
        moved_allocations(before, after, VGPU_MOVES)
    assert str(broken.value) == (
        f"consumer {GUEST}: its allocations on provider {OTHER} were changed, "
        "but the inventory of that provider was not"
    )


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (held(child={"VGPU": 1}), "VCPU 2 taken away, nothing added"),
        (held(root={"VCPU": 1}, child={"VGPU": 1}), "VCPU 1 taken away, nothing added"),
        (
            held(root={"VCPU": 2}, child={"VCPU": 1}),  # into a class that was there
            "VGPU 1 taken away, VCPU 1 added",
        ),
        (held(), "VCPU 2, VGPU 1 taken away, nothing added"),
        (held(root={"VCPU": 3}, child={"VGPU": 2}), "nothing taken away, VCPU 1, VGPU 1 added"),
    ],
)
def test_what_does_not_add_up_is_told_with_consumer_classes_and_providers(
    after: dict[str, Any], said: str
) -> None:
    with pytest.raises(AllocationsBroken) as broken:
        moved(after)
    where = f"{ROOT}, {CHILD}" if after["allocations"] else ROOT
    assert str(broken.value) == f"consumer {GUEST}: its amounts do not add up: {said} (on {where})"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (held(root={"VGPU": 1}), held(other={"VGPU": 1})),
        (held(root={"VGPU": 1}, other={"VGPU": 1, "FPGA": 1}), held(other={"VGPU": 2, "FPGA": 1})),
    ],
)
def test_another_provider_may_get_what_moves_beside_what_it_has(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert moved_allocations({GUEST: before}, {GUEST: after}, VGPU_MOVES).keys() == {GUEST}


def test_a_provider_that_goes_counts_as_edited() -> None:
    gone = Affected.between(
        providers(root={"VCPU": 8}, child={"VGPU": 4}, other={"VGPU": 1}),
        providers(root={"VCPU": 8}, other={"VGPU": 5}),
    )
    before, after = {GUEST: held(child={"VGPU": 1})}, {GUEST: held(other={"VGPU": 1})}
    assert moved_allocations(before, after, gone).keys() == {GUEST}


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        ({"VGPU": 4}, {"CUSTOM_VGPU": 4}, True),
        ({"VGPU": 4, "CUSTOM_VGPU": 1}, {"CUSTOM_VGPU": 4}, True),
        ({"VGPU": 4}, {"VGPU": 4, "CUSTOM_VGPU": 4}, True),
        ({"VGPU": 4, "CUSTOM_VGPU": 1}, {"VGPU": 4, "CUSTOM_VGPU": 2}, False),
    ],
    ids=["renamed", "the old one vanished", "the new one appeared", "both were and are there"],
)
def test_amounts_change_their_class_only_where_inventory_does(
    old: dict[str, int], new: dict[str, int], fits: bool
) -> None:
    before, after = {GUEST: held(root={"VGPU": 2})}, {GUEST: held(root={"CUSTOM_VGPU": 2})}
    affected = Affected.between(providers(root=old), providers(root=new))
    if fits:
        assert moved_allocations(before, after, affected).keys() == {GUEST}
    else:
        with pytest.raises(AllocationsBroken, match="do not add up"):
            moved_allocations(before, after, affected)


@pytest.mark.parametrize(
    "wrong",
    [None, {}, {"allocations": []}, {"allocations": {ROOT: {}}}, {"allocations": {ROOT: 2}}]
    + [{"allocations": {"root": {"resources": {"VCPU": 2}}}}]
    + [{"allocations": {ROOT: {"resources": {"VCPU": "2"}}}}]
    + [{"allocations": {ROOT: {"resources": {"VCPU": True}}}}]
    + [{"allocations": {ROOT.upper(): {"resources": {"VCPU": 2}}}}],
)
def test_what_is_no_record_of_a_consumer_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(AllocationsBroken, match=f"consumer {GUEST}"):
        refuse_malformed({GUEST: wrong})


MOVED = {GUEST: held(root={"VCPU": 2}, child={"VGPU": 1}, other={})}


def test_empty_parts_use_no_provider() -> None:
    assert used_providers(MOVED) == {ROOT, CHILD}


@pytest.mark.parametrize(("uuid", "theirs"), [(ROOT, True), (CHILD, True), (OTHER, False)])
def test_nothing_moves_from_or_to_another_services_provider(uuid: str, theirs: bool) -> None:
    with (
        pytest.raises(AllocationsBroken, match="on provider theirs were changed")
        if theirs
        else (nullcontext())
    ):
        moved = moved_allocations(BEFORE, MOVED, VGPU_MOVES, {uuid: "theirs"})
        assert moved.keys() == {GUEST}


def test_the_payload_has_the_generations_that_were_read_and_no_empty_parts() -> None:
    reshape = Reshape(
        {ROOT: {"VCPU": Inventory(8).with_defaults(None)}, CHILD: {}},
        {GUEST: held(root={"VCPU": 2}, child={})},
    )
    payload = reshape_payload(reshape, {ROOT: 5, CHILD: 1, OTHER: 9})
    assert {u: p["resource_provider_generation"] for u, p in payload["inventories"].items()} == {
        ROOT: 5,
        CHILD: 1,
    }
    assert payload["inventories"][CHILD]["inventories"] == {}
    assert payload["allocations"][GUEST]["allocations"] == {ROOT: {"resources": {"VCPU": 2}}}
    assert payload["allocations"][GUEST]["consumer_generation"] == 3


def test_generations_after_it_are_what_placement_makes_them() -> None:
    """Two for an inventory, one for an empty one, one more where allocations were written."""
    reshape = Reshape(
        {ROOT: {"VCPU": Inventory(8).with_defaults(None)}, CHILD: {}},
        {
            GUEST: held(root={"VCPU": 2}, other={"FPGA": 1}),
            SECOND: held(root={"VCPU": 1}, child={}),
        },
    )
    assert generations_after(reshape, {ROOT: 5, CHILD: 1, OTHER: 9}) == {
        ROOT: 8,
        CHILD: 2,
        OTHER: 10,
    }
    bulk = SetInventories({ROOT: {"VCPU": Inventory(8).with_defaults(None)}})
    assert generations_after(bulk, {ROOT: 5}) == {ROOT: 7}


# -- laws

amounts = st.dictionaries(st.sampled_from(["VCPU", "VGPU", "FPGA"]), st.integers(1, 3), max_size=3)
records = st.fixed_dictionaries({"root": amounts, "child": amounts, "other": amounts})
totals = st.fixed_dictionaries({"root": amounts, "child": amounts, "other": amounts})


@given(records, records, totals, totals)
def test_a_valid_reshape_keeps_each_consumers_total_and_what_is_unedited(
    before: dict[str, Any], after: dict[str, Any], old: dict[str, Any], new: dict[str, Any]
) -> None:
    affected = Affected.between(providers(**old), providers(**new))
    was, now = held(**before), held(**after)
    try:
        found = moved_allocations({GUEST: was}, {GUEST: now}, affected)
    except AllocationsBroken:
        return
    if not found:
        assert _amounts(was) == _amounts(now)
        return
    assert found[GUEST]["allocations"] == now["allocations"]
    assert _total(was) == _total(now)
    unedited = {ROOT, CHILD, OTHER} - affected.providers
    for uuid in unedited:
        for name, amount in was["allocations"][uuid]["resources"].items():
            assert now["allocations"][uuid]["resources"].get(name, 0) >= amount


def _amounts(record: dict[str, Any]) -> dict[tuple[str, str], int]:
    parts = record["allocations"].items()
    return {(uuid, name): n for uuid, one in parts for name, n in one["resources"].items()}


def _total(record: dict[str, Any]) -> int:
    return sum(_amounts(record).values())


@given(records, totals)
def test_a_class_keeps_its_total_where_no_class_came_or_went(
    before: dict[str, Any], old: dict[str, Any]
) -> None:
    """Inventory that only changes its place."""
    new = {"root": old["child"], "child": old["other"], "other": old["root"]}
    affected = Affected.between(providers(**old), providers(**new))
    was = held(**before)
    now = held(root=before["child"], child=before["other"], other=before["root"])
    try:
        moved_allocations({GUEST: was}, {GUEST: now}, affected)
    except AllocationsBroken:
        return
    assert _by_class(was) == _by_class(now)


def _by_class(record: dict[str, Any]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, name), amount in _amounts(record).items():
        found[name] += amount
    return found
