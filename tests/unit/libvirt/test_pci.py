"""PCI devices: who is a provider, with what class and traits, and what is left out and told."""

import json

import pytest

from drivers.errors import ReshapeNeeded
from drivers.libvirt.devices.device_spec import device_specs
from drivers.libvirt.devices.pci import NO_GROUP, PciSettings
from drivers.libvirt.devices.pci_devices import assigned_addresses
from drivers.libvirt.devices.vgpu import MdevSettings, MdevType
from drivers.libvirt.tree.children import write_report
from drivers.libvirt.tree.reported import child_uuid
from tests.unit.libvirt.devices import (
    DISK,
    GPU,
    NIC,
    NIC_VF,
    devices,
    guest,
    mdev,
    net,
    node_name,
    pci,
)
from tests.unit.libvirt.hosts import NODE, ROOT, new_tree, reading, report_of, totals, written

PF = "0000:81:00.0"
VFS = [f"0000:81:02.{n}" for n in range(4)]
CARD = [pci(PF, NIC, virtual=VFS, cell=1), *(pci(one, NIC_VF, physical=PF, cell=1) for one in VFS)]
ON_CARD, DISK_AT = f"{NODE}_{PF}", "0000:04:00.0"
MANAGED = "COMPUTE_MANAGED_PCI_DEVICE"


def chosen(*entries, **more):
    specs = device_specs([json.dumps(list(entries))])
    return {"pci": PciSettings(specs, **more)}


def look(*listed, **fields):
    return reading(devices=devices(*listed, **fields))


def provider(tree, name):
    data = tree.data(name)
    return {n: r["total"] for n, r in data.inventory.items()}, data.traits


def names(tree):
    return {tree.data(uuid).name for uuid in tree.get_provider_uuids(ROOT)} - {NODE}


def test_a_device_is_a_provider_named_by_its_address_in_capitals():
    tree = written(
        new_tree(), look(pci("0000:af:00.0", GPU), pci(PF)), **chosen({"vendor_id": "10de"})
    )
    assert names(tree) == {f"{NODE}_0000:AF:00.0"}
    assert provider(tree, f"{NODE}_0000:AF:00.0") == ({"CUSTOM_PCI_10DE_1EB8": 1}, {MANAGED})


def test_vfs_are_counted_on_their_pf():
    tree = written(new_tree(), look(*CARD), **chosen({"product_id": "154c", "traits": "fast"}))
    assert provider(tree, ON_CARD) == ({"CUSTOM_PCI_8086_154C": 4}, {MANAGED, "CUSTOM_FAST"})
    record = tree.data(ON_CARD).inventory["CUSTOM_PCI_8086_154C"]
    assert (record["max_unit"], record["allocation_ratio"]) == (4, 1.0)


def test_vfs_whose_pf_is_not_seen_are_counted_on_it_all_the_same():
    tree = written(new_tree(), look(*CARD[1:]), **chosen({"vendor_id": "8086"}))
    assert totals(tree, ON_CARD) == {"CUSTOM_PCI_8086_154C": 4}


def test_the_first_entry_that_matches_counts():
    entries = {"address": DISK_AT, "resource_class": "fast-disk"}, {"vendor_id": DISK[0]}
    listed = pci(DISK_AT), pci("0000:05:00.0")
    tree = written(new_tree(), look(*listed), **chosen(*entries))
    assert totals(tree, f"{NODE}_{DISK_AT}") == {"CUSTOM_FAST_DISK": 1}
    assert totals(tree, f"{NODE}_0000:05:00.0") == {"CUSTOM_PCI_144D_A80A": 1}


def test_bridges_are_nothing_that_guests_can_have():
    bridge = pci(PF, more="<capability type='pci-bridge'/>")
    cardbus = pci("0000:05:00.0", more="<capability type='cardbus-bridge'/>")
    hosts = pci(DISK_AT).replace("0x020000", "0x060000")
    assert names(written(new_tree(), look(bridge, cardbus, hosts), **chosen({}))) == set()


