"""The writer of children: what is ours, what moves, and what is left alone."""

import copy
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drivers.api import ProviderTree, ReshapeFailed, ReshapeNeeded
from drivers.libvirt.tree.children import write_report
from drivers.libvirt.tree.reported import (
    CELLS,
    ENCRYPTION,
    PCI,
    HostReport,
    ReportedProvider,
    child_uuid,
)
from tests.unit.libvirt.hosts import new_tree

NODE = "host1"
ROOT = "c0ffee00-0000-4000-8000-000000000001"
GUESTS = [f"00000000-0000-4000-8000-00000000000{n}" for n in range(10)]
BOTH = {"VCPU": {"total": 8, "max_unit": 8}, "MEMORY_MB": {"total": 1000, "max_unit": 1000}}
DISK = {"DISK_GB": {"total": 100}}


@pytest.fixture
def tree():
    return new_tree()


def device(n=0, cell=None, **fields):
    fields.setdefault("inventory", {"CUSTOM_PCI_8086_1563": {"total": 1}})
    return ReportedProvider(f"{NODE}_0000:81:00.{n}", cell=cell, **fields)


def cells(count, inventory=BOTH):
    traits = frozenset({"HW_NUMA_ROOT"})
    return {
        n: ReportedProvider(f"{NODE}_numa{n}", inventory, traits, source=CELLS)
        for n in range(count)
    }


def wrote(tree, *children, cells=None, inventory=DISK, allocations=None, incomplete=()):
    """On a tree of what Placement has by now."""
    later = ProviderTree(tree.freeze())
    report = HostReport(inventory, cells or {}, children, incomplete=frozenset(incomplete))
    write_report(later, NODE, report, allocations)
    return later


def held(**by_provider):
    """One consumer's record: root={"VCPU": 2}, or the names of children."""
    uuids = {"root": ROOT, **{n: child_uuid(ROOT, n) for n in by_provider}}
    uuids["root"] = ROOT
    parts = {uuids[name]: {"resources": dict(r)} for name, r in by_provider.items()}
    return {"allocations": parts, "project_id": "p", "user_id": "u"}


def holds(allocations, guest, name=None):
    uuid = ROOT if name is None else child_uuid(ROOT, name)
    return allocations[guest]["allocations"].get(uuid, {}).get("resources", {})


def totals(allocations):
    found = {}
    for guest, record in allocations.items():
        for part in record["allocations"].values():
            for name, amount in part["resources"].items():
                found[guest, name] = found.get((guest, name), 0) + amount
    return found


def names(tree):
    return sorted(tree.data(uuid).name for uuid in tree.get_provider_uuids(NODE)[1:])


def test_devices_nest_below_their_cell_where_cells_are_reported(tree):
    found = wrote(tree, device(0, cell=1), device(1), device(2, cell=9), cells=cells(2))
    parents = [found.data(device(n).name).parent_uuid for n in range(3)]
    assert parents == [found.data(f"{NODE}_numa1").uuid, ROOT, ROOT]


def test_a_device_gets_its_place_when_cells_come_and_go(tree):
    flat = wrote(tree, device(0, cell=1), inventory=DISK)
    nested = wrote(flat, device(0, cell=1), cells=cells(2))
    assert nested.data(device(0).name).parent_uuid == nested.data(f"{NODE}_numa1").uuid
    again = wrote(nested, device(0, cell=1))
    assert again.data(device(0).name).parent_uuid == ROOT
    assert names(again) == [device(0).name]
    assert again.data(device(0).name).uuid == flat.data(device(0).name).uuid


def test_what_is_no_longer_reported_goes_unless_a_module_could_not_say(tree):
    there = wrote(tree, device(0), device(1))
    assert names(wrote(there, device(1), incomplete={PCI})) == [device(0).name, device(1).name]
    assert names(wrote(there, device(1), incomplete={CELLS, ENCRYPTION})) == [device(1).name]
    assert names(wrote(there, device(1))) == [device(1).name]


def test_strangers_and_other_drivers_keep_their_providers(tree):
    tree.new_child(f"{NODE}_other_drivers", NODE)  # unnumbered, as any driver may
    tree.new_child(f"{NODE}_strangers", NODE, GUESTS[0])
    assert len(names(wrote(tree))) == 2


def test_a_strangers_provider_below_ours_keeps_it_emptied(tree):
    there = wrote(tree, device())
    there.new_child("foreign", device().name, GUESTS[0])
    there = wrote(there)
    assert names(there) == ["foreign", device().name]
    assert not there.has_inventory(device().name)


