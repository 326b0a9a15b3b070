"""Documents of other hosts, where a folder of them lies beside the repository."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import os_traits
import pytest

from drivers.api import ProviderTree
from drivers.libvirt import documents
from drivers.libvirt.devices.device_spec import device_specs
from drivers.libvirt.devices.devices import DevicesAnswer
from drivers.libvirt.devices.encryption import EncryptionAnswer
from drivers.libvirt.devices.pci import PciSettings
from drivers.libvirt.devices.vgpu import MdevSettings, MdevType
from drivers.libvirt.facts import architecture, cpu_features
from drivers.libvirt.facts.numa import MemoryPolicy
from drivers.libvirt.facts.topology import numa_cells
from drivers.libvirt.tree.children import LONGEST_NAME
from reportclient.names import name_problem
from tests.hosts import FakeHost
from tests.unit.libvirt.fake_binding import FakeDevice, FakeLibvirt
from tests.unit.libvirt.hosts import NODE, fields, new_tree, reading, totals, two_cells, written

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "libvirt"
DOCUMENTS = sorted(SHARED.glob("*.xml"))
HOSTS = {path.name: path.read_text() for path in DOCUMENTS}
CAPABILITIES = sorted(
    name for name, text in HOSTS.items() if documents.parse_document(text).tag == "capabilities"
)

pytestmark = pytest.mark.skipif(not DOCUMENTS, reason=f"no documents in {SHARED}")


def trees(text):
    """As it is reported by default, and with all that there is."""
    pages = MemoryPolicy("pages")
    yield written(new_tree(), reading(text, memory_mib=65536))
    yield written(new_tree(), reading(text, memory_mib=65536), memory=pages)
    if numa_cells(documents.parse_document(text)):
        yield written(
            new_tree(), reading(text, memory_mib=65536), memory=pages, report_numa="nested"
        )


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_every_document_gives_trees_that_placement_takes(name):
    for tree in trees(HOSTS[name]):
        for provider in tree.freeze().walk():
            for resource_class, record in provider.inventory.items():
                assert record.problem() is None, resource_class
        assert tree.data(NODE).traits <= cpu_features.OWNED | architecture.OWNED


@pytest.mark.parametrize("name", CAPABILITIES)
def test_cells_together_have_what_the_host_has(name):
    flat, _, nested = trees(HOSTS[name])
    cells = [nested.data(uuid).name for uuid in nested.get_provider_uuids(NODE)[1:]]
    ids = documents.parse_document(HOSTS[name]).findall("host/topology/cells/cell/cpus/cpu")
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


EVERYTHING = """
[DEFAULT]
reserved_huge_pages = node:0,size:2048,count:10
[pci]
report_in_placement = true
report_physical_networks = true
device_spec = {"vendor_id": "8086"}
device_spec = {}
[devices]
enabled_mdev_types = vfio_ccw-io
[libvirt]
report_numa = nested
report_hugepages = pages
pmem_namespaces = BIG:ns0|ns1
swtpm_enabled = true
cpu_power_management = true
"""


@pytest.fixture
def whole(tmp_path):
    """The driver with every option, on a libvirt that answers with these documents."""
    hosts = []

    def told(name, domain_capabilities):
        binding = FakeLibvirt()
        document = documents.parse_document(HOSTS[name])
        cpus = len(document.findall("host/topology/cells/cell/cpus/cpu")) or 2
        listed = [FakeDevice(ET.tostring(one, "unicode")) for one in _all_devices()]
        binding.answers |= {
            "getHostname": NODE,
            "getCapabilities": HOSTS[name],
            "getCPUMap": (cpus, [True] * cpus, cpus),
            "getDomainCapabilities": HOSTS[domain_capabilities],
            "listAllDevices": listed,
        }
        hosts.append(FakeHost(tmp_path, binding))
        return hosts[-1].driver(EVERYTHING, state_path=tmp_path)

    yield told
    for host in hosts:
        host.close()


def _all_devices():
    found = (
        one for text in HOSTS.values() for one in documents.parse_document(text).iter("device")
    )
    return [one for one in found if one.find("name") is not None]


@pytest.mark.parametrize("domain_capabilities", sorted(HOSTS))
@pytest.mark.parametrize("name", sorted(HOSTS))
def test_the_whole_driver_reads_every_document_with_every_option(whole, name, domain_capabilities):
    driver, tree = whole(name, domain_capabilities), new_tree()
    driver.update_provider_tree(tree, NODE)
    for provider in tree.freeze().walk():
        assert len(provider.name) <= LONGEST_NAME
        _, unknown = os_traits.check_traits(provider.traits)
        assert all(one.startswith("CUSTOM_") for one in unknown), unknown
        for resource_class, record in provider.inventory.items():
            assert name_problem(resource_class, "resource class") is None
            assert record.problem() is None, resource_class
    told = driver.degraded()
    if name in CAPABILITIES and numa_cells(documents.parse_document(HOSTS[name])):
        assert tree.exists(f"{NODE}_numa0") and "VCPU" not in tree.data(NODE).inventory
    else:
        assert "no NUMA cells" in told["[libvirt] report_numa"]
    before = tree.freeze()
    again = ProviderTree(before)
    driver.update_provider_tree(again, NODE)
    assert again.freeze() is before, "a second look changes nothing"


def test_node_devices_and_domain_capabilities_are_read_too():
    for text in HOSTS.values():
        document = documents.parse_document(text)
        found = tuple(document.iter("device"))
        told = EncryptionAnswer(document if document.tag == "domainCapabilities" else None)
        look = reading(two_cells(), devices=DevicesAnswer(found), encryption=told)
        wanted = {
            "pci": PciSettings(device_specs(["{}"])),
            "mdev": MdevSettings((MdevType("vfio_ccw-io"),)),
        }
        for provider in written(new_tree(), look, **wanted).freeze().walk():
            assert "MEM_ENCRYPTION_CONTEXT" not in provider.inventory