def test_a_device_that_qemu_can_not_address_is_left_out_and_named():
    """As those behind Intel's VMD."""
    report = report_of(new_tree(), look(pci("10000:01:00.0"), pci(DISK_AT)), **chosen({}))
    assert [one.name for one in report.children] == [f"{NODE}_{DISK_AT}"]
    assert "PCI domain above ffff" in report.notes["PCI device 10000:01:00.0"]


def test_devices_without_an_iommu_group_are_left_out_and_named_once():
    listed = pci(DISK_AT, iommu=False), pci("0000:05:00.0", iommu=False), pci("0000:06:00.0")
    report = report_of(new_tree(), look(*listed), **chosen({}))
    assert [one.name for one in report.children] == [f"{NODE}_0000:06:00.0"]
    (note,) = report.notes.values()
    assert f"{DISK_AT}, 0000:05:00.0; enable" in note and "intel_iommu=on or amd_iommu=on" in note


def test_only_vfs_that_macvtap_can_use_need_no_iommu_group():
    vfs = [pci(one, NIC_VF, physical=PF, iommu=False) for one in VFS]
    listed = look(pci(PF, NIC, virtual=VFS, iommu=False), *vfs)
    for entry, expected in (
        ({"product_id": "154c", "physical_network": "net"}, ["CUSTOM_PCI_8086_154C"]),
        ({"product_id": "1572", "physical_network": "net"}, []),
        ({"product_id": "154c", "physical_network": "net", "remote_managed": "true"}, []),
        ({"product_id": "154c"}, []),
    ):
        settings = chosen(entry, report_physical_networks=True)
        report = report_of(new_tree(), listed, **settings)
        assert [name for one in report.children for name in one.inventory] == expected, entry
        assert (NO_GROUP in report.notes) == (not expected), entry


def test_a_device_of_neutrons_is_not_named_for_want_of_an_iommu():
    listed = look(pci(PF, NIC, iommu=False))
    assert not report_of(
        new_tree(), listed, **chosen({"product_id": "1572", "physical_network": "net"})
    ).notes


def test_a_card_without_an_iommu_still_has_vgpus():
    mdevs = MdevSettings((MdevType("nvidia-35"),))
    gpu = pci(PF, GPU, types={"nvidia-35": 4}, iommu=False)
    report = report_of(new_tree(), look(gpu), mdev=mdevs)
    assert ([set(one.inventory) for one in report.children], report.notes) == ([{"VGPU"}], {})


# -- what excludes each other


@pytest.mark.parametrize(
    "entries", [[{"product_id": "1572"}, {"product_id": "154c"}], [{"vendor_id": "8086"}]]
)
def test_a_pf_that_is_named_with_its_vfs_gives_way_and_is_told(entries):
    report = report_of(new_tree(), look(*CARD), **chosen(*entries))
    assert [set(one.inventory) for one in report.children] == [{"CUSTOM_PCI_8086_154C"}]
    assert "not reported beside its VFs" in report.notes[f"PCI device {PF}"]


def test_the_address_of_a_pf_means_its_vfs_or_else_the_pf():
    settings = chosen({"address": PF})
    report = report_of(new_tree(), look(*CARD), **settings)
    assert (totals(written(new_tree(), look(*CARD), **settings), ON_CARD), report.notes) == (
        {"CUSTOM_PCI_8086_154C": 4},
        {},
    )
    bare = pci(PF, NIC, virtual=[])
    assert totals(written(new_tree(), look(bare), **settings), ON_CARD) == {
        "CUSTOM_PCI_8086_1572": 1
    }


@pytest.mark.parametrize("key", ["resource_class", "traits"])
def test_vfs_of_one_pf_have_one_class_and_one_set_of_traits(key):
    entries = {"address": VFS[2], key: "CUSTOM_A"}, {"product_id": "154c"}
    report = report_of(new_tree(), look(*CARD), **chosen(*entries))
    (one,) = report.children
    assert one.inventory["CUSTOM_PCI_8086_154C"]["total"] == 3
    assert list(report.notes) == [f"PCI device {VFS[2]}"]
    assert "give all VFs of a device the same" in report.notes[f"PCI device {VFS[2]}"]


