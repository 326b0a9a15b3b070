"""Which children of the root are this driver's, which are Nova's, and their names after a rename."""

import pytest

from drivers.libvirt.tree.reported import child_uuid, name_now, nova_key
from tests.unit.libvirt.devices import devices, pci
from tests.unit.libvirt.hosts import NODE, ROOT, new_tree, reading, written
from tests.unit.libvirt.test_pci import chosen

PCI, OLD = "0000:04:00.0", "other"


@pytest.mark.parametrize("old", [OLD, "other.example.org", "odd_name", NODE.upper(), NODE])
@pytest.mark.parametrize("key", ["numa0", "numa10", "all_VGPU_numa0", "amd_sev_es", PCI])
def test_a_child_of_ours_is_known_under_any_name_of_its_host(old, key):
    tree = new_tree()
    uuid = tree.new_child(f"{old}_{key}", ROOT, child_uuid(ROOT, key))
    other = tree.new_child("their_device", ROOT)
    assert name_now(tree.data(ROOT), tree.data(uuid)) == f"{NODE}_{key}"
    assert name_now(tree.data(ROOT), tree.data(other)) is None


@pytest.mark.parametrize("novas", [False, True])
def test_what_others_set_on_a_device_of_a_renamed_host_stays(novas):
    tree, name = new_tree(), f"{OLD}_{PCI}"
    uuid = tree.new_child(name, ROOT, None if novas else child_uuid(ROOT, PCI))
    tree.update_inventory(name, {"CUSTOM_PCI_144D_A80A": {"total": 1, "reserved": 1}})
    tree.update_traits(name, ["CUSTOM_THEIRS", *(["COMPUTE_MANAGED_PCI_DEVICE"] * novas)])
    tree.update_aggregates(name, [ROOT])
    look = reading(devices=devices(pci(PCI)))
    later = written(tree, look, {}, **chosen({"vendor_id": "144d"}))
    data = later.data(f"{NODE}_{PCI}")
    assert data.uuid == uuid and not later.exists(name)
    assert "reserved" not in data.inventory["CUSTOM_PCI_144D_A80A"], "it stays as in Placement"
    assert data.traits == {"CUSTOM_THEIRS", "COMPUTE_MANAGED_PCI_DEVICE"}
    assert data.aggregates == {ROOT}


@pytest.mark.parametrize(
    ("name", "inventory", "traits", "key"),
    [
        (f"{NODE}_{PCI}", "CUSTOM_PCI_144D_A80A", ["COMPUTE_MANAGED_PCI_DEVICE"], PCI),
        (f"{OLD}_{PCI}", "CUSTOM_PCI_144D_A80A", ["COMPUTE_MANAGED_PCI_DEVICE"], PCI),
        (f"{NODE}_{PCI}", "CUSTOM_PCI_144D_A80A", [], None),
        (f"{NODE}_{PCI}", "FPGA", ["COMPUTE_MANAGED_PCI_DEVICE", "OWNER_CYBORG"], None),
        (f"{NODE}_pci_0000_84_00_0", "VGPU", [], "pci_0000_84_00_0"),
        (f"{NODE}_pci_0000_84_00_0", "CUSTOM_VGPU_LARGE", ["OWNER_NOVA"], "pci_0000_84_00_0"),
        (f"{NODE}_pci_0000_84_00_0", "FPGA", [], None),
        (f"{NODE}_pci_0000_84_00_0_port1", "VGPU", [], None),
        (f"{NODE}_amd_sev", "MEM_ENCRYPTION_CONTEXT", ["HW_CPU_X86_AMD_SEV"], "amd_sev"),
        (f"{NODE}_amd_sev_es", "MEM_ENCRYPTION_CONTEXT", [], "amd_sev_es"),
        (f"{NODE}_amd_sev", "VCPU", [], None),
        (f"{NODE}_numa0", "VCPU", ["HW_NUMA_ROOT"], None),
    ],
)
def test_novas_children_are_told_by_name_class_and_mark(name, inventory, traits, key):
    tree = new_tree()
    tree.new_child(name, ROOT)
    tree.update_inventory(name, {inventory: {"total": 1}})
    tree.update_traits(name, traits)
    assert nova_key(tree.data(name)) == key
