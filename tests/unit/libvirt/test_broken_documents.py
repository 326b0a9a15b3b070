"""Documents that libvirt gives broken: each costs its own part only, is named, and what it said
before stays."""

import pytest

from drivers.api import ProviderTree
from tests.unit.libvirt.devices import GPU, guest, pci, sev
from tests.unit.libvirt.fake_binding import DATA, FakeDevice, FakeDomain, FakeLibvirtError
from tests.unit.libvirt.hosts import NODE, capabilities, cell, new_tree, totals, update

A, B, CARD = "0000:04:00.0", "0000:05:00.0", "0000:84:00.0"
PCI = (
    "[pci]\nreport_in_placement = true\n"
    'device_spec = {"vendor_id": "144d", "one_time_use": "yes"}\n'
    "[devices]\nenabled_mdev_types = t\n"
    "[libvirt]\nimages_type = lvm\nimages_volume_group = vms\n"
)
NOT_UTF8 = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
GIB = 1024**3
POOL = "<pool type='logical'><name>vms</name><capacity>{}</capacity><source><name>vms</name></source></pool>"
HUGE = {2048: 16384}
"""32 GiB of hugepages."""


def whole_host(pages=HUGE, mib=65536):
    machines = "<machine>pc</machine><machine>q35</machine><domain type='kvm'/>"
    cells = cell(0, range(2), mib, pages=pages), cell(1, range(2, 4), mib, pages=pages)
    return capabilities(*cells).replace(
        "</host>", f"</host><guest><arch name='x86_64'>{machines}</arch></guest>"
    )


def whole_domain():
    text = (DATA / "domain-q35.xml").read_text()
    features = sev().partition("<features>")[2].partition("</features>")[0]
    return text.replace("<features>", f"<features>{features}")


@pytest.fixture
def binding(binding):
    binding.answers["getCapabilities"] = whole_host()
    binding.answers["getDomainCapabilities"] = whole_domain()
    binding.answers["getCPUMap"] = (4, [True] * 4, 4)
    binding.answers["getMemoryStats"] = {"total": 131072 * 1024}
    binding.answers["listAllStoragePools"] = [FakeDomain(POOL.format(50 * GIB), "vms")]
    binding.answers["listAllDomains"] = [FakeDomain(guest(A), "one")]
    devices = pci(A), pci(B), pci(CARD, GPU, types={"t": 4})
    binding.answers["listAllDevices"] = [FakeDevice(one) for one in devices]
    return binding


@pytest.fixture
def start(fake_host):
    return lambda text=PCI: fake_host.driver(text)


def report(driver, tree=None):
    """The tree afterwards, as Placement would have it."""
    return update(driver, ProviderTree((tree or new_tree()).freeze()))


def reported(driver):
    """It, and the tree after its report."""
    return driver, report(driver)


def happen(binding):
    """All that events would tell is asked for again."""
    for connection in binding.connections:
        connection.happen("nodeDevice", 0, 0, 0)
        connection.happen("storagePool", 0, 0, 0)
        connection.happen("domain", 0, 0, 0)


def contents(tree):
    return {
        tree.data(uuid).name: (totals(tree, uuid), tree.data(uuid).traits)
        for uuid in tree.get_provider_uuids(NODE)
    }


