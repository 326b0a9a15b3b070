"""Devices that libvirt itself read and wrote: its test driver, with a file of our own."""

from pathlib import Path

import pytest

from drivers.api import ProviderTree
from drivers.libvirt.driver import LibvirtDriver
from tests.hosts import context
from tests.unit.libvirt.devices import GPU, NIC, NIC_VF, mdev, net, pci

pytest.importorskip("libvirt")

PF, VFS, GPU_AT = "0000:81:00.0", [f"0000:81:02.{n}" for n in range(2)], "0000:84:00.0"
COMPUTER = """<device><name>computer</name><capability type='system'>
<hardware><vendor>v</vendor><uuid>11111111-2222-3333-4444-555555555555</uuid></hardware>
<firmware><vendor>v</vendor><version>1</version><release_date>01/22/2007</release_date></firmware>
</capability></device>"""
HOST = [
    COMPUTER,
    pci(PF, NIC, virtual=VFS, cell=1),
    *(pci(one, NIC_VF, physical=PF, cell=1) for one in VFS),
    net("eth0", PF),
    pci("10000:e1:00.0"),
    pci(GPU_AT, GPU, types={"nvidia-35": 3}),
    mdev(1, "nvidia-35", GPU_AT, told=False),
]
OPTIONS = """
[libvirt]
virt_type = test
connection_uri = test://{}
[pci]
report_in_placement = true
device_spec = {{"devname": "eth0", "product_id": "154c"}}
device_spec = {{"vendor_id": "144d"}}
[devices]
enabled_mdev_types = nvidia-35
"""


def test_devices_are_reported_as_libvirt_tells_them(tmp_path: Path) -> None:
    file = tmp_path / "host.xml"
    file.write_text(f"<node>{''.join(HOST)}</node>")
    driver = LibvirtDriver(context(tmp_path, OPTIONS.format(file)))
    (node,) = driver.get_available_nodes()
    tree = ProviderTree()
    tree.new_root(node, "c0ffee00-0000-4000-8000-000000000001")
    driver.update_provider_tree(tree, node)
    degraded = driver.degraded("host1")
    driver.cleanup_host(node)
    below = (tree.data(uuid) for uuid in tree.get_provider_uuids(node)[1:])
    assert {
        one.name.removeprefix(f"{node}_"): {k: r["total"] for k, r in one.inventory.items()}
        for one in below
    } == {PF: {"CUSTOM_PCI_8086_154C": 2}, "pci_0000_84_00_0": {"VGPU": 4}}
    named = [what for what in degraded if "device" in what or "mdev" in what]
    assert named == ["PCI device 10000:e1:00.0"], "QEMU can't address it"
