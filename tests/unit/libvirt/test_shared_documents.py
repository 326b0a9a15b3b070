"""Documents of other hosts, where a folder of them lies beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivers.libvirt import arch_traits, cpu_traits, documents
from drivers.libvirt.cells import numa_cells
from drivers.libvirt.device_spec import device_specs
from drivers.libvirt.devices import Devices, DeviceSettings
from drivers.libvirt.encryption import Encryption
from drivers.libvirt.pci import PciSettings
from drivers.libvirt.shares import MemoryPolicy
from drivers.libvirt.vgpu import MdevSettings, MdevType
from reportclient.model import Inventory
from tests.unit.libvirt.hosts import NODE, fields, new_tree, reading, totals, two_cells, written

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "libvirt"
DOCUMENTS = sorted(SHARED.glob("*.xml"))
HOSTS = {path.name: path.read_text() for path in DOCUMENTS}
CAPABILITIES = sorted(
    name for name, text in HOSTS.items() if documents.read(text).tag == "capabilities"
)

pytestmark = pytest.mark.skipif(not DOCUMENTS, reason=f"no documents in {SHARED}")


def trees(text):
    """As it is reported by default, and with all that there is."""
    pages = MemoryPolicy("pages")
    yield written(new_tree(), reading(text, memory_mib=65536))
    yield written(new_tree(), reading(text, memory_mib=65536), memory=pages)
    if numa_cells(documents.read(text)):
        yield written(
            new_tree(), reading(text, memory_mib=65536), memory=pages, report_numa="nested"
        )


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_every_document_gives_trees_that_placement_takes(name):
    for tree in trees(HOSTS[name]):
        for provider in tree.freeze().walk():
            for resource_class, record in provider.inventory.items():
                assert record.problem() is None, resource_class
        assert tree.data(NODE).traits <= cpu_traits.OWNED | arch_traits.OWNED


@pytest.mark.parametrize("name", CAPABILITIES)
def test_cells_together_have_what_the_host_has(name):
    flat, _, nested = trees(HOSTS[name])
    cells = [nested.data(uuid).name for uuid in nested.get_provider_uuids(NODE)[1:]]
    ids = documents.read(HOSTS[name]).findall("host/topology/cells/cell/cpus/cpu")
    assert totals(flat)["VCPU"] == len(ids) > 0
    for resource_class, slack in (("VCPU", 0), ("MEMORY_MB", len(cells))):
        parts = sum(totals(nested, cell).get(resource_class, 0) for cell in cells)
        assert 0 <= totals(flat)[resource_class] - parts <= slack
        reserved = sum(fields(nested, "reserved", cell).get(resource_class, 0) for cell in cells)
        assert reserved == fields(flat, "reserved")[resource_class]


@pytest.mark.parametrize("name", CAPABILITIES)
def test_capabilities_tell_the_processor(name):
    traits = next(trees(HOSTS[name])).data(NODE).traits
    assert {"HW_ARCH_X86_64"} < traits


@pytest.mark.skipif("caps_libvirt_amd_6274.xml" not in HOSTS, reason="not there")
def test_a_large_host_of_another_maker():
    (*_, nested) = trees(HOSTS["caps_libvirt_amd_6274.xml"])
    huge = [totals(nested, f"{NODE}_numa{n}").get("CUSTOM_HUGEPAGES_2M") for n in range(4)]
    assert huge == [100, 1, None, 100]
    assert totals(nested, f"{NODE}_numa0")["VCPU"] == 8
    assert nested.has_traits(NODE, ["HW_CPU_HYPERTHREADING"])


def test_node_devices_and_domain_capabilities_are_read_too():
    for text in HOSTS.values():
        document = documents.read(text)
        found = tuple(document.iter("device"))
        told = Encryption(document if document.tag == "domainCapabilities" else None)
        look = reading(two_cells(), devices=Devices(found, encryption=told))
        wanted = DeviceSettings(
            PciSettings(device_specs(["{}"])), MdevSettings((MdevType("vfio_ccw-io"),))
        )
        for provider in written(new_tree(), look, devices=wanted).freeze().walk():
            assert "MEM_ENCRYPTION_CONTEXT" not in provider.inventory
