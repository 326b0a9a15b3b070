from pathlib import Path
from typing import Any

import pytest

from drivers.errors import DriverLoadFailed
from drivers.inventory import DISK_GB, MEMORY_MB, VCPU, Ratio
from drivers.libvirt.connection.host import libvirt_uri
from drivers.libvirt.connection.session import Deadlines
from drivers.libvirt.driver import LibvirtDriver
from drivers.libvirt.facts.cpu_features import CpuFeatures
from drivers.libvirt.facts.cpus_and_memory import CpusAndMemory
from drivers.libvirt.facts.disk import Disk, ImageBackend
from drivers.libvirt.facts.guest_models import GuestModels
from drivers.libvirt.facts.numa import MemoryPolicy, ReservedPages
from drivers.libvirt.facts.pmem import Pmem
from drivers.libvirt.facts.report import facts_from_context
from tests.hosts import context


def facts_in(tmp_path: Path, text: str = "") -> dict[type, Any]:
    """As these options have them."""
    return {type(one): one for one in facts_from_context(context(tmp_path, text)).values()}


def test_defaults_are_novas(tmp_path):
    found = facts_in(tmp_path)
    assert libvirt_uri(context(tmp_path).conf.libvirt) == "qemu:///system"
    assert found[Disk].instances_path == tmp_path / "state/instances"
    assert (found[CpuFeatures].virt_type, found[CpuFeatures].mode) == ("kvm", None)
    policy = found[CpusAndMemory].policy
    assert (policy.reserved_cpus, policy.reserved_memory_mb, policy.reserved_disk_mb) == (0, 512, 0)
    assert policy.ratios == {
        VCPU: Ratio(None, 4.0),
        MEMORY_MB: Ratio(None, 1.0),
        DISK_GB: Ratio(None, 1.0),
    }
    assert policy.shared_cpus is None and policy.dedicated_cpus is None


@pytest.mark.parametrize(
    ("virt_type", "uri"),
    [("qemu", "qemu:///system"), ("lxc", "lxc:///system"), ("test", "test:///default")],
)
def test_the_usual_uri_goes_by_virt_type_unless_one_is_given(tmp_path, virt_type, uri):
    lines = f"[libvirt]\nvirt_type = {virt_type}\n"
    assert libvirt_uri(context(tmp_path, lines).conf.libvirt) == uri
    given = context(tmp_path, lines + "connection_uri = qemu+tcp://x/system\n")
    assert libvirt_uri(given.conf.libvirt) == "qemu+tcp://x/system"


