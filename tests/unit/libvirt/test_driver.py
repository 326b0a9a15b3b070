from importlib.metadata import EntryPoint

import pytest
from oslo_config import cfg
from stevedore.extension import Extension

from drivers.abilities import Degradable, Lifecycle
from drivers.api import DriverContext, DriverNotReady, ProviderTree, ReshapeNeeded
from drivers.errors import DriverLoadFailed
from drivers.libvirt.driver import LibvirtDriver
from drivers.libvirt.tree.reported import LATE
from drivers.loader import GROUP, driver_from
from tests.hosts import UP_FOR
from tests.unit.libvirt.fake_binding import FakeDomain, FakeLibvirt, FakeLibvirtError
from tests.unit.libvirt.hosts import NODE, capabilities, cell, new_tree, totals, update


@pytest.fixture
def tree():
    return new_tree()


def test_the_loader_gives_it_its_options_and_one_out_of_bounds_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("drivers.libvirt.driver.load_binding", FakeLibvirt)
    point = EntryPoint("libvirt", "drivers.libvirt.driver:LibvirtDriver", GROUP)
    extension = Extension("libvirt", point, LibvirtDriver, None)
    file = tmp_path / "agent.conf"

    def load(text):
        file.write_text(text)
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[str(file)], default_config_dirs=[])
        return driver_from(extension, DriverContext("host", tmp_path, conf))

    assert {Lifecycle, Degradable} <= load("").abilities
    with pytest.raises(DriverLoadFailed) as told:
        load("[DEFAULT]\ncpu_allocation_ratio = -1\n")
    assert "option cpu_allocation_ratio is not valid" in str(told.value)
    assert "LocationInfo" not in str(told.value)


def test_the_root_says_what_the_host_has(make, tree):
    data = update(make(), tree).data(NODE)
    assert {name: record["total"] for name, record in data.inventory.items()} == {
        "VCPU": 2,
        "MEMORY_MB": 8192,
        "DISK_GB": data.inventory["DISK_GB"]["total"],
    }
    assert {"HW_CPU_X86_AVX2", "HW_ARCH_X86_64", "COMPUTE_ARCH_X86_64"} <= data.traits
    assert "HW_CPU_HYPERTHREADING" not in data.traits


def test_traits_that_the_host_lost_go_and_those_unknown_stay(make, binding, tree):
    tree.add_traits(NODE, "HW_CPU_X86_XOP", "HW_CPU_HYPERTHREADING")
    binding.refused["baselineCPU"] = FakeLibvirtError("no such model")
    driver = make()
    update(driver, tree)
    assert tree.has_traits(NODE, ["HW_CPU_X86_XOP"])
    assert not tree.has_traits(NODE, ["HW_CPU_HYPERTHREADING"])
    assert "no such model" in str(driver.degraded("host1"))
    del binding.refused["baselineCPU"]
    update(driver, tree)
    assert not tree.has_traits(NODE, ["HW_CPU_X86_XOP"])
    assert driver.degraded("host1") == {}


def test_a_failure_half_way_leaves_the_tree_as_it_was(make, binding, tree):
    before = tree.freeze()
    for call in ("getCapabilities", "getCPUMap", "getInfo"):
        binding.refused[call] = FakeLibvirtError("out of luck")
    with pytest.raises(DriverNotReady, match="out of luck"):
        update(make(), tree)
    assert tree.freeze() == before


@pytest.mark.parametrize("there", [{}, {"MEMORY_MB": {"total": 4096, "reserved": 512}}])
def test_memory_that_was_never_told_stays_and_the_rest_is_reported(make, binding, tree, there):
    tree.update_inventory(NODE, there)
    before = tree.data(NODE).inventory
    binding.refused["getMemoryStats"] = FakeLibvirtError("out of luck")
    driver = make("[libvirt]\nreport_hugepages = pages\n")
    after = update(driver, tree).data(NODE).inventory
    assert {name: after.get(name) for name in before} == before
    assert set(after) == {"VCPU", "DISK_GB", *there}
    assert set(driver.degraded("host1")) == {"memory"}
    del binding.refused["getMemoryStats"]
    assert update(driver, tree).data(NODE).inventory["MEMORY_MB"]["total"] == 8192
    assert driver.degraded("host1") == {}


def test_nothing_moves_to_cells_while_memory_was_never_told(make, binding, tree):
    update(make(), tree)
    before = tree.freeze()
    nested = "[libvirt]\nreport_numa = nested\n"
    binding.refused["getMemoryStats"] = FakeLibvirtError("out of luck")
    driver = make(nested)
    assert update(driver, tree).freeze() == before
    del binding.refused["getMemoryStats"]
    with pytest.raises(ReshapeNeeded):
        update(driver, tree)
    note = driver.degraded("host1")["reshape"]
    assert note.startswith(f"MEMORY_MB, VCPU moves with its allocations to {NODE}_numa0; ")
    driver.update_provider_tree(tree, NODE, {})
    moved = tree.freeze()
    binding.refused["getMemoryStats"] = FakeLibvirtError("out of luck")
    assert update(make(nested), tree).freeze() == moved, "cells keep theirs as well"


