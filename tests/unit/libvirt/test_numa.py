"""NUMA cells as providers, and back: who has what, and who is told what can't be known."""

import pytest

from drivers.api import DriverNotReady, ReshapeNeeded
from drivers.inventory import InventoryPolicy, Ratio
from drivers.libvirt.facts.numa import MemoryPolicy, ReservedPages
from tests.unit.libvirt.hosts import (
    NODE,
    capabilities,
    cell,
    fields,
    new_tree,
    reading,
    report_of,
    totals,
    two_cells,
    written,
)

NESTED = {"report_numa": "nested"}
PAGES = MemoryPolicy("pages")


def names(tree):
    return [tree.data(uuid).name for uuid in tree.get_provider_uuids(NODE)]


def test_off_everything_is_on_the_root():
    tree = written(new_tree(), reading())
    assert names(tree) == [NODE]
    assert totals(tree) == {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 100}


def test_nested_each_cell_has_its_own_and_the_root_what_is_left():
    tree = written(new_tree(), reading(), **NESTED)
    assert names(tree) == [NODE, f"{NODE}_numa0", f"{NODE}_numa1"]
    assert totals(tree) == {"DISK_GB": 100}
    for number in range(2):
        data = tree.data(f"{NODE}_numa{number}")
        assert totals(tree, data.name) == {"VCPU": 4, "MEMORY_MB": 4096}
        assert data.traits == {"HW_NUMA_ROOT"}


def test_cpu_sets_are_divided_by_cell():
    policy = InventoryPolicy(
        shared_cpus=frozenset({0, 1, 4}), dedicated_cpus=frozenset({2, 3}), reserved_memory_mb=0
    )
    tree = written(new_tree(), reading(), policy=policy, **NESTED)
    assert totals(tree, f"{NODE}_numa0") == {"VCPU": 2, "PCPU": 2, "MEMORY_MB": 4096}
    assert totals(tree, f"{NODE}_numa1") == {"VCPU": 1, "MEMORY_MB": 4096}


def test_what_is_reserved_is_shared_out_and_adds_up():
    policy = InventoryPolicy(reserved_cpus=3, reserved_memory_mb=513)
    text = capabilities(cell(0, range(6), mib=6144), cell(1, range(6, 8), mib=2048))
    tree = written(new_tree(), reading(text), policy=policy, **NESTED)
    parts = [fields(tree, "reserved", f"{NODE}_numa{n}") for n in range(2)]
    assert [part["VCPU"] for part in parts] == [2, 1]
    assert [part["MEMORY_MB"] for part in parts] == [385, 128]


def test_the_stable_total_is_divided_by_what_the_cells_say():
    """Their own amounts grow while a machine initialises its memory."""
    small = capabilities(cell(0, [0], mib=100), cell(1, [1], mib=300))
    tree = written(new_tree(), reading(small, memory_mib=8192), **NESTED)
    found = [totals(tree, f"{NODE}_numa{n}")["MEMORY_MB"] for n in range(2)]
    assert found == [2048, 6144]


def test_hugepages_are_on_the_cell_that_has_them():
    text = capabilities(cell(0, [0], pages={2048: 512}), cell(1, [1], pages={1048576: 2}))
    tree = written(new_tree(), reading(text), memory=PAGES, **NESTED)
    assert totals(tree, f"{NODE}_numa0") == {
        "VCPU": 1,
        "MEMORY_MB": 4096 - 1024,
        "CUSTOM_HUGEPAGES_2M": 512,
    }
    assert totals(tree, f"{NODE}_numa1")["CUSTOM_HUGEPAGES_1G"] == 2
    flat = written(new_tree(), reading(text), memory=PAGES)
    assert totals(flat)["CUSTOM_HUGEPAGES_2M"] == 512
    off = written(new_tree(), reading(text))
    assert totals(off)["MEMORY_MB"] == totals(flat)["MEMORY_MB"] == 8192 - 1024 - 2048
    assert "CUSTOM_HUGEPAGES_2M" not in totals(off)


def test_reserved_hugepages_are_those_of_the_cell():
    memory = MemoryPolicy("pages", (ReservedPages(1, 2048, 5), ReservedPages(0, 1048576, 1)))
    look = reading(two_cells({2048: 64}))
    tree = written(new_tree(), look, memory=memory, **NESTED)
    reserved = [
        fields(tree, "reserved", f"{NODE}_numa{n}")["CUSTOM_HUGEPAGES_2M"] for n in range(2)
    ]
    assert reserved == [0, 5]
    flat = written(new_tree(), look, memory=memory)
    assert fields(flat, "reserved")["CUSTOM_HUGEPAGES_2M"] == 5


