"""PCI devices, vGPUs and encryption of the libvirt driver on a real Placement, with guests."""

from __future__ import annotations

import shutil

import pytest

from agent.reporting.reports import Severity
from tests.agents import NODE, ROOT, child_uuid
from tests.integration.libvirt_hosts import DocumentedHost, guest, holds, providers, totals
from tests.unit.libvirt.devices import GPU, mdev, pci, sev
from tests.unit.libvirt.fake_binding import FakeDevice
from tests.unit.libvirt.hosts import two_cells

PCI = '[pci]\nreport_in_placement = true\ndevice_spec = {"vendor_id": "144d"%s}\n'
DISKS = [f"0000:0{n}:00.0" for n in range(4, 7)]
NVME = "CUSTOM_PCI_144D_A80A"
GPUS = ["0000:84:00.0", "0000:85:00.0"]
MDEV = "[devices]\nenabled_mdev_types = nvidia-35\n"


def on(address):
    return f"{NODE}_{address}"


def on_gpu(number):
    return f"{NODE}_pci_0000_8{4 + number}_00_0"


@pytest.fixture
def host(placement, tmp_path):
    host = DocumentedHost(placement, tmp_path, two_cells(), mib=8192)
    plug(host, *(pci(one, cell=1) for one in DISKS))
    yield host
    host.close()


def plug(host, *documents):
    host.binding.answers["listAllDevices"] = [FakeDevice(one) for one in documents]
    for connection in host.binding.connections:
        connection.happen("nodeDevice", 0, 0, 0)


def record(host, name, resource_class=NVME):
    return host.placement.stranger.inventory(providers(host.placement)[name]["uuid"])[
        resource_class
    ]


def test_a_device_in_use_that_is_unplugged_is_held_and_everything_else_goes_on(host):
    agent = host.reported(PCI % "")
    who = guest(host, **{on(DISKS[0]): {NVME: 1}})
    plug(host, *map(pci, DISKS[2:]))
    host.binding.answers["getMemoryStats"] = {"total": 4096 * 1024}
    report = agent.period()
    assert report.ok and who in str(report.texts(Severity.INFO))
    assert set(providers(host.placement)) == {NODE, on(DISKS[0]), on(DISKS[2])}
    assert record(host, on(DISKS[0]))["reserved"] == 1, "nobody else gets it"
    assert record(host, NODE, "MEMORY_MB")["total"] == 4096
    plug(host, *map(pci, DISKS))
    assert agent.period().ok
    assert record(host, on(DISKS[0]))["reserved"] == 0, "it is back"
    plug(host, *map(pci, DISKS[1:]))
    agent.period()
    host.placement.stranger.delete_allocation(who)
    assert agent.period().ok
    assert set(providers(host.placement)) == {NODE, *map(on, DISKS[1:])}


def test_reporting_can_be_switched_off_while_a_device_is_in_use(host):
    host.reported(PCI % "")
    who = guest(host, **{on(DISKS[0]): {NVME: 1}})
    agent = host.start("")
    agent.period()
    assert set(providers(host.placement)) == {NODE, on(DISKS[0])}
    assert record(host, on(DISKS[0]))["reserved"] == 1
    host.placement.stranger.delete_allocation(who)
    assert agent.period().ok
    assert set(providers(host.placement)) == {NODE}


def test_a_device_in_use_keeps_its_class_until_it_is_free(host):
    host.reported(PCI % "")
    who = guest(host, **{on(DISKS[0]): {NVME: 1}})
    agent = host.start(PCI % ', "resource_class": "fast"')
    agent.period()
    agent.period()
    found = providers(host.placement)
    assert found[on(DISKS[0])]["inventory"] == {NVME: 1}, "not offered as something else beside"
    assert record(host, on(DISKS[0]))["reserved"] == 1
    assert found[on(DISKS[1])]["inventory"] == {"CUSTOM_FAST": 1}
    host.placement.stranger.delete_allocation(who)
    agent.period()
    agent.period()
    assert providers(host.placement)[on(DISKS[0])]["inventory"] == {"CUSTOM_FAST": 1}


