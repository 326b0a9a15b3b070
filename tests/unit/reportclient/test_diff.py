"""diff: what goes into a reshape, what is never written, and what stands before what."""

from typing import Any

import pytest

from reportclient.model import SHARES_VIA_AGGREGATE, Inventory, Names, Provider
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Plan,
    Reshape,
    SetInventory,
    SetTraits,
    UpdateProvider,
    diff,
)
from reportclient.snapshot import Snapshot

ROOT, OLD, NEW, BELOW, SHARED = (
    f"c0ffee00-0000-4000-8000-00000000000{number}" for number in range(5)
)
GUEST = "00000000-0000-4000-8000-000000000001"


def records(**totals: int) -> dict[str, Inventory]:
    return {name: Inventory(total).with_defaults(None) for name, total in totals.items()}


def tree(*providers: Provider) -> Snapshot:
    return Snapshot.build([Provider(ROOT, "host", None, records(VCPU=8)), *providers])


def at(uuid: str, **amounts: int) -> dict[str, Any]:
    return {GUEST: {"allocations": {uuid: {"resources": amounts}}}}


def kinds(plan: Plan) -> list[str]:
    return [type(operation).__name__ for operation in plan]


OLD_CARD = Provider(OLD, "old", ROOT, records(VGPU=4))
NEW_CARD = Provider(NEW, "new", ROOT, records(VGPU=4), frozenset({"CUSTOM_NEW"}))


def test_a_removed_provider_is_emptied_by_the_reshape_and_deleted_after_it() -> None:
    plan = diff(tree(OLD_CARD), tree(NEW_CARD), at(NEW, VGPU=1))
    assert plan.operations == (
        EnsureTrait("CUSTOM_NEW"),
        CreateProvider(NEW, "new", ROOT),
        Reshape({NEW: records(VGPU=4), OLD: {}}, at(NEW, VGPU=1)),
        DeleteProvider(OLD),
        SetTraits(NEW, frozenset({"CUSTOM_NEW"})),
    )


@pytest.mark.parametrize(("moved", "in_use"), [({}, {OLD}), (at(OLD, VGPU=1), set())])
def test_a_provider_that_keeps_or_gets_allocations_is_not_emptied(
    moved: dict[str, Any], in_use: set[str]
) -> None:
    """Placement would refuse the whole reshape."""
    plan = diff(tree(OLD_CARD), tree(NEW_CARD), moved, in_use=in_use)
    (reshape,) = [one for one in plan if isinstance(one, Reshape)]
    assert reshape.inventories.keys() == {NEW}


def test_an_invalid_inventory_is_not_sent_in_a_reshape_either() -> None:
    card = Provider(NEW, "new", ROOT, {"VGPU": Inventory(0).with_defaults(None)})
    assert kinds(diff(tree(), tree(card), {})) == ["CreateProvider"]


def test_in_a_reshape_every_inventory_is_written_once() -> None:
    for moved in ({}, at(NEW, VGPU=1)):
        assert not [one for one in diff(tree(), tree(NEW_CARD), moved) if type(one) is SetInventory]


@pytest.mark.parametrize("name", ["old", "OLD"])
@pytest.mark.parametrize("moved", [None, at(NEW, VGPU=1)], ids=["alone", "reshape"])
def test_a_name_is_freed_by_a_rename_since_its_provider_may_be_in_use(
    name: str, moved: dict[str, Any] | None
) -> None:
    """A MariaDB takes no two names that differ only in case."""
    renamed = Provider(NEW, name, ROOT, records(VGPU=4))
    first, *others = diff(tree(OLD_CARD), tree(renamed), moved)
    assert first == UpdateProvider(OLD, f"old_removed_{OLD}", ROOT)
    last = ["DeleteProvider", "SetInventory"] if moved is None else ["Reshape", "DeleteProvider"]
    assert [type(each).__name__ for each in others] == ["CreateProvider", *last]


def test_no_provider_with_a_child_that_stays_is_deleted_to_free_its_name() -> None:
    below = Provider(BELOW, "below", OLD)
    moved = Provider(BELOW, "below", ROOT)
    plan = diff(tree(OLD_CARD, below), tree(Provider(NEW, "old", ROOT), moved))
    assert kinds(plan)[-1] == "DeleteProvider"
    assert UpdateProvider(BELOW, "below", ROOT, moved=True) in plan.operations


def test_a_move_says_that_it_is_one_and_a_rename_does_not() -> None:
    """Moves take microversion 1.37."""
    below, moved = Provider(BELOW, "a", OLD), Provider(BELOW, "a", ROOT)
    plan = diff(tree(OLD_CARD, below), tree(OLD_CARD, moved))
    assert plan.operations == (UpdateProvider(BELOW, "a", ROOT, moved=True),)
    renamed = Provider(BELOW, "b", OLD)
    plan = diff(tree(OLD_CARD, below), tree(OLD_CARD, renamed))
    assert plan.operations == (UpdateProvider(BELOW, "b", OLD, moved=False),)


def test_allocations_that_move_alone_take_some_inventory_along() -> None:
    """Placement takes no reshape without one: an unchanged one of a provider in use."""
    before = tree(OLD_CARD)
    plan = diff(before, before, at(OLD, VGPU=1))
    assert plan.operations == (Reshape({OLD: OLD_CARD.inventory}, at(OLD, VGPU=1)),)


