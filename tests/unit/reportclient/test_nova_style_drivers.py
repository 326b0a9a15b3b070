"""Bodies of ``update_provider_tree`` in the manner of Nova's drivers run unchanged."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from drivers.errors import ReshapeNeeded
from reportclient.diff import diff
from reportclient.model import Inventory, Provider
from reportclient.plan import CreateProvider, DeleteProvider, SetInventory, SetTraits
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot

NODE_UUID = "11111111-1111-4111-8111-111111111111"
CHILD_UUID = "11111111-1111-4111-8111-000000000001"
SHARED = "eeeeeeee-0000-4000-8000-000000000001"


class BareMetal:
    """One machine, one unit of its own class; reserved while nobody may have it."""

    def __init__(self, node: dict[str, Any]) -> None:
        self.node = node

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        reserved = self.node["maintenance"] or self.node["provision_state"] == "cleaning"
        resource_class = self.node["resource_class"]
        result = {}
        if resource_class is not None:
            norm_name = "CUSTOM_" + re.sub("[^A-Z0-9_]", "_", resource_class.upper())
            result[norm_name] = {
                "total": 1,
                "reserved": 1 if reserved else 0,
                "min_unit": 1,
                "max_unit": 1,
                "step_size": 1,
                "allocation_ratio": 1.0,
            }
        provider_tree.update_inventory(nodename, result)
        provider_tree.update_traits(nodename, self.node["traits"])


class Hypervisor:
    """VCPU, MEMORY_MB and DISK_GB with the ratios that are there, if there are any."""

    initial = {"VCPU": 4.0, "MEMORY_MB": 1.0, "DISK_GB": 1.0}

    def __init__(self, cpus: int, memory: int, disk: int, cpu_traits: dict[str, bool]) -> None:
        self.amounts = {"VCPU": cpus, "MEMORY_MB": memory, "DISK_GB": disk}
        self.cpu_traits = cpu_traits

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        inv = provider_tree.data(nodename).inventory
        ratios = {
            rc: inv[rc]["allocation_ratio"] if rc in inv else initial
            for rc, initial in self.initial.items()
        }
        result = {
            rc: {
                "total": total,
                "min_unit": 1,
                "max_unit": total,
                "step_size": 1,
                "allocation_ratio": ratios[rc],
                "reserved": 512 if rc == "MEMORY_MB" else 0,
            }
            for rc, total in self.amounts.items()
        }
        if provider_tree.has_sharing_provider("DISK_GB"):
            result.pop("DISK_GB")
        provider_tree.update_inventory(nodename, result)
        for trait, available in self.cpu_traits.items():
            if available and not provider_tree.has_traits(nodename, [trait]):
                provider_tree.add_traits(nodename, trait)
            if not available:
                provider_tree.remove_traits(nodename, trait)


class PciDevices:
    """A child for each device; those that are gone are removed with their children."""

    prefix = "pci_"

    def __init__(self, devices: dict[str, int]) -> None:
        self.devices = devices

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        root = provider_tree.data(nodename)
        if "CUSTOM_PCI_VF" in root.inventory:
            if allocations is None:
                raise ReshapeNeeded("the devices have to move below the root")
            provider_tree.update_inventory(nodename, {})
        wanted = {
            f"{nodename}_{self.prefix}{address}": vfs for address, vfs in self.devices.items()
        }
        for rp_uuid in provider_tree.get_provider_uuids_in_tree(nodename):
            if not provider_tree.exists(rp_uuid):
                continue  # went along with its parent
            name = provider_tree.data(rp_uuid).name
            if name.startswith(f"{nodename}_{self.prefix}") and name not in wanted:
                provider_tree.remove(name)
        for name, vfs in wanted.items():
            if not provider_tree.exists(name):
                provider_tree.new_child(name, nodename)
            inventory = {"CUSTOM_PCI_VF": {"total": vfs, "max_unit": vfs}}
            if provider_tree.has_inventory_changed(name, inventory):
                provider_tree.update_inventory(name, inventory)
            provider_tree.add_traits(name, "CUSTOM_PCI")


def full(total: int, **other: Any) -> Inventory:
    return Inventory(total, **other).with_defaults(None)


def host(*others: Provider, **fields: Any) -> Snapshot:
    return Snapshot.build([Provider(NODE_UUID, "node", **fields), *others])


def asked(driver: Any, before: Snapshot, allocations: Any = None) -> Snapshot:
    tree = ProviderTree(before, dict.fromkeys(before.providers, 3))
    driver.update_provider_tree(tree, "node", allocations)
    return tree.freeze()


def test_bare_metal_is_reserved_in_maintenance_and_has_no_class_until_it_is_known() -> None:
    node = {
        "resource_class": "gold.large",
        "maintenance": False,
        "provision_state": "available",
        "traits": ["CUSTOM_RAID", "HW_CPU_X86_VMX"],
    }
    driver = BareMetal(node)
    first = asked(driver, host())
    assert first.get(NODE_UUID).inventory == {"CUSTOM_GOLD_LARGE": full(1, reserved=0, max_unit=1)}
    assert asked(driver, first) is first
    node["maintenance"] = True
    second = asked(driver, first)
    assert [*diff(first, second)][-1] == SetInventory(
        NODE_UUID, {"CUSTOM_GOLD_LARGE": full(1, reserved=1, max_unit=1)}
    )
    node["resource_class"] = None
    third = asked(driver, second)
    assert third.get(NODE_UUID).inventory == {}


def test_a_hypervisor_keeps_the_ratio_that_placement_has() -> None:
    driver = Hypervisor(8, 16384, 100, {"HW_CPU_X86_AVX": True, "HW_CPU_X86_AVX512F": False})
    fresh = asked(driver, host()).get(NODE_UUID)
    assert fresh.inventory["VCPU"].allocation_ratio == 4.0
    before = host(
        inventory={"VCPU": full(8, allocation_ratio=16.0, max_unit=8)},
        traits=frozenset({"CUSTOM_OPERATORS", "HW_CPU_X86_AVX512F"}),
    )
    after = asked(driver, before)
    assert after.get(NODE_UUID).inventory["VCPU"] == before.get(NODE_UUID).inventory["VCPU"]
    assert after.get(NODE_UUID).inventory["MEMORY_MB"].reserved == 512
    assert after.get(NODE_UUID).traits == {"CUSTOM_OPERATORS", "HW_CPU_X86_AVX"}
    assert asked(driver, after) is after, "a second period says nothing new"


def test_a_hypervisor_on_shared_storage_has_no_disk_of_its_own() -> None:
    share = Provider(
        SHARED,
        "nfs",
        inventory={"DISK_GB": full(1000)},
        traits=frozenset({"MISC_SHARES_VIA_AGGREGATE"}),
    )
    driver = Hypervisor(8, 16384, 100, {})
    assert set(asked(driver, host(share)).get(NODE_UUID).inventory) == {"VCPU", "MEMORY_MB"}
    assert "DISK_GB" in asked(driver, host()).get(NODE_UUID).inventory


def test_devices_come_stay_change_and_go() -> None:
    driver = PciDevices({"0000:05:00": 8, "0000:06:00": 4})
    stranger = Provider(CHILD_UUID, "node_bandwidth", NODE_UUID)
    first = asked(driver, host(stranger))
    assert len(first) == 4
    assert asked(driver, first) is first
    below = first.named("node_pci_0000:05:00")
    tree = ProviderTree(first)
    tree.new_child("below the device", below.uuid)
    first = tree.freeze()
    driver.devices = {"0000:06:00": 2, "0000:07:00": 8}
    second = asked(driver, first)
    assert {provider.name for provider in second.providers.values()} == {
        "node",
        "node_bandwidth",
        "node_pci_0000:06:00",
        "node_pci_0000:07:00",
    }
    plan = diff(first, second)
    assert {operation.uuid for operation in plan if isinstance(operation, CreateProvider)} == {
        second.named("node_pci_0000:07:00").uuid
    }
    assert [operation.uuid for operation in plan if isinstance(operation, DeleteProvider)] == [
        first.named("below the device").uuid,
        below.uuid,
    ]
    assert [operation.uuid for operation in plan if isinstance(operation, SetTraits)] == [
        second.named("node_pci_0000:07:00").uuid
    ]


def test_a_device_that_returns_is_the_same_provider_again() -> None:
    driver = PciDevices({"0000:05:00": 8})
    first = asked(driver, host())
    driver.devices = {}
    gone = asked(driver, first)
    driver.devices = {"0000:05:00": 8}
    assert asked(driver, gone) == first


def test_a_reshape_is_asked_for_on_one_tree_and_done_on_a_fresh_one() -> None:
    driver = PciDevices({"0000:05:00": 8})
    before = host(inventory={"CUSTOM_PCI_VF": full(8)})
    with pytest.raises(ReshapeNeeded):
        asked(driver, before)
    after = asked(driver, before, allocations={})
    assert after.get(NODE_UUID).inventory == {}
    assert after.named("node_pci_0000:05:00").inventory == {
        "CUSTOM_PCI_VF": Inventory(8, max_unit=8)
    }


def test_drivers_work_one_after_the_other_on_copies_of_one_tree() -> None:
    tree = ProviderTree(host())
    for driver in (Hypervisor(8, 16384, 100, {}), PciDevices({"0000:05:00": 8})):
        attempt = copy.deepcopy(tree)
        driver.update_provider_tree(attempt, "node")
        tree = attempt
    assert set(tree.data("node").inventory) == {"VCPU", "MEMORY_MB", "DISK_GB"}
    assert tree.exists("node_pci_0000:05:00")