def test_what_is_divided_into_vgpus_is_not_given_away_whole():
    both = {**chosen({"vendor_id": "10de"}), "mdev": MdevSettings((MdevType("nvidia-35"),))}
    gpu = pci(PF, GPU, types={"nvidia-35": 4})
    report = report_of(new_tree(), look(gpu, mdev(1, "nvidia-35", PF)), **both)
    assert [set(one.inventory) for one in report.children] == [{"VGPU"}]
    assert "can't be assigned as a whole" in report.notes[f"PCI device {PF}"]


def test_a_pf_whose_vfs_are_divided_is_not_given_away_whole():
    """Who got it would take the VFs along, and with them the vGPUs of others."""
    both = {**chosen({"vendor_id": "10de"}), "mdev": MdevSettings((MdevType("nvidia-35"),))}
    vf = pci(VFS[0], GPU, physical=PF, types={"nvidia-35": 1})
    report = report_of(new_tree(), look(pci(PF, GPU, virtual=VFS[:1]), vf), **both)
    assert [set(one.inventory) for one in report.children] == [{"VGPU"}]
    assert f"its VF {VFS[0]} is divided" in report.notes[f"PCI device {PF}"]


# -- networks


def test_devices_of_a_network_are_not_counted_unless_the_operator_wants_it():
    entry = {"product_id": "154c", "physical_network": "net1"}
    assert names(written(new_tree(), look(*CARD), **chosen(entry))) == set()
    tree = written(new_tree(), look(*CARD), **chosen(entry, report_physical_networks=True))
    assert tree.data(ON_CARD).traits == {MANAGED, "CUSTOM_PHYSNET_NET1"}


def test_remote_managed_is_for_vfs():
    entry = {"vendor_id": "8086", "remote_managed": "true"}
    report = report_of(new_tree(), look(*CARD), **chosen(entry))
    assert (report.children, list(report.notes)) == ((), [f"PCI device {PF}"])
    tree = written(new_tree(), look(*CARD), **chosen(entry, report_physical_networks=True))
    assert totals(tree, ON_CARD) == {"CUSTOM_PCI_8086_154C": 4}


def test_a_device_name_stands_for_vfs_only_since_it_goes_along_to_a_guest():
    listed = [*CARD, net("eth0", PF)]
    report = report_of(new_tree(), look(*listed), **chosen({"devname": "eth0"}))
    assert [one.inventory["CUSTOM_PCI_8086_154C"]["total"] for one in report.children] == [4]
    assert "use address instead of devname" in report.notes[f"PCI device {PF}"]


# -- what an operator and time do to it


def test_what_an_operator_reserved_stays_as_far_as_it_can():
    settings = chosen({"product_id": "154c"})
    tree = written(new_tree(), look(*CARD), **settings)
    record = tree.data(ON_CARD).inventory["CUSTOM_PCI_8086_154C"]
    tree.update_inventory(ON_CARD, {"CUSTOM_PCI_8086_154C": {**record, "reserved": 3}})
    tree = written(tree, look(*CARD), **settings)
    assert tree.data(ON_CARD).inventory["CUSTOM_PCI_8086_154C"]["reserved"] == 3
    before = tree.records(ON_CARD)["CUSTOM_PCI_8086_154C"]
    tree = written(tree, look(*CARD[:3]), **settings)
    record = tree.records(ON_CARD)["CUSTOM_PCI_8086_154C"].with_defaults(before)
    assert (record.total, record.reserved) == (2, 2)


