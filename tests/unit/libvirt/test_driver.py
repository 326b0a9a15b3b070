from __future__ import annotations

import uuid
from importlib.metadata import EntryPoint

import pytest
from oslo_config import cfg
from stevedore.extension import Extension

from drivers.abilities import Degradable, Lifecycle
from drivers.api import DriverContext, DriverNotReady, ProviderTree, ReshapeNeeded
from drivers.errors import DriverLoadFailed
from drivers.libvirt.driver import LibvirtDriver
from drivers.loader import GROUP, driver_from
from tests.unit.libvirt.fake_binding import FakeDomain, FakeLibvirt, FakeLibvirtError
from tests.unit.libvirt.hosts import NODE, capabilities, cell, new_tree, totals, update


@pytest.fixture
def tree():
    return new_tree()


def test_the_loader_gives_it_all_the_options_that_it_reads(monkeypatch, tmp_path):
    monkeypatch.setattr("drivers.libvirt.driver.load_binding", FakeLibvirt)
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    point = EntryPoint("libvirt", "drivers.libvirt.driver:LibvirtDriver", GROUP)
    extension = Extension("libvirt", point, LibvirtDriver, None)
    loaded = driver_from(extension, DriverContext("host", tmp_path, conf))
    assert {Lifecycle, Degradable} <= loaded.abilities


def test_an_option_out_of_bounds_names_its_file_and_nothing_of_ours(monkeypatch, tmp_path):
    monkeypatch.setattr("drivers.libvirt.driver.load_binding", FakeLibvirt)
    file = tmp_path / "agent.conf"
    file.write_text("[DEFAULT]\ncpu_allocation_ratio = -1\n")
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[str(file)], default_config_dirs=[])
    point = EntryPoint("libvirt", "drivers.libvirt.driver:LibvirtDriver", GROUP)
    with pytest.raises(DriverLoadFailed) as told:
        driver_from(
            Extension("libvirt", point, LibvirtDriver, None), DriverContext("h", tmp_path, conf)
        )
    assert f"option cpu_allocation_ratio in {file} is not valid" in str(told.value)
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


def test_strangers_keep_traits_aggregates_and_providers(make, tree):
    aggregate = str(uuid.uuid4())
    tree.add_traits(NODE, "CUSTOM_GOLD", "HW_GPU_API_VULKAN", "HW_CPU_X86_AMD_SEV")
    tree.add_aggregates(NODE, aggregate)
    tree.new_child("foreign", NODE)
    tree.update_inventory("foreign", {"CUSTOM_X": {"total": 1}})
    update(make(), tree)
    data = tree.data(NODE)
    assert {"CUSTOM_GOLD", "HW_GPU_API_VULKAN", "HW_CPU_X86_AMD_SEV"} <= data.traits
    assert data.aggregates == {aggregate}
    assert tree.has_inventory("foreign")


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


def test_a_ratio_in_placement_is_kept(make, tree):
    tree.update_inventory(NODE, {"VCPU": {"total": 1, "allocation_ratio": 9.5}})
    assert update(make(), tree).data(NODE).inventory["VCPU"]["allocation_ratio"] == 9.5


def test_classes_that_the_host_has_no_longer_go(make, tree):
    tree.update_inventory(NODE, {"PCPU": {"total": 1}, "CUSTOM_OLD": {"total": 1}})
    later = update(make(), ProviderTree(tree.freeze()))
    assert set(later.data(NODE).inventory) == {"VCPU", "MEMORY_MB", "DISK_GB"}


def test_dedicated_cpus(make, tree):
    found = update(make("[compute]\ncpu_dedicated_set = 1\n"), tree).data(NODE).inventory
    assert "VCPU" not in found and found["PCPU"]["total"] == 1


def test_a_cpu_set_beyond_the_host_is_not_reported_and_named(make, tree):
    before = tree.freeze()
    with pytest.raises(DriverNotReady, match=r"\[compute\] cpu_shared_set names CPU 2-7"):
        update(make("[compute]\ncpu_shared_set = 0-7\n"), tree)
    assert tree.freeze() == before