def cut(text):
    return text[: len(text) // 2]


def test_all_of_it_is_reported_where_nothing_is_broken(start):
    driver, tree = reported(start())
    assert driver.degraded("host1") == {}
    assert totals(tree, NODE) == {"VCPU": 4, "MEMORY_MB": 65536, "DISK_GB": 50}
    assert {f"{NODE}_{A}", f"{NODE}_{B}", f"{NODE}_amd_sev"} < set(contents(tree))
    assert tree.data(f"{NODE}_{A}").inventory["CUSTOM_PCI_144D_A80A"]["reserved"] == 1


ANSWERS = {
    "getHostname": "host name",
    "getCapabilities": "capabilities",
    "getDomainCapabilities": "domain capabilities",
    "baselineCPU": "features of",
    "getMemoryStats": "memory",
    "getCPUMap": "CPU map",
    "listAllStoragePools": "storage pools",
    "listAllDevices": "node devices",
    "listAllDomains": "guests",
}
BROKEN = {
    "not-utf8": lambda _text: NOT_UTF8,
    "empty": lambda _text: "",
    "cut": cut,
    "other": lambda _text: "<other/>",
    "nothing": lambda _text: "\n",
}
DOCUMENTS = ("getCapabilities", "getDomainCapabilities", "baselineCPU")
CASES = [
    *((name, kind) for name in DOCUMENTS for kind in BROKEN),
    *((name, "not-utf8") for name in ANSWERS if name not in DOCUMENTS),
    ("getHostname", "empty"),
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_an_answer_that_breaks_changes_nothing_and_is_named(binding, start, name, kind):
    driver, tree = reported(start())
    whole = binding.answers[name]
    binding.answers[name] = BROKEN[kind](whole)
    if name in ("getDomainCapabilities", "baselineCPU"):
        binding.lose_connections()
    happen(binding)
    later = report(driver, tree)
    assert contents(later) == contents(tree)
    assert ANSWERS[name] in str(driver.degraded("host1"))
    binding.answers[name] = whole
    assert contents(report(driver, later)) == contents(tree)
    assert driver.degraded("host1") == {}


@pytest.mark.parametrize(("name", "kind"), [case for case in CASES if case[0] != "getHostname"])
def test_one_that_is_broken_at_a_start_takes_nothing_from_placement(binding, start, name, kind):
    tree = report(start())
    binding.answers[name] = BROKEN[kind](binding.answers[name])
    driver = start()
    try:
        later = report(driver, tree)
    except Exception as err:
        assert name in ("getMemoryStats",) and ANSWERS[name] in str(err), "nothing is reported"
        return
    assert contents(later) == contents(tree)
    assert ANSWERS[name] in str(driver.degraded("host1"))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("getMemoryStats", {"total": 0}),
        ("getMemoryStats", {"total": -1}),
        ("getMemoryStats", {}),
        ("getMemoryStats", {"total": "much"}),
        ("getCPUMap", (4, [False] * 4, 0)),
        ("getCPUMap", (4,)),
        ("getCapabilities", whole_host().replace("<cell ", "<cel ").replace("</cell>", "</cel>")),
        ("getCapabilities", whole_host().replace("<pages ", "<page ").replace("/pages", "/page")),
        ("getCapabilities", "<capabilities/>"),
    ],
)
def test_a_whole_answer_that_lacks_what_it_had_is_none(binding, start, name, answer):
    driver, tree = reported(start())
    binding.answers[name] = answer
    assert contents(report(driver, tree)) == contents(tree)
    assert ANSWERS[name] in str(driver.degraded("host1"))


def contradiction(text):
    """One of those that test_cells.py has."""
    return text.replace("<cell id='1'>", "<cell id='0'>")


@pytest.mark.parametrize("option", ["off", "nested"])
def test_cells_that_contradict_themselves_change_nothing_and_are_named(binding, start, option):
    text = f"{PCI}report_numa = {option}\nreport_hugepages = pages\n"
    driver, tree = reported(start(text))
    right = binding.answers["getCapabilities"]
    binding.answers["getCapabilities"] = contradiction(right)
    later = report(driver, tree)
    assert contents(later) == contents(tree)
    assert set(driver.degraded("host1")) == {"NUMA cells"}, "the other parts are right"
    assert driver.degraded("host1")["NUMA cells"].startswith(
        "`virsh capabilities` can't be right: "
    )
    again = start(text)
    assert contents(report(again, tree)) == contents(tree), "after a start as well"
    assert "NUMA cells" in again.degraded("host1")
    binding.answers["getCapabilities"] = right
    assert contents(report(driver, later)) == contents(tree) and driver.degraded("host1") == {}


def test_a_new_host_whose_cells_contradict_themselves_offers_no_memory_yet(binding, start):
    binding.answers["getCapabilities"] = contradiction(whole_host())
    driver = start()
    assert totals(report(driver), NODE) == {"VCPU": 4, "DISK_GB": 50}
    assert set(driver.degraded("host1")) == {"NUMA cells", "MEMORY_MB"}


@pytest.mark.parametrize("name", ["maxGuests", "maxESGuests"])
def test_a_number_of_encrypted_guests_that_is_none_is_not_no_limit(binding, start, name):
    driver, tree = reported(start())
    right = binding.answers["getDomainCapabilities"]
    binding.answers["getDomainCapabilities"] = right.replace(f"<{name}>", f"<{name}>about ")
    binding.lose_connections()
    assert contents(report(driver, tree)) == contents(tree)
    assert (
        set(driver.degraded("host1")) == {"SEV"} and f"<{name}>" in driver.degraded("host1")["SEV"]
    )
    again = start()
    assert contents(report(again, tree)) == contents(tree), "after a start as well"


TOO_LITTLE = {
    **BROKEN,
    "nodeless": lambda text: text.replace(
        "</capability></device>", "<numa/></capability></device>"
    ),
    "pfless": lambda text: text.replace(
        "<vendor ", "<capability type='phys_function'><address/></capability><vendor "
    ),
    "vendorless": lambda text: text.replace("<vendor ", "<vend ").replace("/vendor", "/vend"),
    "productless": lambda text: text.replace("<product ", "<prod ").replace("/product", "/prod"),
    "placeless": lambda text: text.replace("<bus>", "<bus>x"),
    "refused": lambda _text: FakeLibvirtError("I/O error"),
    "bare": lambda _text: "<device><name>pci_0000_04_00_0</name></device>",
    "nameless": lambda text: text.replace("<name>pci", "<nam>pci").replace("</name><p", "</nam><p"),
}