def test_a_group_whose_traits_change_hands_its_guests_on():
    entry = {"vendor_id": "144d"}
    read_tree = look(*(pci(f"0000:0{n}:00.0") for n in range(3)))
    tree = written(new_tree(), read_tree, **chosen({**entry, "traits": "a"}, group_devices=True))
    (group,) = tree.get_provider_uuids(ROOT)[1:]
    name = "CUSTOM_PCI_144D_A80A"
    held = {"guest": {"allocations": {group: {"resources": {name: 2}}}}}
    for more, traits in ((True, "b"), (False, "c"), (True, "")):
        options = chosen({**entry, "traits": traits}, group_devices=more)
        with pytest.raises(ReshapeNeeded):
            written(tree, read_tree, **options)
        tree = written(tree, read_tree, held, **options)
        parts = held["guest"]["allocations"]
        assert sum(part["resources"][name] for part in parts.values()) == 2
        assert sum(totals(tree, one).get(name, 0) for one in names(tree)) == 3


def test_what_is_left_of_an_earlier_change_is_drained_and_moves_nowhere():
    read_tree = look(*(pci(f"0000:0{n}:00.0") for n in range(3)))
    apart, group = chosen({"vendor_id": "144d"}), f"{NODE}_all_CUSTOM_PCI_144D_A80A"
    tree = written(new_tree(), read_tree, **apart)
    tree.new_child(group, ROOT, child_uuid(ROOT, "all_CUSTOM_PCI_144D_A80A"))
    tree.update_inventory(group, {"CUSTOM_PCI_144D_A80A": {"total": 3, "reserved": 3}})
    assert group not in names(written(tree, read_tree, **apart)), "and no reshape is asked for"


def test_a_device_has_one_class():
    tree = written(new_tree(), look(pci(PF)), **chosen({}))
    tree = written(tree, look(pci(PF)), **chosen({"resource_class": "CUSTOM_NEW"}))
    assert totals(tree, ON_CARD) == {"CUSTOM_NEW": 1}


def test_one_time_use_is_reserved_once_a_guest_has_it_and_stays_so():
    settings = chosen({"one_time_use": "true"})
    tree = written(new_tree(), look(pci(PF)), **settings)
    assert not tree.data(ON_CARD).inventory["CUSTOM_PCI_144D_A80A"].get("reserved")
    assert "HW_PCI_ONE_TIME_USE" in tree.data(ON_CARD).traits
    used = assigned_addresses(guest(PF)) | assigned_addresses("<domain/>")
    tree = written(tree, look(pci(PF), assigned=used), **settings)
    assert tree.data(ON_CARD).inventory["CUSTOM_PCI_144D_A80A"]["reserved"] == 1
    tree = written(tree, look(pci(PF)), **settings)
    assert tree.data(ON_CARD).inventory["CUSTOM_PCI_144D_A80A"]["reserved"] == 1


def test_one_time_use_of_a_vf_is_told():
    report = report_of(new_tree(), look(*CARD[1:]), **chosen({"one_time_use": "true"}))
    assert not report.children and len(report.notes) == 4


def test_switched_off_all_providers_go():
    tree = written(new_tree(), look(*CARD), **chosen({"product_id": "154c"}))
    assert names(written(tree, look())) == set()


def test_a_device_is_below_its_cell_where_cells_are_reported():
    tree = written(
        new_tree(),
        look(*CARD, pci(DISK_AT)),
        report_numa="nested",
        **chosen({"vendor_id": "8086"}, {}),
    )
    assert tree.data(tree.data(ON_CARD).parent_uuid).name == f"{NODE}_numa1"
    assert tree.data(f"{NODE}_{DISK_AT}").parent_uuid == ROOT


def test_a_device_whose_cell_is_not_reported_is_below_the_host_and_named(tmp_path):
    tree, listed = new_tree(), look(pci(DISK_AT, cell=7), pci(PF, cell=1))
    report = report_of(tree, listed, report_numa="nested", **chosen({}))
    problems = write_report(tree, NODE, report, None)
    assert tree.data(f"{NODE}_{DISK_AT}").parent_uuid == ROOT
    assert problems.keys() == {f"{NODE}_{DISK_AT}"}
    assert "no NUMA cell 7" in problems[f"{NODE}_{DISK_AT}"]
    flat = report_of(new_tree(), listed, **chosen({}))
    assert write_report(new_tree(), NODE, flat, None) == {}
    grouped = report_of(new_tree(), listed, report_numa="nested", **chosen({}, group_devices=True))
    (problem,) = write_report(new_tree(), NODE, grouped, None).values()
    assert f"no NUMA cell 7, which {NODE}_{DISK_AT} is on" in problem