def test_a_provider_that_somebody_made_before_is_taken_and_never_removed(tree):
    tree.new_child(device().name, NODE, GUESTS[0])
    there = wrote(tree, device(cell=0), cells=cells(1))
    assert there.data(device().name).uuid == GUESTS[0]
    assert there.data(device().name).parent_uuid == there.data(f"{NODE}_numa0").uuid
    assert device().name in names(wrote(there, cells=cells(1)))


def test_a_provider_that_somebody_renamed_gets_its_name_back(tree):
    there = wrote(tree, device())
    there.rename(device().name, "odd")
    assert names(wrote(there, device())) == [device().name]


def test_records_without_anything_in_them_are_left_out(tree):
    there = wrote(tree, device(inventory={"VGPU": {"total": 0}}))
    assert there.data(device().name).inventory == {}


def test_names_that_can_not_be_are_told_and_the_rest_is_written(tree):
    tree.new_root(f"{NODE}_taken", GUESTS[0])
    tree.update_inventory(f"{NODE}_taken", {"VGPU": {"total": 5}})
    long = f"{NODE}_{'x' * 200}"
    report = HostReport(
        DISK,
        {},
        [ReportedProvider(f"{NODE}_taken", {}), device(), device(), ReportedProvider(long, {})],
    )
    problems = write_report(tree, NODE, report, None)
    assert set(problems) == {f"{NODE}_taken", device().name, long}
    assert tree.has_inventory(f"{NODE}_taken") and tree.has_inventory(device().name)


# -- moves


def gpu(n=0, total=4, **fields):
    inventory = {"VGPU": {"total": total, "max_unit": total}}
    from_root = frozenset({"VGPU"})
    return ReportedProvider(f"{NODE}_pci_0000_84_0{n}_0", inventory, from_root=from_root, **fields)


def test_guests_go_with_their_class_to_the_first_device_with_room(tree):
    tree.update_inventory(NODE, {**DISK, "VGPU": {"total": 8}})
    guests = {
        GUESTS[0]: held(root={"VGPU": 2, "VCPU": 1}),
        GUESTS[1]: held(root={"VGPU": 3}),
        GUESTS[2]: held(root={"VGPU": 2}),
        GUESTS[3]: held(root={"VCPU": 1}),
    }
    before = totals(guests)
    wrote(tree, gpu(0), gpu(1), allocations=guests)
    assert totals(guests) == before
    assert holds(guests, GUESTS[0]) == {"VCPU": 1}
    assert holds(guests, GUESTS[1], "pci_0000_84_00_0") == {"VGPU": 3}
    assert holds(guests, GUESTS[2], "pci_0000_84_01_0") == {"VGPU": 2}
    assert holds(guests, GUESTS[3]) == {"VCPU": 1}


def test_without_room_it_fails_and_names_guest_amount_and_next_step(tree):
    tree.update_inventory(NODE, {**DISK, "VGPU": {"total": 8}})
    guests = {GUESTS[0]: held(root={"VGPU": 5})}
    with pytest.raises(ReshapeFailed, match="no room for 1 of 5 VGPU") as caught:
        wrote(tree, gpu(0), allocations=guests)
    assert GUESTS[0] in str(caught.value) and "has 0 free" in str(caught.value)
    assert "raise the allocation ratio" in str(caught.value)


def test_a_guest_moves_to_one_cell_with_all_it_has(tree):
    tree.update_inventory(NODE, {**DISK, **BOTH})
    guests = {
        GUESTS[0]: held(root={"VCPU": 6, "MEMORY_MB": 100, "DISK_GB": 1}),
        GUESTS[1]: held(root={"VCPU": 2, "MEMORY_MB": 950, "DISK_GB": 1}),
    }
    before = totals(guests)
    wrote(tree, cells=cells(2), allocations=guests)
    assert totals(guests) == before
    # The second is the larger one; beside it there is no memory for the first.
    assert holds(guests, GUESTS[1], "numa0") == {"VCPU": 2, "MEMORY_MB": 950}
    assert holds(guests, GUESTS[0], "numa1") == {"VCPU": 6, "MEMORY_MB": 100}
    assert holds(guests, GUESTS[0]) == holds(guests, GUESTS[1]) == {"DISK_GB": 1}


def test_a_guest_with_a_home_goes_there_if_there_is_room(tree):
    tree.update_inventory(NODE, {**DISK, **BOTH})
    guests = {
        GUESTS[0]: held(root={"VCPU": 8}),
        GUESTS[1]: held(root={"VCPU": 2}),
        GUESTS[2]: held(root={"VCPU": 7}),
    }
    later = ProviderTree(tree.freeze())
    report = HostReport(DISK, cells(3))
    cells_of = {GUESTS[1]: 1, GUESTS[2]: 1, "somebody else": 2}
    write_report(later, NODE, report, guests, cells_of)
    assert holds(guests, GUESTS[2], "numa1") == {"VCPU": 7}
    assert holds(guests, GUESTS[1], "numa0") == {"VCPU": 2}, "its home is full by then"
    assert holds(guests, GUESTS[0], "numa2") == {"VCPU": 8}


