"""The whole driver, with every option, on a libvirt that answers with documents of real hosts."""

from xml.etree import ElementTree as ET
from xml.etree.ElementTree import fromstring

import pytest

from drivers.api import ProviderTree
from drivers.libvirt.facts.numa import MemoryPolicy
from drivers.libvirt.facts.topology import numa_cells
from tests.hosts import FakeHost
from tests.unit.libvirt.fake_binding import DATA, FakeDevice, FakeLibvirt
from tests.unit.libvirt.hosts import NODE, check, fields, new_tree, reading, totals, written

HOSTS = {path.name: path.read_text() for path in sorted(DATA.glob("*.xml"))}
CAPABILITIES = [name for name, text in HOSTS.items() if fromstring(text).tag == "capabilities"]


@pytest.mark.parametrize("name", CAPABILITIES)
def test_cells_together_have_what_the_host_has(name):
    look = reading(HOSTS[name], memory_mib=65536)
    flat = written(new_tree(), look)
    nested = written(new_tree(), look, memory=MemoryPolicy("pages"), report_numa="nested")
    cells = [nested.data(uuid).name for uuid in nested.get_provider_uuids(NODE)[1:]]
    ids = fromstring(HOSTS[name]).findall("host/topology/cells/cell/cpus/cpu")
    assert totals(flat)["VCPU"] == len(ids) > 0
    for resource_class, slack in (("VCPU", 0), ("MEMORY_MB", len(cells))):
        parts = sum(totals(nested, cell).get(resource_class, 0) for cell in cells)
        assert 0 <= totals(flat)[resource_class] - parts <= slack
        reserved = sum(fields(nested, "reserved", cell).get(resource_class, 0) for cell in cells)
        assert reserved == fields(flat, "reserved")[resource_class]


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
    hosts = []

    def told(name, domain_capabilities):
        binding = FakeLibvirt()
        document = fromstring(HOSTS[name])
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
    found = (one for text in HOSTS.values() for one in fromstring(text).iter("device"))
    return [one for one in found if one.find("name") is not None]


@pytest.mark.parametrize("domain_capabilities", HOSTS)
@pytest.mark.parametrize("name", HOSTS)
def test_the_whole_driver_reads_every_document_with_every_option(whole, name, domain_capabilities):
    driver, tree = whole(name, domain_capabilities), new_tree()
    driver.update_provider_tree(tree, NODE)
    check(tree)
    told = driver.degraded("host1")
    if name in CAPABILITIES and numa_cells(fromstring(HOSTS[name])):
        assert tree.exists(f"{NODE}_numa0") and "VCPU" not in tree.data(NODE).inventory
    else:
        assert "no NUMA cells" in told["[libvirt] report_numa"]
    before = tree.freeze()
    again = ProviderTree(before)
    driver.update_provider_tree(again, NODE)
    assert again.freeze() is before, "a second look changes nothing"
