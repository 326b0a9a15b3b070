"""How each acknowledged operation changes the view."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reportclient.model import Inventory, Provider
from reportclient.names import Names
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

ROOT, CARD = (f"c0ffee00-0000-4000-8000-00000000000{number}" for number in range(2))
FULL = {"VGPU": Inventory(2).with_defaults(None)}
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


def test_a_drained_class_keeps_what_was_reserved_before_until_it_is_written_anew() -> None:
    more = SetInventory(CARD, FULL, drains={"VGPU": 2, "FPGA": 3})
    reply = {"resource_provider_generation": 5}
    drained = after(more, reply)
    assert drained.drained == {CARD: {"VGPU": 1, "FPGA": 3}} and drained.generations[CARD] == 5
    assert after(more, reply, replace(VIEW, drained={})).drained == {CARD: more.drains}
    assert not after(SetInventory(CARD, FULL), reply).drained
    assert not after(SetInventory(CARD, FULL), reply, replace(VIEW, drained={})).drained
    bulk = after(SetInventories({CARD: FULL}), {})
    assert not bulk.drained and bulk.generations == {ROOT: 1, CARD: 6}


def test_of_a_reshape_only_expected_generations_count() -> None:
    reshape = Reshape({ROOT: FULL, CARD: {}}, {})
    listed = [{"uuid": ROOT, "generation": 3}, {"uuid": CARD, "generation": 9}]
    shaped = after(reshape, {"resource_providers": listed})
    assert shaped.generations == {ROOT: 3}, "another client wrote to the card"
    assert shaped.snapshot.providers[ROOT].inventory == FULL


def test_a_view_without_changes_is_the_desired_one() -> None:
    edit, desired = ViewEdit(VIEW), Snapshot.build(VIEW.snapshot.walk())
    assert edit.children(ROOT) == [CARD] and edit.children(CARD) == []
    assert edit.freeze(desired, certain=False) == VIEW.stale()
    assert edit.freeze(desired, certain=True).snapshot is desired
    edit.refused(frozenset({"HW_NEW"}))
    assert edit.freeze(certain=True).names.absent == {"HW_NEW"}
    assert VIEW.edit().data(CARD).generation == 4