def test_cells_that_go_give_all_back_to_the_root(tree):
    there = wrote(tree, cells=cells(2))
    guests = {GUESTS[0]: held(numa0={"VCPU": 2}, numa1={"VCPU": 3, "MEMORY_MB": 7})}
    with pytest.raises(ReshapeNeeded):
        wrote(there, inventory={**DISK, **BOTH})
    flat = wrote(there, inventory={**DISK, **BOTH}, allocations=guests)
    assert holds(guests, GUESTS[0]) == {"VCPU": 5, "MEMORY_MB": 7}
    assert guests[GUESTS[0]]["allocations"].keys() == {ROOT}
    assert names(flat) == []


def test_a_device_that_vanishes_does_not_hand_its_guests_to_its_like(tree):
    there = wrote(tree, device(0), device(1))
    guests = {GUESTS[0]: {"allocations": {}}}
    before = copy.deepcopy(guests)
    wrote(there, device(0), allocations=guests)
    assert guests == before


def test_each_trait_that_is_known_is_named_as_there_or_not_there(tree):
    """Whoever set it: a CPU of before, nova-compute, somebody's hand."""
    tree.add_traits(NODE, "HW_CPU_X86_AVX2", "CUSTOM_FOREIGN")
    traits = {"HW_CPU_X86_AVX": True, "HW_CPU_X86_AVX2": False, "HW_CPU_X86_SSE": False}
    write_report(tree, NODE, HostReport(traits=traits), None)
    said = tree.claims["traits"]
    assert said.on(ROOT).traits == {"HW_CPU_X86_AVX"}
    assert said.absent[ROOT].traits == {"HW_CPU_X86_AVX2", "HW_CPU_X86_SSE"}
    assert tree.data(NODE).traits == {"HW_CPU_X86_AVX", "CUSTOM_FOREIGN"}


# -- cells that are divided otherwise: 32 CPUs, 64 GiB and 3,200 pages in each shape


def shape(count):
    amounts = {"VCPU": 32, "MEMORY_MB": 65536, "CUSTOM_HUGEPAGES_2M": 3200}
    parts = {name: amount // (count or 1) for name, amount in amounts.items()}
    records = {name: {"total": part, "max_unit": part} for name, part in parts.items()}
    return HostReport({}, cells(count, records)) if count else HostReport(records)


def used(allocations):
    found = Counter()
    for record in allocations.values():
        for uuid, part in record["allocations"].items():
            found.update({(uuid, name): amount for name, amount in part["resources"].items()})
    return found


def offered(tree, allocations):
    """What anybody can have of each class."""
    found, held = Counter(), used(allocations)
    for uuid in tree.get_provider_uuids():
        for name, record in tree.records(uuid).items():
            found[name] += max(0, record.capacity - held[uuid, name])
    return found


@pytest.mark.parametrize("shapes", [(0, 2), (0, 4), (1, 2), (1, 4), (2, 4), (4, 2), (4, 1), (4, 0)])
@given(sizes=st.lists(st.tuples(st.integers(1, 8), st.booleans()), min_size=1, max_size=5))
@example(sizes=[(24, False)])
def test_what_guests_hold_is_offered_in_no_shape_of_the_cells(shapes, sizes):
    """At once it is offered as it was; with a reshape, what is free is, and nothing else."""
    before, after = map(shape, shapes)
    tree, guests = new_tree(), {}
    write_report(tree, NODE, before, None)
    for number, (size, pages) in enumerate(sizes):
        memory = {"CUSTOM_HUGEPAGES_2M": 100 * size} if pages else {"MEMORY_MB": 2048 * size}
        wants, held = {"VCPU": size, **memory}, used(guests)
        for uuid in tree.get_provider_uuids():
            records = tree.records(uuid)
            if records and all(records[n].capacity - held[uuid, n] >= a for n, a in wants.items()):
                guests[GUESTS[number]] = {"allocations": {uuid: {"resources": wants}}}
                break
    free, amounts = offered(tree, guests), totals(guests)
    now = ProviderTree(tree.freeze())
    with pytest.raises(ReshapeNeeded):
        write_report(now, NODE, after, None)
    assert offered(now, guests) == free
    now = ProviderTree(now.freeze())
    write_report(now, NODE, after, guests)
    assert totals(guests) == amounts and offered(now, guests) == free
    later = ProviderTree(settled := now.freeze())
    write_report(later, NODE, after, None)
    assert later.freeze() is settled