def test_of_two_devices_with_one_address_the_first_by_name_is_used():
    first, second = pci(PF, GPU, types={"nvidia-35": 4}), pci(PF, NIC)
    second = second.replace(f"<name>{node_name(PF)}", "<name>pci_twin")
    for listed in ([first, second], [second, first]):
        report = report_of(new_tree(), look(*listed), **chosen({}))
        assert [set(one.inventory) for one in report.children] == [{"CUSTOM_PCI_10DE_1EB8"}]
    twin = first.replace(f"<name>{node_name(PF)}", "<name>pci_twin")
    mdevs = MdevSettings((MdevType("nvidia-35"),))
    report = report_of(new_tree(), look(twin, first), mdev=mdevs)
    assert [one.inventory["VGPU"]["total"] for one in report.children] == [4], "not twice"


# -- many alike


MANY = [pci(f"0000:{n:02x}:00.0", GPU, cell=n % 2) for n in range(8)]


def test_many_similar_providers_are_warned_of():
    report = report_of(new_tree(), look(*MANY), **chosen({"vendor_id": "10de"}))
    assert report.warnings == (
        "8 similar providers of CUSTOM_PCI_10DE_1EB8 make a search for candidates slow"
        " (see docs/libvirt/pci.rst)",
    )
    assert not report_of(new_tree(), look(*MANY[1:]), **chosen({"vendor_id": "10de"})).warnings


@pytest.mark.parametrize(
    ("numa", "expected"),
    [
        ("off", {"host1_all_CUSTOM_PCI_10DE_1EB8": 8}),
        (
            "nested",
            {"host1_all_CUSTOM_PCI_10DE_1EB8_numa0": 4, "host1_all_CUSTOM_PCI_10DE_1EB8_numa1": 4},
        ),
    ],
)
def test_they_can_be_one_provider_or_one_for_each_cell(numa, expected):
    settings = chosen({"vendor_id": "10de"}, group_devices=True)
    tree = written(new_tree(), look(*MANY), report_numa=numa, **settings)
    found = {name: sum(totals(tree, name).values()) for name in names(tree) if "_all_" in name}
    assert found == expected
    assert len(names(tree)) == len(expected) + 2 * (numa == "nested")


def test_a_group_has_one_class_and_one_set_of_traits_and_no_one_time_use():
    entries = (
        {"address": "0000:00:00.0", "traits": "a"},
        {"address": "0000:01:00.0", "resource_class": "B" * 200},
        {"address": "0000:02:00.0", "one_time_use": "true"},
        {},
    )
    tree = written(new_tree(), look(*MANY), **chosen(*entries, group_devices=True))
    assert sorted(sum(totals(tree, name).values()) for name in names(tree)) == [1, 1, 1, 5]
    assert f"{NODE}_0000:02:00.0" in names(tree)
    assert max(map(len, names(tree))) < 150


REMOTE = "COMPUTE_REMOTE_MANAGED_PORTS"


def test_remote_managed_ports_are_to_be_had_where_there_are_such_vfs():
    settings = chosen({"vendor_id": "8086", "remote_managed": "true", "physical_network": None})
    card = pci(PF, NIC, virtual=["0000:81:02.0"])
    vf = pci("0000:81:02.0", NIC_VF, physical=PF)
    assert report_of(new_tree(), look(card, vf), **settings).traits[REMOTE] is True
    assert report_of(new_tree(), look(card), **settings).traits[REMOTE] is False
    assert report_of(new_tree(), look(card), **chosen({})).traits[REMOTE] is False
    assert REMOTE not in report_of(new_tree(), look(card, vf)).traits
