"""What the lab has, in a real Placement: cells, hugepages, VFs and mediated devices."""

import uuid

import pytest

from tests.integration.libvirt_hosts import providers
from tests.servers.lab import GPU, NODE

NESTED = "report_numa = nested\nreport_hugepages = pages\n"
DEVICES = """
[pci]
report_in_placement = true
device_spec = {"vendor_id": "1b36", "product_id": "0010", "traits": "fast"}
[devices]
enabled_mdev_types = labmdev-large
"""
CELLS = [f"{NODE}_numa0", f"{NODE}_numa1"]
VGPU = f"{NODE}_pci_0000_21_00_0"
PF = f"{NODE}_0000:41:00.0"


def cell_mib(lab, cell):
    """What the lab's kernel has in a cell, less what is set aside as hugepages."""
    meminfo = lab.read(f"/sys/devices/system/node/node{cell}/meminfo").splitlines()
    found = {words[2]: int(words[3]) for words in (line.split() for line in meminfo)}
    return found["MemTotal:"] // 1024 - 2 * found["HugePages_Total:"]


def test_the_nested_tree_is_what_the_kernel_of_the_hypervisor_says(lab, start, placement):
    agent = start(NESTED, DEVICES)
    found = providers(placement)
    assert {name: each["parent"] for name, each in found.items()} == {
        NODE: None,
        CELLS[0]: NODE,
        CELLS[1]: NODE,
        VGPU: CELLS[0],
        PF: CELLS[1],
    }
    for number, pages in enumerate((64, 32)):
        assert found[CELLS[number]]["inventory"] == {
            "VCPU": 2,
            "MEMORY_MB": pytest.approx(cell_mib(lab, number), abs=1),
            "CUSTOM_HUGEPAGES_2M": pages,
        }
    assert found[VGPU]["inventory"] == {"VGPU": 4}
    assert found[PF]["inventory"] == {"CUSTOM_PCI_1B36_0010": 2}
    assert "CUSTOM_FAST" in placement.stranger.traits(found[PF]["uuid"])
    assert agent.period().done == (), "the second period has nothing to say"


def test_pages_that_are_set_aside_later_are_the_cells_own(lab, start, placement):
    agent = start(NESTED)
    before = providers(placement)
    pages = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
    lab.run(f"echo 40 >{pages}")
    try:
        assert agent.period().ok
        after = providers(placement)
        assert after[CELLS[0]]["inventory"]["CUSTOM_HUGEPAGES_2M"] == 64
        assert after[CELLS[1]]["inventory"] == {
            "VCPU": 2,
            "MEMORY_MB": before[CELLS[1]]["inventory"]["MEMORY_MB"] - 8 * 2,
            "CUSTOM_HUGEPAGES_2M": 40,
        }
    finally:
        lab.run(f"echo 32 >{pages}")


def test_an_instance_that_is_made_is_still_counted(lab, start, placement):
    agent = start(NESTED, DEVICES)
    instance = str(uuid.uuid4())
    lab.run(
        f"echo {instance} >/sys/bus/pci/devices/{GPU}/mdev_supported_types/labmdev-large/create"
    )
    try:
        assert agent.period().ok
        assert providers(placement)[VGPU]["inventory"] == {"VGPU": 4}
    finally:
        lab.run(f"echo 1 >/sys/bus/mdev/devices/{instance}/remove")


def test_the_other_type_has_what_the_first_one_left(lab, start, placement):
    instance = str(uuid.uuid4())
    lab.run(
        f"echo {instance} >/sys/bus/pci/devices/{GPU}/mdev_supported_types/labmdev-small/create"
    )
    try:
        start("", DEVICES)
        assert providers(placement)[VGPU]["inventory"] == {"VGPU": 3}
    finally:
        lab.run(f"echo 1 >/sys/bus/mdev/devices/{instance}/remove")
