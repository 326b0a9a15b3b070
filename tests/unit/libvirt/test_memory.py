import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.inventory import GuestCpus, InventoryPolicy
from drivers.libvirt.facts.numa import (
    Capacity,
    MemoryPolicy,
    ReservedPages,
    apportion,
    hugepage_class,
    memory_mb,
)
from drivers.libvirt.facts.topology import Cell
from reportclient.model import Inventory, name_problem


@pytest.mark.parametrize(
    ("kib", "huge", "choice", "expected"),
    [
        (8192, 2048, "off", 6),
        (8192, 2048, "pages", 6),
        (8192, 2048, "memory", 8),
        (2047, 0, "off", 1),
        (1024, 4096, "off", 0),
    ],
)
def test_hugepages_are_kept_out_of_memory_unless_reported_as_such(kib, huge, choice, expected):
    assert memory_mb(kib, huge, choice) == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [(64, "64K"), (2048, "2M"), (16384, "16M"), (32768, "32M"), (524288, "512M"), (1048576, "1G")],
)
def test_classes_are_named_by_size(size, expected):
    assert hugepage_class(size) == f"CUSTOM_HUGEPAGES_{expected}"


@given(st.integers(1, 2**50), st.integers(1, 2**50))
def test_every_size_has_a_class_of_its_own_that_placement_takes(size, other):
    assert name_problem(hugepage_class(size), "resource class") is None
    assert (hugepage_class(size) == hugepage_class(other)) == (size == other)


def hugepages(pages, *reserved):
    cell, cpus = Cell(0, frozenset(), 0, pages), GuestCpus(frozenset(), frozenset(), {})
    memory = MemoryPolicy("pages", reserved)
    return Capacity([cell], cpus, 0, InventoryPolicy(), memory).shares("n", "off")["n"].pages


def test_hugepages_are_counted_in_pages_and_never_overcommitted():
    found = hugepages({2048: 512, 1048576: 0})
    assert list(found) == ["CUSTOM_HUGEPAGES_2M"]
    record = found["CUSTOM_HUGEPAGES_2M"]
    assert (record["total"], record["allocation_ratio"]) == (512, 1.0)


def test_reserved_pages_are_configured_else_as_placement_has_them():
    found = hugepages({2048: 512}, ReservedPages(0, 2048, 5))
    assert found["CUSTOM_HUGEPAGES_2M"]["reserved"] == 5
    before = Inventory(512, reserved=9)
    for total, reserved in ((512, 9), (3, 3)):
        record = hugepages({2048: total})["CUSTOM_HUGEPAGES_2M"]
        assert Inventory.from_dict(record).with_defaults(before).reserved == reserved


@pytest.mark.parametrize("size", ["2048", "2048K", "2MB", "2 MiB", "2M"])
def test_reserved_pages_are_read_as_the_reference_writes_them(size):
    size = size.replace(" ", "")
    found = ReservedPages.from_option({"node": "1", "size": size, "count": "64"})
    assert found == ReservedPages(1, 2048, 64)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"node": "0", "size": "2048"},
        {"node": "x", "size": "2048", "count": "1"},
        {"node": "0", "size": "big", "count": "1"},
        {"node": "0", "size": "2048", "count": "-1"},
        {"node": "0", "size": "2048", "count": "1", "more": "1"},
    ],
)
def test_bad_reserved_pages_name_the_option_and_what_was_written(record):
    with pytest.raises(ValueError, match="reserved_huge_pages") as caught:
        ReservedPages.from_option(record)
    for key, value in record.items():
        assert re.search(f"{key}:{value}", str(caught.value))


@given(st.integers(0, 2**40), st.lists(st.integers(0, 2**40), min_size=1, max_size=9))
def test_what_is_shared_out_adds_up_and_nobody_gets_more_than_there_is(amount, weights):
    parts = apportion(amount, weights)
    assert sum(parts) == amount and len(parts) == len(weights)
    if any(weights) and amount <= sum(weights):
        assert all(part <= weight for part, weight in zip(parts, weights, strict=True))


def test_without_weights_it_is_shared_equally():
    assert apportion(5, [0, 0]) == [3, 2]
    assert apportion(5, []) == []
