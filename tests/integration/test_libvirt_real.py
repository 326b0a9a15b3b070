"""The libvirt driver against a real libvirtd; the numbers are held against the kernel's."""

import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivers.api import ProviderTree
from drivers.libvirt import documents
from drivers.libvirt.connection.host import Host, load_binding
from drivers.libvirt.connection.session import Deadlines
from drivers.libvirt.devices.devices import list_all_guests
from drivers.libvirt.devices.pci import NO_GROUP
from drivers.libvirt.driver import LibvirtDriver
from drivers.libvirt.facts.report import capabilities
from tests.hosts import context
from tests.servers.libvirtd import SCRIPT, PrivateLibvirtd
from tests.servers.process import completed

pytestmark = pytest.mark.needs("libvirtd")


@pytest.fixture
def driver(libvirtd: PrivateLibvirtd, tmp_path: Path) -> Iterator[LibvirtDriver]:
    driver = LibvirtDriver(context(tmp_path, libvirtd.group))
    driver.init_host("host")
    yield driver
    driver.cleanup_host("host")


def report(driver: LibvirtDriver, tree: ProviderTree | None = None) -> ProviderTree:
    (node,) = driver.get_available_nodes()
    if tree is None:
        tree = ProviderTree()
        tree.new_root(node, str(uuid.uuid4()))
    driver.update_provider_tree(tree, node)
    return tree


