"""What each operation is called, as the difference to what Placement has."""

import pytest

from computectl.drawing.sentences import name_of, sentence
from reportclient.model import Inventory
from reportclient.plan import (
    EnsureClass,
    EnsureTrait,
    Reshape,
    SetInventories,
    UpdateProvider,
    diff,
)
from reportclient.snapshot import EMPTY, Snapshot
from tests.unit.cli.trees import provider, uuid_of

BIG = Inventory(8, 0, 1, 8, 1, 1.0)
A, B = f"({uuid_of('a')})", f"({uuid_of('b')})"


def said(old: list, new: list) -> list[str]:
    before = Snapshot.build(old)
    plan = diff(before, Snapshot.build(new))
    return [sentence(operation, before, plan.names) for operation in plan]


def test_a_new_tree() -> None:
    new = [provider("a"), provider("b", "a")]
    assert said([], new) == [f"create root provider a {A}", f"create provider b {B} below a"]


def test_a_provider_that_goes() -> None:
    assert said([provider("a"), provider("b", "a")], [provider("a")]) == [f"delete provider b {B}"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("a", "c", "move provider b from below a to below c"),
        (None, "c", "move provider b from the top to below c"),
        ("a", None, "move provider b from below a to the top"),
    ],
)
def test_a_move(old: str | None, new: str | None, words: str) -> None:
    others = [provider("a"), provider("c")]
    assert said([*others, provider("b", old)], [*others, provider("b", new)]) == [words]


def test_a_rename_with_a_move() -> None:
    before = Snapshot.build([provider("a"), provider("b", "a")])
    renamed = UpdateProvider(uuid_of("b"), "z", None, moved=True)
    assert sentence(renamed, before, {uuid_of("b"): "z"}) == (
        "rename provider b to z and move provider z from below a to the top"
    )


def test_traits_are_told_by_what_comes_and_goes() -> None:
    old = [provider("a", traits=["CUSTOM_KEPT", "CUSTOM_OLD"])]
    new = [provider("a", traits=["CUSTOM_KEPT", "CUSTOM_X", "CUSTOM_Y"])]
    assert said(old, new)[-1] == "add traits CUSTOM_X, CUSTOM_Y; remove trait CUSTOM_OLD on a"


def test_aggregates_are_told_by_what_comes_and_goes() -> None:
    old, new = uuid_of("agg1"), uuid_of("agg2")
    assert said([provider("a", aggregates=[old])], [provider("a", aggregates=[new])]) == [
        f"add aggregate {new}; remove aggregate {old} on a"
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            {"VCPU": BIG},
            {"VCPU": Inventory(16, 2, 1, 8, 1, 1.0)},
            "set inventory of VCPU on a: total 8 → 16, reserved 0 → 2",
        ),
        (
            {"VCPU": BIG},
            {"VCPU": Inventory(8, 0, 1, 8, 1, 1.5)},
            "set inventory of VCPU on a: ratio 1 → 1.5",
        ),
        (
            {},
            {"VCPU": Inventory(8, 2, allocation_ratio=4.0)},
            "add inventory of VCPU on a: total 8, reserved 2, ratio 4",
        ),
        ({"VCPU": BIG}, {}, "remove inventory of VCPU on a"),
        (
            {"VCPU": BIG, "VGPU": BIG},
            {"DISK_GB": Inventory(9), "VCPU": Inventory(7, 0, 1, 8, 1, 1.0)},
            "inventory on a: add DISK_GB (total 9); set VCPU (total 8 → 7); remove VGPU",
        ),
    ],
)
def test_inventory_is_told_by_its_differences(old: dict, new: dict, words: str) -> None:
    assert said([provider("a", inventory=old)], [provider("a", inventory=new)]) == [words]


def test_names_are_made_known() -> None:
    assert sentence(EnsureTrait("CUSTOM_X"), EMPTY, {}) == "create the trait CUSTOM_X"
    assert sentence(EnsureClass("CUSTOM_Y"), EMPTY, {}) == "create the resource class CUSTOM_Y"


def test_a_bulk_write_tells_all_its_inventories() -> None:
    before = Snapshot.build([provider("a", inventory={"VCPU": BIG}), provider("b")])
    bulk = SetInventories({uuid_of("a"): {}, uuid_of("b"): {"VCPU": Inventory(8)}})
    assert sentence(bulk, before, {}) == (
        "remove inventory of VCPU on a; add inventory of VCPU on b: total 8"
    )


def test_a_reshape_tells_inventories_and_how_many_consumers_it_touches() -> None:
    before = Snapshot.build([provider("a", inventory={"VGPU": BIG}), provider("b", "a")])
    move = Reshape({uuid_of("a"): {}, uuid_of("b"): {"VGPU": Inventory(8)}}, {uuid_of("c"): {}})
    assert sentence(move, before, {}) == (
        "reshape, all at once: remove inventory of VGPU on a; "
        "add inventory of VGPU on b: total 8; the allocations of 1 consumer"
    )


def test_a_provider_that_nobody_named_is_called_by_its_uuid() -> None:
    assert name_of("somewhere", EMPTY, {}) == "somewhere"