def test_every_option_arrives(tmp_path):
    made = context(
        tmp_path,
        """
[DEFAULT]
reserved_host_memory_mb = 1
reserved_host_disk_mb = 3
cpu_allocation_ratio = 16
initial_ram_allocation_ratio = 1.5
instances_path = /srv/guests
reserved_huge_pages = node:0,size:2048,count:64
reserved_huge_pages = node:1,size:1GB,count:1
[compute]
cpu_shared_set = 0-3,^1
cpu_dedicated_set = 4-5
[libvirt]
cpu_mode = custom
cpu_models = Haswell, EPYC
cpu_model_extra_flags = +pcid, -vmx
images_type = rbd
images_rbd_pool = vms
disk_from_sharing_provider = true
swtpm_enabled = true
connection_timeout = 1.5
call_timeout = 2.5
keepalive_interval = 7
keepalive_count = 8
report_numa = nested
report_hugepages = pages
pmem_namespaces = 128G:ns0|ns1,SMALL:ns2
cpu_power_management = true
""",
    )
    facts = {type(one): one for one in facts_from_context(made).values()}
    host, disk, cpu = facts[CpusAndMemory], facts[Disk], facts[CpuFeatures]
    assert disk.policy == host.policy
    assert host.policy.reserved_memory_mb == 1
    assert host.policy.reserved(DISK_GB) == 1
    assert host.policy.ratios[VCPU] == Ratio(16.0, 4.0)
    assert host.policy.ratios[MEMORY_MB] == Ratio(None, 1.5)
    assert host.policy.shared_cpus == {0, 2, 3}
    assert host.policy.dedicated_cpus == {4, 5}
    assert disk.instances_path == Path("/srv/guests")
    assert disk.images == ImageBackend("rbd", "vms")
    assert disk.from_sharing_provider and facts[GuestModels].has_tpm
    assert cpu.models == ("Haswell", "EPYC")
    assert cpu.extra_flags == ("+pcid", "-vmx")
    assert (host.report_numa, host.cpu_power_management) == ("nested", True)
    reserved = (ReservedPages(0, 2048, 64), ReservedPages(1, 1048576, 1))
    assert host.memory == MemoryPolicy("pages", reserved)
    assert facts[Pmem].labels == {
        "CUSTOM_PMEM_NAMESPACE_128G": ("ns0", "ns1"),
        "CUSTOM_PMEM_NAMESPACE_SMALL": ("ns2",),
    }
    deadlines = Deadlines.from_conf(made.conf.libvirt)
    assert (deadlines.connect, deadlines.call) == (1.5, 2.5)
    assert (deadlines.keepalive_interval, deadlines.keepalive_count) == (7, 8)


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("[compute]\ncpu_shared_set = 1-x", r"\[compute\] cpu_shared_set"),
        ("[compute]\ncpu_dedicated_set = ^1", r"\[compute\] cpu_dedicated_set"),
        ("[compute]\ncpu_shared_set = 1\ncpu_dedicated_set = 1", "both name CPU 1"),
        ("reserved_host_cpus = 1\n[compute]\ncpu_shared_set = 1", "reserved_host_cpus"),
        ("initial_cpu_allocation_ratio = 0", "initial_cpu_allocation_ratio"),
        ("initial_ram_allocation_ratio = inf", "initial_ram_allocation_ratio .* finite"),
        ("cpu_allocation_ratio = nan", r"\[DEFAULT\] cpu_allocation_ratio .* finite"),
        ("disk_allocation_ratio = inf", r"\[DEFAULT\] disk_allocation_ratio .* finite"),
        ("instances_path = here", "instances_path"),
        ("reserved_huge_pages = node:0", r"reserved_huge_pages = 'node:0'"),
        ("[libvirt]\npmem_namespaces = x", r"\[libvirt\] pmem_namespaces"),
        ("[libvirt]\ncpu_mode = custom", "cpu_models"),
        ("[libvirt]\nimages_type = lvm", r"\[libvirt\] images_volume_group"),
        ("[libvirt]\nimages_type = zfs", r"\[libvirt\] images_zfs_pool"),
        ("[libvirt]\ncpu_models = EPYC", "cpu_mode"),
        (
            '[pci]\nreport_in_placement = true\ndevice_spec = {"vendor": "8086"}',
            r"\[pci\] device_spec = .*unknown key 'vendor'",
        ),
    ],
)
def test_a_driver_with_a_wrong_option_is_not_made_and_the_option_is_named(tmp_path, text, culprit):
    if not text.startswith("["):
        text = "[DEFAULT]\n" + text
    with pytest.raises(DriverLoadFailed, match=culprit):
        LibvirtDriver(context(tmp_path, text))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("virt_type = lxc\n", "virt_type = lxc"),
        ("report_hugepages = pages\n", "report_hugepages = pages"),
        ("[DEFAULT]\nram_allocation_ratio = 1.5\n", "ram_allocation_ratio above 1"),
        ("", "reserved_host_memory_mb above 0"),
    ],
)
def test_memory_in_files_can_not_be_mixed(tmp_path, more, words):
    text = f"[libvirt]\nfile_backed_memory = 1024\n{more}"
    with pytest.raises(ValueError, match=f"file_backed_memory can't be used with .*{words}"):
        facts_from_context(context(tmp_path, text))


def test_who_keeps_the_secrets_of_tpms_is_checked(tmp_path):
    found = facts_in(tmp_path, "[libvirt]\nsupported_tpm_secret_security = user\n")
    assert found[GuestModels].secrets == {"user"}
    with pytest.raises(ValueError, match="supported_tpm_secret_security"):
        facts_in(tmp_path, "[libvirt]\nsupported_tpm_secret_security = me\n")
