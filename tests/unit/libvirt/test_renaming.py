"""What was whose before the host was renamed, and what Nova made."""

from __future__ import annotations

import pytest

from drivers.libvirt.tree.names import child_uuid, created_by_nova, is_renamed_from
from tests.unit.libvirt.devices import devices, pci
from tests.unit.libvirt.hosts import NODE, ROOT, new_tree, reading, written
from tests.unit.libvirt.test_pci import chosen

PCI, OLD = "0000:04:00.0", "other"


@pytest.mark.parametrize(
    ("name", "old", "same"),
    [
        ("host1_numa0", "other_numa0", True),
        ("host1_numa0", "other_numa10", False),
        ("host1_numa0", "host1_numa0", False),
        ("host1_numa0", "host1_all_VGPU_numa0", False),
        ("host1_numa0", "other_all_VGPU_numa0", False),
        ("host1_all_VGPU_numa0", "other_all_VGPU_numa0", True),
        ("host1_all_VGPU", "other_all_CUSTOM_VGPU", False),
        ("host1_amd_sev", "other_amd_sev", True),
        ("host1_amd_sev", "other_amd_sev_es", False),
        (f"host1_{PCI}", f"other.example.org_{PCI}", True),
        ("host1_numa0", "_numa0", False),
        ("elsewhere_numa0", "other_numa0", False),
    ],
)
def test_the_same_thing_has_the_same_end(name, old, same):
    assert is_renamed_from(NODE, name, old) is same


def test_what_an_operator_reserved_and_set_there_comes_along():
    tree, name = new_tree(), f"{OLD}_{PCI}"
    tree.new_child(name, ROOT, child_uuid(ROOT, name))
    tree.update_inventory(name, {"CUSTOM_PCI_144D_A80A": {"total": 1, "reserved": 1}})
    tree.update_traits(name, ["CUSTOM_THEIRS"])
    tree.update_aggregates(name, [ROOT])
    look = reading(devices=devices(pci(PCI)))
    later = written(tree, look, {}, **chosen({"vendor_id": "144d"}))
    data = later.data(f"{NODE}_{PCI}")
    assert not later.exists(name)
    assert data.inventory["CUSTOM_PCI_144D_A80A"]["reserved"] == 1
    assert data.traits == {"CUSTOM_THEIRS", "COMPUTE_MANAGED_PCI_DEVICE"}
    assert data.aggregates == {ROOT}


@pytest.mark.parametrize(
    ("name", "inventory", "traits", "novas"),
    [
        (f"{NODE}_{PCI}", "CUSTOM_PCI_144D_A80A", ["COMPUTE_MANAGED_PCI_DEVICE"], True),
        (f"{OLD}_{PCI}", "CUSTOM_PCI_144D_A80A", ["COMPUTE_MANAGED_PCI_DEVICE"], True),
        (f"{NODE}_{PCI}", "CUSTOM_PCI_144D_A80A", [], False),
        (f"{NODE}_{PCI}", "FPGA", ["COMPUTE_MANAGED_PCI_DEVICE", "OWNER_CYBORG"], False),
        (f"{NODE}_pci_0000_84_00_0", "VGPU", [], True),
        (f"{NODE}_pci_0000_84_00_0", "CUSTOM_VGPU_LARGE", ["OWNER_NOVA"], True),
        (f"{NODE}_pci_0000_84_00_0", "FPGA", [], False),
        (f"{NODE}_pci_0000_84_00_0_port1", "VGPU", [], False),
        (f"{NODE}_amd_sev", "MEM_ENCRYPTION_CONTEXT", ["HW_CPU_X86_AMD_SEV"], True),
        (f"{NODE}_amd_sev", "VCPU", [], False),
        (f"{NODE}_numa0", "VCPU", ["HW_NUMA_ROOT"], False),
    ],
)
def test_novas_children_are_told_by_name_class_and_mark(name, inventory, traits, novas):
    tree = new_tree()
    tree.new_child(name, ROOT)
    tree.update_inventory(name, {inventory: {"total": 1}})
    tree.update_traits(name, traits)
    assert created_by_nova(tree.data(name)) is novas
