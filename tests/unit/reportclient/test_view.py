"""How each acknowledged operation changes the view."""

from dataclasses import replace
from typing import Any

from reportclient.model import Inventory, Names, Provider
from reportclient.plan import (
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Operation,
    Reshape,
    SetInventories,
    SetInventory,
    SetTraits,
    UpdateProvider,
)
from reportclient.snapshot import Snapshot
from reportclient.view import View, ViewEdit

ROOT, CARD, BELOW = (f"c0ffee00-0000-4000-8000-00000000000{number}" for number in range(3))
OPEN = {"VGPU": Inventory(2, reserved=1).with_defaults(None)}
FULL = {"VGPU": Inventory(2, reserved=2).with_defaults(None)}
VIEW = View(
    Snapshot.build([Provider(ROOT, "host"), Provider(CARD, "card", ROOT, FULL)]),
    {ROOT: 1, CARD: 4},
    Names(frozenset({"CUSTOM_A"}), frozenset({"CUSTOM_B"})),
    drained={CARD: {"VGPU": 1}},
    certain=True,
)


def after(operation: Operation, reply: dict[str, Any], view: View = VIEW) -> View:
    edit = ViewEdit(view)
    edit.ack(operation, reply)
    return edit.freeze(certain=True)


def test_a_created_name_is_known_beside_the_others() -> None:
    names = after(EnsureTrait("CUSTOM_T"), {}).names
    assert (names.traits, names.classes) == ({"CUSTOM_A", "CUSTOM_T"}, {"CUSTOM_B"})
    names = after(EnsureClass("CUSTOM_C"), {}).names
    assert (names.traits, names.classes) == ({"CUSTOM_A"}, {"CUSTOM_B", "CUSTOM_C"})


def test_a_write_gives_a_new_generation_and_a_rename_none() -> None:
    written = after(SetTraits(CARD, frozenset()), {"resource_provider_generation": 5})
    assert written.generations == {ROOT: 1, CARD: 5} and written.drained == VIEW.drained
    renamed = after(UpdateProvider(CARD, "other", ROOT), {"generation": 9})
    assert renamed.generations == VIEW.generations
    assert renamed.snapshot.providers[CARD].name == "other"


def test_of_a_deleted_provider_nothing_is_left() -> None:
    empty = replace(
        VIEW, snapshot=Snapshot.build([Provider(ROOT, "host"), Provider(CARD, "c", ROOT)])
    )
    gone = after(DeleteProvider(CARD), {}, empty)
    assert (gone.generations, dict(gone.drained)) == ({ROOT: 1}, {})
    unknown = replace(empty, generations={ROOT: 1}, drained={})
    assert after(DeleteProvider(CARD), {}, unknown).generations == {ROOT: 1}


def test_a_drained_class_keeps_what_was_reserved_before_until_it_is_opened() -> None:
    both = {**FULL, "FPGA": Inventory(3, reserved=3).with_defaults(None)}
    more = SetInventory(CARD, both, drains={"VGPU": 2, "FPGA": 3})
    reply = {"resource_provider_generation": 5}
    noted = {CARD: {"VGPU": 1, "FPGA": 3}}  # before the write
    drained = after(more, reply, replace(VIEW, drained=noted))
    assert drained.drained == noted and drained.generations[CARD] == 5
    one_opened = {**both, **OPEN}
    assert after(SetInventory(CARD, one_opened), reply, drained).drained == {CARD: {"FPGA": 3}}
    assert not after(SetInventory(CARD, OPEN), reply).drained
    bulk = after(SetInventories({CARD: OPEN}), {})
    assert not bulk.drained and bulk.generations == {ROOT: 1, CARD: 6}
    assert after(SetInventories({CARD: FULL}), {}).drained == VIEW.drained


def test_an_edited_tree_shows_drained_classes_with_at_most_their_total() -> None:
    assert VIEW.edit().records(CARD) == OPEN
    assert VIEW.edit().data(CARD).inventory["VGPU"]["reserved"] == 1
    more = replace(VIEW, drained={CARD: {"VGPU": 9}, BELOW: {"VGPU": 1}})
    assert more.edit().records(CARD) == FULL


def test_of_an_edit_only_classes_that_were_set_are_opened() -> None:
    desired, both = VIEW.edit().freeze(), {**FULL, "FPGA": FULL["VGPU"]}
    nothing_set = VIEW.with_drained(desired, ())
    assert nothing_set == VIEW.snapshot
    assert VIEW.with_drained(desired, {(CARD, "VGPU")}) == desired
    gone = desired.with_changes({CARD: None})
    assert VIEW.with_drained(gone, ()) == gone
    without = desired.with_changes({CARD: Provider(CARD, "card", ROOT)})
    assert VIEW.with_drained(without, ()) == without
    other = replace(VIEW, snapshot=Snapshot.build([Provider(CARD, "card", None, both)]))
    assert other.with_drained(other.edit().freeze(), ()) == other.snapshot


def test_of_a_reshape_only_expected_generations_count() -> None:
    reshape = Reshape({ROOT: FULL, CARD: {}}, {})
    listed = [{"uuid": ROOT, "generation": 3}, {"uuid": CARD, "generation": 9}]
    shaped = after(reshape, {"resource_providers": listed})
    assert shaped.generations == {ROOT: 3}, "another client wrote to the card"
    assert shaped.snapshot.providers[ROOT].inventory == FULL


def test_a_view_without_changes_is_the_desired_one() -> None:
    edit, desired = ViewEdit(VIEW), Snapshot.build(VIEW.snapshot.walk())
    assert edit.is_below(CARD, ROOT) and not edit.is_below(ROOT, CARD)
    assert edit.freeze(desired, certain=False) == VIEW.stale()
    assert edit.freeze(desired, certain=True).snapshot is desired
    edit.refused(SetTraits(CARD, frozenset({"NEW"})), frozenset({"NEW"}))
    names = edit.freeze(certain=True).names
    assert (names.absent_traits, names.absent_classes) == ({"NEW"}, frozenset())
    edit.refused(SetInventory(CARD, FULL), frozenset({"LATER"}))
    assert edit.freeze(certain=True).names.absent_classes == {"LATER"}
    assert VIEW.edit().data(CARD).generation == 4
