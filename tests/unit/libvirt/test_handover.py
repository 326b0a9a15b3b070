"""A CPU has one class at a time, whatever an operator changes."""

import pytest

from drivers.inventory import PCPU, VCPU, InventoryPolicy
from reportclient.provider_tree import ProviderTree
from tests.unit.libvirt.hosts import (
    NODE,
    ROOT,
    capabilities,
    cell,
    new_tree,
    reading,
    report_of,
    totals,
    written,
)

CELL, SECOND = f"{NODE}_numa0", f"{NODE}_numa1"
ALL = frozenset(range(8))
SHARED, DEDICATED = (InventoryPolicy(**{kind: ALL}) for kind in ("shared_cpus", "dedicated_cpus"))
NESTED = {"report_numa": "nested"}
LOOK = reading()


def drained(tree: ProviderTree, resource_class: str) -> ProviderTree:
    """As the agent has it in Placement while guests use that class."""
    for uuid in tree.get_provider_uuids(NODE):
        inventory = tree.data(uuid).inventory
        if resource_class in inventory:
            record = inventory[resource_class]
            record["reserved"] = record["total"]
            tree.update_inventory(uuid, inventory)
    return tree


@pytest.mark.parametrize("numa", [{}, NESTED], ids=["root", "cells"])
@pytest.mark.parametrize(
    ("before", "after", "old", "new"),
    [(SHARED, DEDICATED, VCPU, PCPU), (DEDICATED, SHARED, PCPU, VCPU)],
)
def test_cpus_that_change_their_class_are_in_one_class_of_each_write(numa, before, after, old, new):
    """While guests use the old class, the write is refused: tests/contract/test_offered_once.py."""
    name = CELL if numa else NODE
    tree = written(new_tree(), LOOK, policy=before, **numa)
    assert {old, new} & totals(tree, name).keys() == {old}
    later = written(tree, LOOK, policy=after, **numa)
    assert {old, new} & totals(later, name).keys() == {new}
    assert totals(later, name)[new] == (4 if numa else 8)


def test_cpus_in_use_on_the_root_are_not_offered_in_cells():
    tree = written(new_tree(), LOOK, policy=SHARED)
    held = {"a": {"allocations": {ROOT: {"resources": {VCPU: 2, "MEMORY_MB": 64}}}}}
    later = written(tree, LOOK, held, policy=DEDICATED, **NESTED)
    assert totals(later)[VCPU] == 8, "what is in use stays, and is drained from the next period on"
    assert PCPU not in totals(later, CELL)
    (words,) = report_of(later, LOOK, policy=DEDICATED, **NESTED).notes.values()
    assert words == "Placement still has VCPU: PCPU is reported once no guest uses it"
    assert totals(later, CELL)["MEMORY_MB"] == 4096
    waits = written(drained(later, VCPU), LOOK, policy=DEDICATED, **NESTED)
    assert PCPU not in totals(waits, CELL)
    assert totals(written(waits, LOOK, policy=DEDICATED, **NESTED), CELL)[PCPU] == 4


def test_cpus_in_use_in_a_cell_are_not_offered_in_those_that_it_becomes():
    one = written(
        new_tree(), reading(capabilities(cell(0, range(8), 8192))), policy=SHARED, **NESTED
    )
    held = {"a": {"allocations": {one.data(CELL).uuid: {"resources": {VCPU: 6, "MEMORY_MB": 64}}}}}
    later = written(one, LOOK, held, policy=DEDICATED, **NESTED)
    assert PCPU not in totals(later, CELL), "there the write is refused meanwhile"
    waits = written(drained(later, VCPU), LOOK, policy=DEDICATED, **NESTED)
    for tree in (later, waits):
        assert totals(tree, SECOND) == {"MEMORY_MB": 4096}
    assert totals(written(waits, LOOK, policy=DEDICATED, **NESTED), SECOND)[PCPU] == 4


def test_a_cell_gives_up_its_own_shared_cpus_only():
    one = InventoryPolicy(shared_cpus=frozenset(range(4, 8)), dedicated_cpus=frozenset(range(4)))
    tree = written(new_tree(), LOOK, policy=SHARED, **NESTED)
    later = written(tree, LOOK, policy=one, **NESTED)
    assert totals(later, CELL)[PCPU] == 4 and VCPU not in totals(later, CELL)
    assert totals(later, SECOND)[VCPU] == 4


def test_a_change_of_both_sets_that_leaves_some_shared_is_done_at_once():
    half = InventoryPolicy(shared_cpus=frozenset({0, 1}), dedicated_cpus=frozenset(range(2, 8)))
    tree = written(new_tree(), LOOK, policy=SHARED)
    assert {VCPU: 2, PCPU: 6}.items() <= totals(written(tree, LOOK, policy=half)).items()