def test_grouping_moves_allocations_together_and_apart_again(host):
    host.reported(PCI % "")
    guests = [guest(host, **{on(one): {NVME: 1}, NODE: {"VCPU": 1}}) for one in DISKS[:2]]
    group = f"{NODE}_all_{NVME}"
    mark = host.placement.mark()
    host.reported(PCI % "" + "group_devices = true\n")
    assert [r.path for r in host.placement.since(mark)].count("/reshaper") == 1
    assert set(providers(host.placement)) == {NODE, group}
    assert record(host, group)["total"] == 3
    for who in guests:
        assert holds(host.placement, who) == {NODE: {"VCPU": 1}, group: {NVME: 1}}
    host.reported(PCI % "" + "group_devices = true\n" + "[libvirt]\nreport_numa = nested\n")
    assert providers(host.placement)[f"{group}_numa1"]["parent"] == f"{NODE}_numa1"
    host.reported(PCI % "")
    assert set(providers(host.placement)) == {NODE, *map(on, DISKS)}
    held = [set(holds(host.placement, who)) - {NODE} for who in guests]
    assert all(len(one) == 1 for one in held) and held[0] != held[1]


def test_what_another_agent_reported_before_is_taken_over_with_its_guests(host):
    host.reported("")
    stranger = host.placement.stranger
    theirs = stranger.create_child(ROOT, on(DISKS[0]), child_uuid("theirs"))
    stranger.set_inventory(theirs, {NVME: {"total": 1, "reserved": 1}})
    shutil.rmtree(host.directory / "agent")  # with a ledger it would be known to be another's
    agent = host.reported(PCI % "")
    assert providers(host.placement)[on(DISKS[0])]["uuid"] == theirs
    assert record(host, on(DISKS[0]))["reserved"] == 1, "as the operator had it"
    assert agent.period().done == ()


# -- what earlier releases had on the root


def old_root(host):
    """As nova-compute reported it."""
    stranger = host.placement.stranger
    stranger.create_provider(NODE, ROOT)
    stranger.add_trait(ROOT, "COMPUTE_NODE")
    sizes = {"VCPU": {"total": 8, "allocation_ratio": 4.0}, "MEMORY_MB": {"total": 4096}}
    more = {"VGPU": {"total": 8}, "MEM_ENCRYPTION_CONTEXT": {"total": 15, "max_unit": 1}}
    stranger.set_inventory(ROOT, {**sizes, **more})
    own = {"VCPU": 1, "MEMORY_MB": 64, "VGPU": 3, "MEM_ENCRYPTION_CONTEXT": 1}
    return [stranger.put_allocation({ROOT: own}) for _ in range(2)], own


@pytest.mark.parametrize("numa", ["off", "nested"])
def test_vgpus_and_contexts_leave_the_root_in_one_request(host, numa):
    guests, own = old_root(host)
    made = [mdev(n, "nvidia-35", GPUS[n // 3]) for n in range(6)]
    plug(host, *(pci(at, GPU, cell=n, types={"nvidia-35": 1}) for n, at in enumerate(GPUS)), *made)
    host.binding.answers["getDomainCapabilities"] = sev(15, 84)
    mark = host.placement.mark()
    host.reported(f"{MDEV}[libvirt]\nreport_numa = {numa}\n")
    assert [r.path for r in host.placement.since(mark)].count("/reshaper") == 1
    found = providers(host.placement)
    assert not {"VGPU", "MEM_ENCRYPTION_CONTEXT"} & found[NODE]["inventory"].keys()
    assert [found[on_gpu(n)]["inventory"] for n in range(2)] == [{"VGPU": 4}] * 2
    assert [totals(host.placement, who) for who in guests] == [own, own]
    used = [name for who in guests for name in holds(host.placement, who) if "_pci_" in name]
    assert sorted(used) == [on_gpu(0), on_gpu(1)]
    assert all(f"{NODE}_amd_sev" in holds(host.placement, who) for who in guests)


def test_a_type_that_is_switched_off_goes_when_it_is_free(host):
    plug(host, pci(GPUS[0], GPU, types={"nvidia-35": 4}))
    host.reported(MDEV)
    who = guest(host, **{on_gpu(0): {"VGPU": 2}})
    agent = host.start("")
    agent.period()
    assert record(host, on_gpu(0), "VGPU")["reserved"] == 4
    host.placement.stranger.delete_allocation(who)
    assert agent.period().ok
    assert set(providers(host.placement)) == {NODE}


def test_contexts_stay_on_the_root_while_libvirt_cannot_be_asked(host):
    guests, own = old_root(host)
    host.binding.refused["getDomainCapabilities"] = host.binding.libvirtError("not now")
    plug(host)
    agent = host.start("")
    agent.period()
    assert "MEM_ENCRYPTION_CONTEXT" in providers(host.placement)[NODE]["inventory"]
    del host.binding.refused["getDomainCapabilities"]
    host.binding.answers["getDomainCapabilities"] = sev()
    again = host.start("").period()
    assert again.ok, again.texts()
    assert [totals(host.placement, who) for who in guests] == [own, own]
    assert "MEM_ENCRYPTION_CONTEXT" not in providers(host.placement)[NODE]["inventory"]