def test_it_is_never_another_services_inventory() -> None:
    """Though that is the first in use."""
    shares = frozenset({SHARES_VIA_AGGREGATE})
    first = "00000000-0000-4000-8000-000000000000"
    before = tree(OLD_CARD, Provider(first, "pool", None, records(DISK_GB=9), shares))
    plan = diff(before, before, at(OLD, VGPU=1), in_use={first, OLD})
    assert plan.operations == (Reshape({OLD: OLD_CARD.inventory}, at(OLD, VGPU=1)),)


def test_only_custom_names_are_made() -> None:
    named = Provider(NEW, "new", ROOT, records(VGPU=4, CUSTOM_A=1), frozenset({"HW_A", "CUSTOM_T"}))
    plan = diff(tree(), tree(named))
    assert plan.operations[:2] == (EnsureTrait("CUSTOM_T"), EnsureClass("CUSTOM_A"))
    known = Names(frozenset({"CUSTOM_T"}), frozenset({"CUSTOM_A"}))
    assert "Ensure" not in "".join(kinds(diff(tree(), tree(named), names=known)))


def test_what_another_client_reserved_stays_as_far_as_the_total_allows() -> None:
    before = Provider(OLD, "old", ROOT, {"VGPU": Inventory(8, reserved=5).with_defaults(None)})
    for total, reserved in ((6, 5), (3, 3)):
        after = Provider(OLD, "old", ROOT, {"VGPU": Inventory(total)})
        (operation,) = diff(tree(before), tree(after))
        assert isinstance(operation, SetInventory)
        assert operation.inventory["VGPU"].reserved == reserved


def test_what_is_left_out_is_told_with_its_provider_and_the_reason() -> None:
    """Each text as an operator reads it."""
    card = Provider(
        NEW,
        "new",
        ROOT,
        {**records(HW_LATER=1, VGPU=4), "vcpu": Inventory(1), "PGPU": Inventory(0)},
        frozenset({"HW_NEVER", "no trait", "CUSTOM_GOOD"}),
    )
    names = Names(absent_traits=frozenset({"HW_NEVER"}), absent_classes=frozenset({"HW_LATER"}))
    plan = diff(tree(), tree(card), names=names)
    form = "only A-Z, 0-9 and _, at most 255 characters, and at least one after CUSTOM_"
    assert {(one.provider, one.text) for one in plan.problems} == {
        ("new", "trait HW_NEVER is unknown to this Placement; left out"),
        ("new", f"trait 'no trait' is not a valid name: {form}; left out"),
        ("new", "resource class HW_LATER is unknown to this Placement; left out"),
        (
            "new",
            "inventory of PGPU: total is 0, it has to be from 1 to 2147483647; inventory of vcpu: "
            f"resource class 'vcpu' is not a valid name: {form}; its inventory is "
            "not changed",
        ),
    }
    assert plan.operations == (
        EnsureTrait("CUSTOM_GOOD"),
        CreateProvider(NEW, "new", ROOT),
        SetTraits(NEW, frozenset({"CUSTOM_GOOD"})),
    )


def test_a_plan_has_the_names_of_the_providers_concerned_those_that_go_too() -> None:
    renamed = Provider(OLD, "renamed", ROOT, records(VGPU=4))
    gone = Provider(BELOW, "gone", ROOT)
    plan = diff(tree(OLD_CARD, gone), tree(renamed, NEW_CARD))
    assert plan.names.items() >= {OLD: "renamed", NEW: "new", BELOW: "gone"}.items()


def test_allocations_that_nobody_here_holds_are_named() -> None:
    second = "00000000-0000-4000-8000-000000000002"
    held = {GUEST: at(SHARED, VGPU=1)[GUEST], second: at(SHARED, VGPU=1)[GUEST]}
    with pytest.raises(ValueError, match=f"has the allocations of {GUEST}, {second}$"):
        diff(tree(), tree(), held)


def named(*names: tuple[str, str], below: str = ROOT) -> list[Provider]:
    return [Provider(uuid, name, below) for uuid, name in names]


def updates(before: list[Provider], after: list[Provider]) -> list[tuple[str, str, str | None]]:
    plan = diff(tree(*before), tree(*after))
    return [(o.uuid, o.name, o.parent_uuid) for o in plan if isinstance(o, UpdateProvider)]


def test_a_name_is_free_once_the_provider_that_had_it_is_renamed() -> None:
    """From the last of the chain to the first, each once."""
    before = named((OLD, "a"), (NEW, "b"), (BELOW, "c"))
    after = named((OLD, "b"), (NEW, "c"), (BELOW, "d"))
    assert updates(before, after) == [(BELOW, "d", ROOT), (NEW, "c", ROOT), (OLD, "b", ROOT)]


@pytest.mark.parametrize(("a", "b"), ["ab", "AB"])
def test_names_that_are_exchanged_take_one_rename_in_between(a: str, b: str) -> None:
    before, after = named((OLD, "a"), (NEW, "b")), named((OLD, b), (NEW, a))
    assert updates(before, after) == [(OLD, OLD, ROOT), (NEW, a, ROOT), (OLD, b, ROOT)]


def test_a_name_whose_case_changes_takes_one_rename() -> None:
    assert updates(named((OLD, "a")), named((OLD, "A"))) == [(OLD, "A", ROOT)]


def test_the_name_of_a_provider_that_moves_is_freed_by_a_rename_in_between() -> None:
    """Its place may need others to be placed first."""
    before = named((OLD, "a"), (NEW, "b"), (BELOW, "c"))
    after = [*named((OLD, "b"), (BELOW, "c")), *named((NEW, "d"), below=BELOW)]
    assert updates(before, after) == [(NEW, NEW, ROOT), (OLD, "b", ROOT), (NEW, "d", BELOW)]
