"""Inventories in one call: from how many on, and what stays alone."""

from reportclient.model import MAX_INT, Inventory
from reportclient.plan import Plan, SetInventories, SetInventory, with_bulk_writes

VCPUS = {"VCPU": Inventory(8, 0, 1, MAX_INT, 1, 1.0)}


def plan_of(count):
    return Plan(tuple(SetInventory(f"provider{each}", VCPUS) for each in range(count)))


def test_from_the_threshold_on_inventories_are_one_call():
    assert with_bulk_writes(plan_of(7), 50, 8) == plan_of(7)
    (bulk,) = with_bulk_writes(plan_of(8), 50, 8)
    assert isinstance(bulk, SetInventories) and len(bulk.inventories) == 8


def test_no_chunk_is_no_bulk_and_chunks_are_no_larger_than_they_may_be():
    assert with_bulk_writes(plan_of(33), 0, 8) == plan_of(33)
    assert [len(one.inventories) for one in with_bulk_writes(plan_of(33), 10, 8)] == [10, 10, 10, 3]


def test_a_draining_inventory_is_written_alone():
    drained = SetInventory("busy", VCPUS, {"VCPU": 2})
    plan = Plan((drained, *plan_of(8)))
    alone, bulk = with_bulk_writes(plan, 50, 8)
    assert alone == drained and "busy" not in bulk.inventories