def test_a_ratio_that_an_operator_set_in_placement_survives_both_switches():
    flat = written(new_tree(), reading())
    flat.update_inventory(
        NODE, {**flat.data(NODE).inventory, "VCPU": {"total": 8, "allocation_ratio": 9.5}}
    )
    nested = written(flat, reading(), {}, **NESTED)
    assert fields(nested, "allocation_ratio", f"{NODE}_numa1")["VCPU"] == 9.5
    again = written(nested, reading(), {})
    assert fields(again, "allocation_ratio")["VCPU"] == 9.5
    assert names(again) == [NODE]


def test_a_configured_ratio_holds_on_cells():
    policy = InventoryPolicy(ratios={"VCPU": Ratio(2.0)})
    tree = written(new_tree(), reading(), policy=policy, **NESTED)
    assert fields(tree, "allocation_ratio", f"{NODE}_numa0")["VCPU"] == 2.0


@pytest.mark.parametrize(("before", "after"), [({}, NESTED), (NESTED, {})])
def test_switching_asks_for_a_reshape(before, after):
    tree = written(new_tree(), reading(), **before)
    with pytest.raises(ReshapeNeeded, match="MEMORY_MB, VCPU"):
        written(tree, reading(), **after)


def test_what_guests_have_of_a_cell_that_is_missing_stays_there():
    """Memory was removed, or is not there yet: the other cells have no more than before."""
    both = capabilities(cell(0, range(8), 8192), cell(2, [], 32768))
    tree = written(new_tree(), reading(both, 40960), **NESTED)
    uuid = tree.data(f"{NODE}_numa2").uuid
    held = {"a": {"allocations": {uuid: {"resources": {"MEMORY_MB": 20000}}}}}
    look = reading(capabilities(cell(0, range(8), 8190)), 8192)
    later = written(tree, look, held, **NESTED)
    assert held["a"]["allocations"][uuid]["resources"] == {"MEMORY_MB": 20000}
    assert totals(later, f"{NODE}_numa2") == {"MEMORY_MB": 32768}, "the agent drains it"
    assert f"{NODE}_numa2" not in names(written(tree, look, **NESTED))


def test_a_document_that_lost_its_cells_moves_nothing():
    tree = written(new_tree(), reading(), **NESTED)
    look = reading("<capabilities/>", online_cpus=frozenset(range(8)))
    assert written(tree, look, **NESTED).freeze() == tree.freeze()
    assert "no NUMA cells" in report_of(tree, look, **NESTED).notes["[libvirt] report_numa"]


def test_cpus_outside_all_cells_are_named():
    look = reading(capabilities(cell(0, [0])), online_cpus=frozenset({0, 5, 6}))
    report = report_of(new_tree(), look, **NESTED)
    assert report.notes["NUMA"] == "CPU 5-6 is in no NUMA cell: not reported"


def test_a_cell_without_cpus_or_memory_is_there_for_what_is_below_it():
    text = capabilities(cell(0, range(2)), "<cell id='1'/>")
    tree = written(new_tree(), reading(text), **NESTED)
    assert tree.data(f"{NODE}_numa1").inventory == {}


def test_more_reserved_than_there_is_reserves_all_and_says_so():
    policy = InventoryPolicy(reserved_memory_mb=100000)
    notes = report_of(new_tree(), reading(), policy=policy, **NESTED).notes
    assert "NUMA cell 1" in " ".join(notes)
    tree = written(new_tree(), reading(), policy=policy)
    assert fields(tree, "reserved")["MEMORY_MB"] == totals(tree)["MEMORY_MB"]
    assert "100000" in report_of(new_tree(), reading(), policy=policy).notes["MEMORY_MB"]


def test_a_cpu_set_beyond_the_host_is_named():
    policy = InventoryPolicy(shared_cpus=frozenset({0, 77}))
    with pytest.raises(DriverNotReady, match=r"\[compute\] cpu_shared_set names CPU 77"):
        report_of(new_tree(), reading(), policy=policy)


def test_dedicated_cpus_beside_shared_ones_on_one_core_are_named():
    text = capabilities(cell(0, [0, 1], siblings="0-1"), cell(1, [2, 3], siblings="2-3"))
    policy = InventoryPolicy(shared_cpus=frozenset({0}), dedicated_cpus=frozenset({1, 2, 3}))
    (words,) = report_of(new_tree(), reading(text), policy=policy).warnings
    assert "CPU 1 shares its core" in words
    assert not report_of(new_tree(), reading(text)).warnings


def test_persistent_memory_is_on_the_root():
    labels = {"CUSTOM_PMEM_NAMESPACE_BIG": ("ns0", "ns1")}
    look = reading(pmem_namespaces=frozenset({"ns1"}))
    tree = written(new_tree(), look, labels=labels, **NESTED)
    assert totals(tree) == {"DISK_GB": 100, "CUSTOM_PMEM_NAMESPACE_BIG": 1}
    notes = report_of(tree, look, labels=labels).notes
    assert "no devdax namespace ns0" in notes["[libvirt] pmem_namespaces"]
    unread = reading(pmem_namespaces=None, disk_bytes=None)
    assert written(tree, unread, labels=labels, **NESTED).freeze() == tree.freeze()