TWO_CELLS = capabilities(cell(0, [0]), cell(1, [1]))


@pytest.mark.parametrize(
    ("refusal", "cell_of_guest"), [(None, 1), (FakeLibvirtError("not now"), 0)]
)
def test_a_guest_moves_to_the_cell_it_is_bound_to_if_libvirt_tells(
    make, binding, tree, caplog, refusal, cell_of_guest
):
    binding.answers["getCapabilities"] = TWO_CELLS
    update(make(), tree)
    root, later = tree.data(NODE).uuid, ProviderTree(tree.freeze())
    document = "<domain><uuid>guest</uuid><vcpu cpuset='1'>1</vcpu></domain>"
    binding.answers["listAllDomains"] = refusal or [FakeDomain(document)]
    guests = {"guest": {"allocations": {root: {"resources": {"VCPU": 1}}}}}
    driver = make("[libvirt]\nreport_numa = nested\n")
    driver.update_provider_tree(later, *driver.get_available_nodes(), guests)
    assert list(guests["guest"]["allocations"]) == [later.data(f"{NODE}_numa{cell_of_guest}").uuid]
    assert ("not now" in caplog.text) is bool(refusal)
    assert driver.degraded("host1") == {}


def test_a_cpu_that_went_offline_is_not_counted_and_named(make, binding, tree):
    binding.answers["getCPUMap"] = (2, [True, False], 1)
    driver = make("[compute]\ncpu_shared_set = 0-1\n")
    assert update(driver, tree).data(NODE).inventory["VCPU"]["total"] == 1
    assert "CPU 1 is offline" in driver.degraded("host1")["[compute] cpu_shared_set"]


SLEEPING = """
[compute]
cpu_dedicated_set = 0-3
[libvirt]
report_numa = nested
cpu_power_management = true
"""


def test_dedicated_cpus_that_sleep_are_counted_on_their_own_cells(make, binding, tree, tmp_path):
    """Who powers CPUs off while no guest has them: libvirt lists none of those in a cell."""
    for number in range(4):
        (tmp_path / f"sys/devices/system/cpu/cpu{number}/node{number // 2}").mkdir(parents=True)
    binding.answers["getCapabilities"] = capabilities(cell(0, [0]), cell(1, [2]))
    binding.answers["getCPUMap"] = (4, [True, False, True, False], 2)
    driver = make(SLEEPING)
    update(driver, tree)
    assert totals(tree, f"{NODE}_numa0")["PCPU"] == totals(tree, f"{NODE}_numa1")["PCPU"] == 2
    assert "NUMA" not in driver.degraded("host1")


def test_hyperthreading_is_not_known_while_the_threads_of_cores_sleep(
    make, binding, tree, tmp_path
):
    awake, asleep = (4, [True] * 4, 4), (4, [True, True, False, False], 2)
    cores = capabilities(cell(0, [0, 2], siblings="0,2"), cell(1, [1, 3], siblings="1,3"))
    binding.answers |= {"getCapabilities": cores, "getCPUMap": awake}
    driver = make("[compute]\ncpu_dedicated_set = 2-3\n[libvirt]\ncpu_power_management = true\n")
    assert update(driver, tree).has_traits(NODE, ["HW_CPU_HYPERTHREADING"])
    cores = capabilities(cell(0, [0], siblings="0"), cell(1, [1], siblings="1"))
    binding.answers |= {"getCapabilities": cores, "getCPUMap": asleep}
    assert update(driver, tree).has_traits(NODE, ["HW_CPU_HYPERTHREADING"])
    assert not update(driver).has_traits(NODE, ["HW_CPU_HYPERTHREADING"])
    control = tmp_path / "sys/devices/system/cpu/smt/control"
    control.parent.mkdir(parents=True)
    control.write_text("forceoff\n")
    assert not update(driver, tree).has_traits(NODE, ["HW_CPU_HYPERTHREADING"])


@pytest.mark.parametrize("numa", ["off", "nested"])
def test_hugepages_that_are_not_allocated_yet_after_a_boot_stay(
    make, binding, tree, fake_host, numa
):
    now = [UP_FOR]
    fake_host.clock = lambda: now[0]
    driver = make(f"[libvirt]\nreport_hugepages = pages\nreport_numa = {numa}\n")
    binding.answers["getCapabilities"] = capabilities(cell(0, [0, 1], 8192, {2048: 1024}))
    before = update(driver, tree).freeze()
    binding.answers["getCapabilities"] = capabilities(cell(0, [0, 1], 8192, {2048: 0}))
    now[0] += LATE - 1
    assert update(driver, tree).freeze() == before
    now[0] += 1
    name = NODE if numa == "off" else f"{NODE}_numa0"
    assert totals(update(driver, tree), name).keys() & {"MEMORY_MB", "CUSTOM_HUGEPAGES_2M"} == {
        "MEMORY_MB"
    }


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("node:0,size:2048,count:8", None),
        ("node:0,size:2048,count:9", "NUMA cell 0 has 8 such pages"),
        ("node:0,size:1GB,count:1", "NUMA cell 0 has 0 such pages"),
        ("node:3,size:2048,count:1", "NUMA cell 3 does not exist"),
    ],
)
def test_reserved_pages_that_the_host_lacks_are_named(make, binding, tree, value, words):
    binding.answers["getCapabilities"] = capabilities(cell(0, [0, 1], 8192, {2048: 8}))
    driver = make(f"[DEFAULT]\nreserved_huge_pages = {value}\n")
    update(driver, tree)
    note = driver.degraded("host1").get("[DEFAULT] reserved_huge_pages")
    assert note == (words and f"{value.replace('1GB', '1048576')}: {words}")


