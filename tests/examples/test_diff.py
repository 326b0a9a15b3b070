"""``diff(old, new)`` says what has to be done.  It asks nobody and changes nothing."""

from __future__ import annotations

from reportclient.diff import diff
from reportclient.model import Inventory, Provider
from reportclient.plan import (
    CreateProvider,
    EnsureTrait,
    SetInventory,
    SetTraits,
    UpdateProvider,
)
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot

HOST = "c0ffee00-0000-4000-8000-000000000001"
CARD = "c0ffee00-0000-4000-8000-000000000002"
PORT = "c0ffee00-0000-4000-8000-000000000003"

# A snapshot is a forest of providers that never changes.
EMPTY = Snapshot.build([Provider(HOST, "host1")])


def edited(base: Snapshot) -> ProviderTree:
    """A tree to edit, in the words that authors of drivers know from Nova."""
    return ProviderTree(base)


def test_a_change_is_one_operation() -> None:
    tree = edited(EMPTY)
    tree.update_inventory("host1", {"VCPU": {"total": 8}})
    (operation,) = diff(EMPTY, tree.freeze())
    assert isinstance(operation, SetInventory)
    assert operation.inventory["VCPU"].total == 8
    assert operation.inventory["VCPU"].allocation_ratio == 1.0, "Placement's defaults are filled in"


def test_what_a_record_leaves_unsaid_stays_as_it_is() -> None:
    """An operator who sets a ratio in Placement keeps it when the number of CPUs changes."""
    records = {"VCPU": Inventory(total=8, allocation_ratio=4.0).with_defaults(None)}
    old = Snapshot.build([Provider(HOST, "host1", None, records)])
    tree = edited(old)
    tree.update_inventory("host1", {"VCPU": {"total": 16}})
    (operation,) = diff(old, tree.freeze())
    assert isinstance(operation, SetInventory)
    assert operation.inventory["VCPU"].allocation_ratio == 4.0


def test_names_come_first_then_providers_and_inventory_last() -> None:
    """A new provider gets guests only once its traits say what it is."""
    tree = edited(EMPTY)
    tree.new_child("card", "host1", CARD)
    tree.add_traits("card", "CUSTOM_FAST")
    tree.update_inventory("card", {"VGPU": {"total": 4}})
    operations = list(diff(EMPTY, tree.freeze()))
    assert operations[:3] == [
        EnsureTrait("CUSTOM_FAST"),
        CreateProvider(CARD, "card", HOST),
        SetTraits(CARD, frozenset({"CUSTOM_FAST"})),
    ]
    assert [type(operation) for operation in operations[3:]] == [SetInventory]


def test_two_that_swap_names_need_a_third_name_for_a_moment() -> None:
    old = Snapshot.build(
        [Provider(HOST, "host1"), Provider(CARD, "card", HOST), Provider(PORT, "port", HOST)]
    )
    new = Snapshot.build(
        [Provider(HOST, "host1"), Provider(CARD, "port", HOST), Provider(PORT, "card", HOST)]
    )
    renames = list(diff(old, new))
    assert all(isinstance(operation, UpdateProvider) for operation in renames)
    names = {provider.uuid: provider.name for provider in old.walk()}
    for rename in renames:
        assert rename.name not in names.values(), "each name is free when it is taken"
        names[rename.uuid] = rename.name
    assert (names[CARD], names[PORT]) == ("port", "card")
