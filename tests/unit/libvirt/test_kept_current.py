"""The driver asks anew what changed, and a part that can't be read costs that part only."""

import queue
import threading
import uuid

import pytest

from drivers.api import DriverNotReady, ProviderTree
from drivers.libvirt.connection.session import Deadlines
from drivers.libvirt.driver import LibvirtDriver
from tests.hosts import FakeHost
from tests.unit.libvirt.devices import pci
from tests.unit.libvirt.fake_binding import FakeDevice, FakeDomain, FakeLibvirt, FakeLibvirtError
from tests.unit.libvirt.hosts import NODE, update
from tests.unit.libvirt.test_disk import pool
from tests.waiting import eventually

RBD = "[libvirt]\nimages_type = rbd\nimages_rbd_pool = vms\n"
QUIET = ["getHostname", "getCapabilities", "getCPUMap", "getMemoryStats"]


def vms(gib: int) -> FakeDomain:
    return FakeDomain(pool("rbd", "<name>vms</name>", size=str(gib * 1024**3)))


@pytest.fixture
def binding(binding):
    binding.answers["listAllStoragePools"] = [vms(50)]
    return binding


@pytest.fixture
def make(fake_host):
    def make(text: str = RBD, call: float = 20, **otherwise) -> LibvirtDriver:
        fake_host.deadlines = Deadlines(connect=20, call=call)
        return fake_host.driver(text, **otherwise)

    return make


def disk(tree: ProviderTree) -> int:
    return tree.data(NODE).inventory["DISK_GB"]["total"]


def asked(binding: FakeLibvirt, driver: LibvirtDriver, tree: ProviderTree) -> list[str]:
    before = len(binding.calls)
    update(driver, ProviderTree(tree.freeze()))
    return binding.calls[before:]


def test_a_quiet_period_costs_four_calls(make, binding):
    driver = make()
    tree = update(driver)
    assert asked(binding, driver, tree) == QUIET
    binding.connections[0].happen("nodeDevice", 0, 0, 0)
    assert asked(binding, driver, tree) == QUIET


def test_an_event_wakes_the_agent_once_it_has_reported(make, binding):
    """Not before: hosts that boot together are to report at random times."""
    woken = threading.Event()
    driver = make(wake=woken.set)
    driver.init_host("host")
    driver.get_available_nodes()
    binding.connections[0].happen("domain", 0, 2, 0)
    assert not [one for one in threading.enumerate() if one.name == "libvirt-gather"]
    update(driver)
    binding.connections[0].happen("nodeDevice", 0, 0, 0)
    assert woken.wait(60)
    driver.cleanup_host("host")


def test_a_pool_that_goes_between_list_and_read_is_left_out(make, binding):
    binding.answers["listAllStoragePools"] = [FakeDomain(None), vms(50)]
    assert disk(update(make())) == 50


def test_a_libvirt_without_storage_has_no_pools_and_is_well(make, binding):
    binding.refused["listAllStoragePools"] = FakeLibvirtError("not supported", 3)
    driver = make("")
    assert update(driver).has_inventory(NODE)
    assert driver.degraded("host1") == {}


def test_what_only_kvm_has_is_not_asked_where_libvirt_has_no_kvm(make, binding):
    text = binding.answers["getCapabilities"]
    assert '<domain type="kvm" />' in text
    binding.answers["getCapabilities"] = text.replace('<domain type="kvm" />', "")
    driver = make()
    update(driver)
    assert "getDomainCapabilities" not in binding.calls
    assert "set virt_type = qemu" in driver.degraded("host1")["virt_type"]


@pytest.mark.slow
def test_a_device_that_hangs_costs_its_own_part_and_a_pool_likewise(tmp_path):
    binding, hanging, go_on = FakeLibvirt(), threading.Event(), threading.Event()

    def listing(*listed):
        return lambda _flags: (hanging.is_set() and go_on.wait(60), listed)[1]

    binding.answers["listAllStoragePools"] = listing(vms(50))
    binding.answers["listAllDevices"] = listing(FakeDevice(pci("0000:04:00.0")))
    host = FakeHost(tmp_path, binding, deadlines=Deadlines(connect=60, call=3))
    text = '[pci]\nreport_in_placement = true\ndevice_spec = {"vendor_id": "144d"}\n' + RBD
    driver = host.driver(text)
    heard: list[str | None] = []
    driver.watch(heard.append)
    tree = update(driver)
    hanging.set()
    binding.answers["getMemoryStats"] = {"total": 4 * 1024 * 1024}
    binding.connections[0].happen("nodeDevice", 0, 1, 0)
    update(driver, tree)
    assert list(driver.degraded("host1")) == ["node devices"]
    binding.connections[0].happen("storagePool", 1)
    update(driver, tree)
    assert set(driver.degraded("host1")) == {"node devices", "storage pools"}
    assert tree.exists(f"{NODE}_0000:04:00.0") and disk(tree) == 50
    assert tree.data(NODE).inventory["MEMORY_MB"]["total"] == 4096
    assert heard == [None], "libvirt itself is not thought lost"
    binding.lose_connections()
    binding.down = FakeLibvirtError("nobody listens", binding.VIR_ERR_SYSTEM_ERROR)
    with pytest.raises(DriverNotReady, match="nobody listens"):
        update(driver, tree)
    assert len(heard) == 2 and heard[1] is not None, "now it is, whatever else hangs"
    binding.down = None
    hanging.clear()
    go_on.set()
    driver.cleanup_host("host")