WRONG_TYPES = {
    "countless": lambda text: text.replace("availableInstances", "available"),
    "idless": lambda text: text.replace("<type id='t'>", "<type>"),
    "twice": lambda text: text.replace(
        "<type id", "<type id='t'><availableInstances>1</availableInstances></type><type id"
    ),
}


@pytest.mark.parametrize(
    ("which", "kind"),
    [*((0, kind) for kind in TOO_LITTLE), *((2, kind) for kind in {**TOO_LITTLE, **WRONG_TYPES})],
)
def test_a_device_whose_document_breaks_stays_and_is_named(binding, start, kind, which):
    driver, tree = reported(start())
    device = binding.answers["listAllDevices"][which]
    device.problem = {**TOO_LITTLE, **WRONG_TYPES}[kind](device.XMLDesc(0))
    happen(binding)
    later = report(driver, tree)
    assert contents(later) == contents(tree)
    assert f"node device {device.name()}" in driver.degraded("host1")
    again = start()
    assert contents(report(again, tree)) == contents(tree), "after a start as well"
    assert f"node device {device.name()}" in again.degraded("host1")
    device.problem = None
    happen(binding)
    assert contents(report(driver, later)) == contents(tree) and driver.degraded("host1") == {}


@pytest.mark.parametrize("kind", [*BROKEN, "sizeless"])
def test_a_pool_whose_document_breaks_keeps_its_size(binding, start, kind):
    driver, tree = reported(start())
    (vms,) = binding.answers["listAllStoragePools"]
    whole = vms.document
    vms.document = {**BROKEN, "sizeless": lambda t: t.replace("capacity>", "room>")}[kind](whole)
    other = FakeDomain(NOT_UTF8, "other")
    binding.answers["listAllStoragePools"] = [other, vms]
    happen(binding)
    assert contents(report(driver, tree)) == contents(tree)
    assert set(driver.degraded("host1")) == {"storage pool vms", "storage pool other"}
    vms.document = whole.replace(str(50 * GIB), str(60 * GIB))
    happen(binding)
    assert totals(report(driver, tree), NODE)["DISK_GB"] == 60
    assert set(driver.degraded("host1")) == {"storage pool other"}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_device_of_a_guest_whose_document_breaks_is_not_given_again(binding, start, kind):
    driver, tree = reported(start())
    (one,) = binding.answers["listAllDomains"]
    one.document = BROKEN[kind](one.document)
    happen(binding)
    later = report(driver, tree)
    assert later.data(f"{NODE}_{A}").inventory["CUSTOM_PCI_144D_A80A"]["reserved"] == 1
    assert "guest one" in driver.degraded("host1")


def test_a_start_without_cells_offers_no_hugepages_as_other_memory(binding, start):
    tree = report(start())
    binding.answers["getCapabilities"] = capabilities()
    driver = start()
    later = report(driver, tree)
    assert totals(later, NODE)["MEMORY_MB"] == 65536
    assert "hugepages" in driver.degraded("host1")["MEMORY_MB"]
    binding.answers["getMemoryStats"] = {"total": 40000 * 1024}
    assert totals(report(driver, later), NODE)["MEMORY_MB"] == 40000, "less is less"


@pytest.mark.parametrize("document", ["", "rubbish <", cut(whole_host())])
def test_a_new_host_whose_capabilities_are_broken_has_no_memory(binding, start, document):
    binding.answers["getCapabilities"] = document
    driver, tree = reported(start())
    assert set(totals(tree, NODE)) == {"VCPU", "DISK_GB"}
    assert not {name for name in tree.data(NODE).traits if name.startswith("HW_CPU_")}
    assert {"capabilities", "MEMORY_MB"} <= set(driver.degraded("host1"))


@pytest.mark.parametrize("option", ["", "report_hugepages = pages\n"])
def test_cells_that_do_not_tell_their_pages_at_a_start_keep_theirs(binding, start, option):
    text = f"[libvirt]\nreport_numa = nested\n{option}"
    tree = report(start(text))
    binding.answers["getCapabilities"] = (
        whole_host().replace("<pages ", "<p ").replace("/pages", "/p")
    )
    later = report(start(text), tree)
    assert contents(later) == contents(tree)


def test_the_kernels_files_may_be_broken_too(binding, start, tmp_path):
    parameters = tmp_path / "sys/module/kvm_amd/parameters"
    parameters.mkdir(parents=True)
    (parameters / "sev").write_bytes(b"\xff\n")
    names = tmp_path / "sys/bus/nd/devices/namespace0.0"
    names.mkdir(parents=True)
    (names / "alt_name").write_bytes(b"\xff\n")
    (names / "mode").write_text("dax\n")
    assert report(start(PCI + "pmem_namespaces = BIG:ns0\n"))