def test_disks_that_are_not_files_leave_what_placement_has(make, tree):
    driver = make("[libvirt]\nimages_type = zfs\nimages_zfs_pool = tank\n")
    assert "DISK_GB" not in update(driver, tree).data(NODE).inventory
    assert "zfs" in driver.degraded("host1")["DISK_GB"]
    tree.update_inventory(NODE, {"DISK_GB": {"total": 77, "reserved": 7}})
    assert update(driver, tree).data(NODE).inventory["DISK_GB"]["total"] == 77


def test_more_reserved_than_there_is_reserves_all_and_says_so(make, tree):
    driver = make("[DEFAULT]\nreserved_host_memory_mb = 10000\n")
    record = update(driver, tree).data(NODE).inventory["MEMORY_MB"]
    assert record["reserved"] == record["total"] == 8192
    assert "10000" in driver.degraded("host1")["MEMORY_MB"]


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
    driver.update_provider_tree(tree, NODE, {})
    moved = tree.freeze()
    binding.refused["getMemoryStats"] = FakeLibvirtError("out of luck")
    assert update(make(nested), tree).freeze() == moved, "cells keep theirs as well"


@pytest.mark.parametrize("document", ["", "<capabilities/>", "rubbish <"])
def test_a_capabilities_document_that_says_nothing_stops_nothing(make, binding, tree, document):
    binding.answers["getCapabilities"] = document
    data = update(make(), tree).data(NODE)
    told = {"MEMORY_MB"} if document == "<capabilities/>" else set()
    assert set(data.inventory) == {"VCPU", "DISK_GB"} | told, "it may have hugepages"
    assert data.traits == set()


def cells(*ids: str) -> str:
    listed = "".join(
        f"<cell id='{n}'><memory unit='KiB'>4194304</memory><cpus><cpu id='{n}'/></cpus></cell>"
        for n in ids
    )
    return f"<capabilities><host><topology><cells>{listed}</cells></topology></host></capabilities>"


def test_a_source_that_fails_later_keeps_its_last_answer_and_is_named(make, binding, tree):
    driver = make()
    snapshot = update(driver, tree).freeze()
    for call in ("getMemoryStats", "getCPUMap", "getCapabilities"):
        binding.refused[call] = FakeLibvirtError(f"no {call} now")
    assert update(driver, ProviderTree(snapshot)).freeze() is snapshot
    said = driver.degraded("host1")
    assert set(said) == {"capabilities", "memory", "the CPU map"}
    assert "no getMemoryStats now" in said["memory"]
    binding.refused.clear()
    update(driver, ProviderTree(snapshot))
    assert driver.degraded("host1") == {}


def test_disk_that_can_not_be_read_stays_as_placement_has_it(make, tree, monkeypatch):
    def fails(path):
        raise DriverNotReady("stale file handle")

    monkeypatch.setattr("drivers.libvirt.facts.disk.file_system_size", fails)
    tree.update_inventory(NODE, {"DISK_GB": {"total": 77}})
    driver = make()
    assert update(driver, tree).data(NODE).inventory["DISK_GB"]["total"] == 77
    assert "stale file handle" in driver.degraded("host1")["disk"]


def test_hugepages_that_come_while_it_runs_are_noticed(make, binding, tree):
    driver = make("[libvirt]\nreport_hugepages = pages\n")
    update(driver, tree)
    text = binding.answers["getCapabilities"]
    wanted = '<pages unit="KiB" size="2048">0<'
    assert wanted in text
    binding.answers["getCapabilities"] = text.replace(wanted, wanted.replace("0<", "512<"))
    inventory = update(driver, ProviderTree(tree.freeze())).data(NODE).inventory
    assert inventory["CUSTOM_HUGEPAGES_2M"]["total"] == 512
    assert inventory["MEMORY_MB"]["total"] == 8192 - 1024