@pytest.mark.parametrize("numa", ["off", "nested"])
def test_hugepages_of_one_cell_are_reported_at_once_after_a_boot(
    make, binding, tree, fake_host, numa
):
    def boot(count):
        pages = [cell(0, [0], 4096, {2048: count}), cell(1, [1], 4096, {2048: 0})]
        binding.answers["getCapabilities"] = capabilities(*pages)
        return update(make(text), ProviderTree(tree.freeze()))

    text = f"[libvirt]\nreport_hugepages = pages\nreport_numa = {numa}\n"
    fake_host.clock = lambda: UP_FOR
    tree = boot(10)
    fake_host.clock = lambda: 60.0
    assert boot(10).freeze() == tree.freeze()
    fake_host.clock = lambda: UP_FOR
    expected = boot(50)
    fake_host.clock = lambda: 60.0
    assert boot(50).freeze() == expected.freeze() != tree.freeze()
    name = NODE if numa == "off" else f"{NODE}_numa0"
    assert totals(boot(9), name)["CUSTOM_HUGEPAGES_2M"] == 10


def test_a_disk_that_is_not_mounted_yet_is_not_the_disk_below_it(make, tree, tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/fstab").write_text("# disks\n/dev/sdb /srv/vm\\040disks ext4 defaults 0 2\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    mounts = tmp_path / "proc/self/mountinfo"
    mounts.write_text("1 0 8:1 / / rw - ext4 /dev/sda rw\n")
    driver = make("[DEFAULT]\ninstances_path = /srv/vm disks/instances\n")
    assert "DISK_GB" not in update(driver, tree).data(NODE).inventory
    assert (
        "/srv/vm disks, which /etc/fstab names, is not mounted" in driver.degraded("host1")["disk"]
    )
    mounts.write_text("2 1 8:17 / /srv/vm\\040disks rw - ext4 /dev/sdb rw\n")
    assert "DISK_GB" in update(driver, tree).data(NODE).inventory


def test_namespaces_that_come_late_after_a_boot_stay(make, tree, fake_host, tmp_path):
    text, now = "[libvirt]\npmem_namespaces = BIG:ns0|ns1\n", [60.0]
    fake_host.clock = lambda: now[0]
    tree.update_inventory(NODE, {"CUSTOM_PMEM_NAMESPACE_BIG": {"total": 2}})
    driver = make(text)
    for number, words in ((0, "libnvdimm is not loaded"), (1, "no devdax namespace ns1 yet")):
        assert totals(update(driver, tree))["CUSTOM_PMEM_NAMESPACE_BIG"] == 2
        assert words in driver.degraded("host1")["persistent memory"]
        device = tmp_path / f"sys/bus/nd/devices/namespace{number}.0"
        device.mkdir(parents=True)
        (device / "mode").write_text("dax\n")
        (device / "alt_name").write_text(f"ns{number}\n")


@pytest.mark.parametrize("numa", ["off", "nested"])
def test_memory_in_files_is_the_memory_of_the_host(make, binding, tree, numa):
    pages = {2048: 512}
    binding.answers["getCapabilities"] = capabilities(
        cell(0, [0], pages=pages), cell(1, [1], pages=pages)
    )
    text = f"[libvirt]\nfile_backed_memory = 100000\nreport_numa = {numa}\n"
    driver = make(f"[DEFAULT]\nreserved_host_memory_mb = 0\n{text}")
    update(driver, tree)
    names = [tree.data(uuid).name for uuid in tree.get_provider_uuids(NODE)]
    assert sum(totals(tree, name).get("MEMORY_MB", 0) for name in names) == 100000
    assert driver.capabilities["supports_mem_backing_file"] is True
    assert make().capabilities["supports_mem_backing_file"] is False


def test_a_hypervisor_without_versions_leaves_what_hangs_on_them(make, binding, tree):
    binding.refused["getVersion"] = FakeLibvirtError("no", binding.VIR_ERR_NO_SUPPORT)
    tree.add_traits(NODE, "COMPUTE_NET_VIF_MODEL_IGB")
    driver = make()
    assert "COMPUTE_NET_VIF_MODEL_IGB" in update(driver, tree).data(NODE).traits
    assert "versions" not in driver.degraded("host1")