# -- whose disk


SHARED = """
[libvirt]
disk_from_sharing_provider = true
"""


def with_sharing(tree: ProviderTree) -> ProviderTree:
    aggregate = str(uuid.uuid4())
    tree.new_root("nfs", str(uuid.uuid4()))
    tree.update_inventory("nfs", {"DISK_GB": {"total": 1000}})
    tree.add_traits("nfs", "MISC_SHARES_VIA_AGGREGATE")
    tree.add_aggregates("nfs", aggregate)
    tree.add_aggregates(NODE, aggregate)
    return tree


@pytest.mark.parametrize(("text", "own"), [(SHARED, False), ("", True)])
def test_a_sharing_provider_replaces_the_disk_only_where_configured(make, text, own):
    driver = make(text)
    tree = with_sharing(update(driver))
    tree.add_traits(NODE, "STORAGE_DISK_SSD")
    update(driver, tree)
    assert ("DISK_GB" in tree.data(NODE).inventory) is own
    assert tree.has_traits(NODE, ["STORAGE_DISK_SSD"]) is own
    assert tree.data("nfs").inventory["DISK_GB"]["total"] == 1000


def test_without_a_sharing_provider_the_hosts_own_disk_is_reported(make):
    driver = make(SHARED)
    tree = with_sharing(update(driver))
    update(driver, tree)
    tree.remove_traits("nfs", "MISC_SHARES_VIA_AGGREGATE")
    assert "DISK_GB" in update(driver, tree).data(NODE).inventory


# -- whose host


def capabilities(uuid_of_host: str) -> str:
    return f"<capabilities><host><uuid>{uuid_of_host}</uuid></host></capabilities>"


@pytest.mark.slow
def test_another_host_that_answers_is_no_return_of_this_one(make, binding):
    binding.answers["getCapabilities"] = capabilities("first")
    driver = make("")
    update(driver)
    said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    driver.watch(said.put)
    assert said.get(timeout=60) is None
    binding.answers["getHostname"] = "node-2"
    binding.answers["getCapabilities"] = capabilities("second")
    binding.lose_connections()
    asked = len(binding.calls)
    with pytest.raises(DriverNotReady, match=r"another host answers: node-2.*connection_uri"):
        update(driver)
    assert "another host answers: node-2" in str(said.get(timeout=60))
    eventually(lambda: binding.calls[asked:].count("getCapabilities") > 2)
    assert said.empty()
    binding.answers["getHostname"] = "host1"
    assert said.get(timeout=60) is None
    driver.cleanup_host("host1")


def test_a_host_with_a_new_uuid_only_is_the_same_host(make, binding):
    """Where firmware has none, libvirtd makes one up at each start."""
    binding.answers["getCapabilities"] = capabilities("first")
    driver = make("")
    update(driver)
    binding.answers["getCapabilities"] = capabilities("second")
    update(driver)
    assert driver.degraded("host1") == {}


def test_a_renamed_host_keeps_its_name_in_placement_and_says_so(make, binding):
    binding.answers["getCapabilities"] = capabilities("first")
    driver = make("")
    tree = update(driver)
    binding.answers["getHostname"] = "node-2"
    update(driver, tree)
    assert tree.exists(NODE) and not tree.exists("node-2")
    assert "until compute-agent is restarted" in driver.degraded("host1")["host name"]


def test_another_host_after_a_restart_of_the_agent_is_not_this_one(make, binding):
    binding.answers["getCapabilities"] = capabilities("first")
    first = watched(make(""))
    update(first)
    first.cleanup_host("host1")
    binding.answers["getHostname"] = "node-2"
    binding.answers["getCapabilities"] = capabilities("second")
    second, said = make(""), queue.SimpleQueue[str | None]()
    second.watch(said.put)
    with pytest.raises(DriverNotReady, match=r"another host answers: node-2.*libvirt-host.json"):
        second.get_available_nodes()
    assert "another host answers: node-2" in str(said.get(timeout=60)), "it stays disabled"
    (second.context.state_path / "driver-libvirt-host.json").unlink()
    assert second.get_available_nodes() == ["node-2"], "the operator says that it is"
    second.cleanup_host("host1")


def test_a_host_renamed_while_the_agent_was_away_is_the_same_host(make, binding):
    binding.answers["getCapabilities"] = capabilities("first")
    update(watched(make("")))
    binding.answers["getHostname"] = "node-2"
    driver = watched(make(""))
    assert driver.get_available_nodes() == ["node-2"]


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"name": 1}'])
def test_a_damaged_memory_of_the_host_stops_nothing(make, binding, damage, caplog):
    binding.answers["getCapabilities"] = capabilities("first")
    driver = watched(make(""))
    file = driver.context.state_path / "driver-libvirt-host.json"
    file.write_text(damage)
    update(driver)
    assert "libvirt-host.json is damaged" in caplog.text
    assert "first" in file.read_text()


def test_a_command_that_looks_at_the_host_writes_nothing(make, binding):
    binding.answers["getCapabilities"] = capabilities("first")
    driver = make("")
    update(driver)
    assert not list(driver.context.state_path.glob("*libvirt-host*"))


def watched(driver):
    driver.watch(lambda why: None)
    return driver