def test_switching_numa_wants_a_reshape_and_then_the_guests_move(make, binding, tree):
    binding.answers["getCapabilities"] = cells("0", "1")
    update(make(), tree)
    root, later = tree.data(NODE).uuid, ProviderTree(tree.freeze())
    driver = make("[libvirt]\nreport_numa = nested\n")
    with pytest.raises(ReshapeNeeded):
        update(driver, later)
    guests = {"guest": {"allocations": {root: {"resources": {"VCPU": 1, "DISK_GB": 1}}}}}
    driver.update_provider_tree(later, NODE, guests)
    cell = later.data(f"{NODE}_numa0").uuid
    assert guests["guest"]["allocations"] == {
        root: {"resources": {"DISK_GB": 1}},
        cell: {"resources": {"VCPU": 1}},
    }


def test_a_guest_that_is_bound_to_a_cell_moves_there(make, binding, tree):
    binding.answers["getCapabilities"] = cells("0", "1")
    update(make(), tree)
    root, later = tree.data(NODE).uuid, ProviderTree(tree.freeze())
    document = "<domain><uuid>guest</uuid><vcpu cpuset='1'>1</vcpu></domain>"
    binding.answers["listAllDomains"] = [FakeDomain(document)]
    guests = {"guest": {"allocations": {root: {"resources": {"VCPU": 1}}}}}
    driver = make("[libvirt]\nreport_numa = nested\n")
    driver.update_provider_tree(later, *driver.get_available_nodes(), guests)
    assert list(guests["guest"]["allocations"]) == [later.data(f"{NODE}_numa1").uuid]


def test_guests_that_libvirt_does_not_tell_of_move_all_the_same(make, binding, tree, caplog):
    binding.answers["getCapabilities"] = cells("0", "1")
    update(make(), tree)
    root, later = tree.data(NODE).uuid, ProviderTree(tree.freeze())
    binding.refused["listAllDomains"] = FakeLibvirtError("not now")
    guests = {"guest": {"allocations": {root: {"resources": {"VCPU": 1}}}}}
    driver = make("[libvirt]\nreport_numa = nested\n")
    driver.update_provider_tree(later, *driver.get_available_nodes(), guests)
    assert list(guests["guest"]["allocations"]) == [later.data(f"{NODE}_numa0").uuid]
    assert "not now" in caplog.text
    assert driver.degraded("host1") == {}


def test_persistent_memory_is_reported_by_label_and_what_is_missing_named(make, tree, tmp_path):
    device = tmp_path / "sys/bus/nd/devices/namespace0.0"
    device.mkdir(parents=True)
    (device / "alt_name").write_text("ns0\n")
    (device / "mode").write_text("dax\n")
    driver = make("[libvirt]\npmem_namespaces = BIG:ns0|ns1\n")
    inventory = update(driver, tree).data(NODE).inventory
    assert inventory["CUSTOM_PMEM_NAMESPACE_BIG"]["total"] == 1
    assert "no devdax namespace ns1" in driver.degraded("host1")["[libvirt] pmem_namespaces"]


def test_a_core_that_dedicated_and_shared_cpus_share_is_warned_of_once(make, binding, tree, caplog):
    text = binding.answers["getCapabilities"]
    binding.answers["getCapabilities"] = text.replace('siblings="0"', 'siblings="0-1"').replace(
        'siblings="1"', 'siblings="0-1"'
    )
    driver = make("[compute]\ncpu_shared_set = 0\ncpu_dedicated_set = 1\n")
    update(driver, tree)
    update(driver, tree)
    assert caplog.text.count("CPU 1 shares its core") == 1


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


def test_one_whose_cell_nobody_knows_is_named(make, binding, tree):
    binding.answers["getCapabilities"] = capabilities(cell(0, [0, 1, 2]))
    binding.answers["getCPUMap"] = (4, [True, True, True, False], 3)
    driver = make(SLEEPING)
    update(driver, tree)
    assert totals(tree, f"{NODE}_numa0")["PCPU"] == 3
    assert driver.degraded("host1")["NUMA"] == "CPU 3 is in no NUMA cell: not reported"


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