def meminfo_mb() -> int:
    """All memory but what is set aside as hugepages."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    found = {words[0]: int(words[1]) for words in lines}
    return (found["MemTotal:"] - found.get("Hugetlb:", 0)) // 1024


def online_cpus() -> int:
    return os.sysconf("SC_NPROCESSORS_ONLN")


def test_the_node_has_the_hosts_name(driver):
    assert driver.get_available_nodes() == [socket.getfqdn()] or driver.get_available_nodes() == [
        socket.gethostname()
    ]


def test_inventory_is_what_the_kernel_says(driver, tmp_path):
    tree = report(driver)
    inventory = tree.data(*driver.get_available_nodes()).inventory
    assert inventory["VCPU"]["total"] == online_cpus()
    assert inventory["MEMORY_MB"]["total"] == pytest.approx(meminfo_mb(), rel=0.02)
    disk = os.statvfs(tmp_path)  # where its state_path is, and instances_path below
    expected = disk.f_blocks * disk.f_frsize / 1024**3
    assert inventory["DISK_GB"]["total"] == pytest.approx(expected, abs=1)
    assert set(inventory) == {"VCPU", "MEMORY_MB", "DISK_GB"}


def test_cells_together_have_what_the_kernel_says(libvirtd, tmp_path):
    text = f"{libvirtd.group}report_numa = nested\n"
    driver = LibvirtDriver(context(tmp_path, text))
    tree = report(driver)
    node = driver.get_available_nodes()[0]
    driver.cleanup_host("host")
    assert set(tree.data(node).inventory) == {"DISK_GB"}
    cells = [tree.data(uuid) for uuid in tree.get_provider_uuids(node)[1:]]
    nodes = list(Path("/sys/devices/system/node").glob("node[0-9]*"))
    assert len(cells) == max(len(nodes), 1)
    assert all(cell.traits == {"HW_NUMA_ROOT"} for cell in cells)
    parts = [{name: r["total"] for name, r in cell.inventory.items()} for cell in cells]
    assert sum(part["VCPU"] for part in parts) == online_cpus()
    assert sum(part["MEMORY_MB"] for part in parts) == pytest.approx(meminfo_mb(), rel=0.02)


PCI = Path("/sys/bus/pci/devices")


def endpoints() -> set[str]:
    """Addresses of devices that have an IOMMU group, and of the PFs of VFs."""
    grouped = [device for device in PCI.glob("*") if (device / "iommu_group").exists()]
    kinds = {device: (device / "class").read_text()[:6] for device in grouped}
    mine = [device for device, kind in kinds.items() if kind not in {"0x0600", "0x0604"}]
    owners = [device / "physfn" if (device / "physfn").exists() else device for device in mine]
    return {owner.resolve().name.upper() for owner in owners}


@pytest.mark.skipif(not list(PCI.glob("*")), reason="this machine has no PCI bus")
def test_pci_devices_are_the_kernels(libvirtd, tmp_path):
    options = "[pci]\nreport_in_placement = true\ndevice_spec = {}\n"
    text = f"{libvirtd.group}{options}"
    driver = LibvirtDriver(context(tmp_path, text))
    tree = report(driver)
    node = driver.get_available_nodes()[0]
    assert (NO_GROUP in driver.degraded(node)) == (not list(PCI.glob("*/iommu_group")))
    driver.cleanup_host("host")
    names = {tree.data(uuid).name for uuid in tree.get_provider_uuids(node)}
    owners = {name.removeprefix(f"{node}_") for name in names if ":" in name}
    assert owners == endpoints()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="flags by their x86 names")
def test_cpu_traits_are_the_kernels_flags(driver):
    cpuinfo = Path("/proc/cpuinfo").read_text()
    flags = set(next(x for x in cpuinfo.splitlines() if x.startswith("flags")).split())
    traits = report(driver).data(*driver.get_available_nodes()).traits
    by_flag = {
        "aes": "AESNI",
        "avx": "AVX",
        "avx2": "AVX2",
        "avx512f": "AVX512F",
        "pclmulqdq": "CLMUL",
        "pni": "SSE3",
        "sse2": "SSE2",
        "sse4_2": "SSE42",
    }
    for flag, name in by_flag.items():
        assert (f"HW_CPU_X86_{name}" in traits) == (flag in flags), flag
    assert {"HW_ARCH_X86_64", "COMPUTE_ARCH_X86_64"} <= traits
    threads = Path("/sys/devices/system/cpu/smt/active")
    if threads.exists():
        assert ("HW_CPU_HYPERTHREADING" in traits) == (threads.read_text().strip() == "1")


def test_nothing_is_missing_and_the_second_period_changes_nothing(driver):
    snapshot = report(driver).freeze()
    assert report(driver, ProviderTree(snapshot)).freeze() is snapshot
    assert driver.degraded("host1") == {}


def test_a_custom_model_has_its_own_features(libvirtd, tmp_path):
    text = f"""
{libvirtd.group}
cpu_mode = custom
cpu_models = haswell-NOTSX
cpu_model_extra_flags = -aes
"""
    driver = LibvirtDriver(context(tmp_path, text))
    traits = report(driver).data(*driver.get_available_nodes()).traits
    driver.cleanup_host("host")
    assert {"HW_CPU_X86_AVX2", "HW_CPU_X86_FMA3"} <= traits
    assert not {"HW_CPU_X86_AVX512F", "HW_CPU_X86_AESNI"} & traits


def test_guests_of_a_real_libvirt_are_read():
    host = Host("test:///default", load_binding(), Deadlines(connect=30, call=30))
    (found,) = list_all_guests(host).documents.values()
    host.close()
    assert documents.text_of(found, "uuid") and found.find("vcpu") is not None


def test_the_daemon_and_what_it_started_are_gone_after_stop():
    directory = tempfile.mkdtemp(prefix="libvirtd-")
    daemon = PrivateLibvirtd(directory)
    daemon.start()
    host = Host(daemon.uri, load_binding(), Deadlines())
    capabilities(host)  # QEMU is probed for it
    pid = daemon.pid
    host.close()
    daemon.stop()
    shutil.rmtree(directory)
    assert not Path(f"/proc/{pid}").exists()
    commands = (p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists())
    assert not [line for line in commands if directory.encode() in line]


def test_a_folder_whose_socket_path_is_too_long_is_refused(tmp_path):
    deep = tmp_path / ("x" * 100)
    found = completed(str(SCRIPT), str(deep))
    assert found.returncode == 1
    assert "the kernel allows 107" in found.stderr
