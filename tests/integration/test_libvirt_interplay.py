"""Parts of the libvirt driver at once, on a real Placement: cells, devices, guests, other drivers."""

import pytest

from agent.reporting.condition import Severity
from tests.agents import NODE, ROOT, Small
from tests.integration.libvirt_hosts import DocumentedHost, guest, holds, providers, totals
from tests.unit.libvirt.devices import GPU, mdev, pci, sev
from tests.unit.libvirt.fake_binding import FakeDevice
from tests.unit.libvirt.hosts import two_cells

DISKS = [f"0000:0{n}:00.0" for n in range(4, 7)]
NVME = "CUSTOM_PCI_144D_A80A"
GPUS = ["0000:84:00.0", "0000:85:00.0"]
DEVICES = """
[pci]
report_in_placement = true
device_spec = {"vendor_id": "144d"}
[devices]
enabled_mdev_types = nvidia-35
"""
NESTED = "[libvirt]\nreport_numa = nested\n"
CELLS = [f"{NODE}_numa0", f"{NODE}_numa1"]
MARK = "COMPUTE_MANAGED_PCI_DEVICE"


def on(address):
    return f"{NODE}_{address}"


def on_gpu(number):
    return f"{NODE}_pci_0000_8{4 + number}_00_0"


def plug(host, *documents):
    host.binding.answers["listAllDevices"] = [FakeDevice(one) for one in documents]
    for connection in host.binding.connections:
        connection.happen("nodeDevice", 0, 0, 0)


def record(host, name, resource_class=NVME):
    return host.placement.stranger.inventory(providers(host.placement)[name]["uuid"])[
        resource_class
    ]


@pytest.fixture
def host(placement, tmp_path):
    host = DocumentedHost(placement, tmp_path, two_cells(), mib=8192)
    host.binding.answers["getDomainCapabilities"] = sev(15, 84)
    plug(host, *everything())
    yield host
    host.close()


def everything(disks=DISKS):
    gpus = [pci(at, GPU, cell=n, types={"nvidia-35": 4}) for n, at in enumerate(GPUS)]
    return [*(pci(at, cell=1) for at in disks), *gpus, mdev(1, "nvidia-35", GPUS[0])]


def parents(host):
    return {name: one["parent"] for name, one in providers(host.placement).items()}


# -- devices


def test_a_device_in_use_that_is_unplugged_is_drained(host):
    host.binding.answers["getDomainCapabilities"] = sev(0, 0, "no")
    plug(host, *map(pci, DISKS))
    agent = host.reported(DEVICES)
    who = guest(host, **{on(DISKS[0]): {NVME: 1}})
    plug(host, *map(pci, DISKS[2:]))
    host.binding.answers["getMemoryStats"] = {"total": 4096 * 1024}
    report = agent.period()
    assert report.ok and who in str(report.texts(Severity.INFO))
    agent.period()
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


# -- cells and devices


def test_devices_and_their_guests_follow_the_cells_on_and_off(host):
    host.reported(DEVICES)
    flat = parents(host)
    assert set(flat.values()) == {None, NODE}
    own = {"VCPU": 2, "MEMORY_MB": 512}
    guests = [
        guest(host, **{NODE: own, on(DISKS[0]): {NVME: 1}, on_gpu(0): {"VGPU": 2}}),
        guest(host, **{NODE: own, on_gpu(1): {"VGPU": 4}}),
        guest(host, **{NODE: own, f"{NODE}_amd_sev": {"MEM_ENCRYPTION_CONTEXT": 1}}),
    ]
    before = [totals(host.placement, who) for who in guests]
    mark = host.placement.mark()
    host.reported(DEVICES + NESTED)
    assert [r.path for r in host.placement.since(mark)].count("/reshaper") == 1
    nested = parents(host)
    assert [nested[on(one)] for one in DISKS] == [CELLS[1]] * 3
    assert [nested[on_gpu(n)] for n in range(2)] == CELLS
    assert nested[f"{NODE}_amd_sev"] == NODE
    assert [totals(host.placement, who) for who in guests] == before
    assert holds(host.placement, guests[0])[on(DISKS[0])] == {NVME: 1}
    host.reported(DEVICES)
    assert parents(host) == flat
    assert [totals(host.placement, who) for who in guests] == before
    assert all(own.items() <= holds(host.placement, who)[NODE].items() for who in guests)


def test_what_stays_in_use_on_a_cell_that_goes_keeps_nothing_from_moving(host):
    """Guests on hugepages, while those and the cells are switched off at once."""
    huge = two_cells(pages={2048: 512})
    host.binding.answers["getCapabilities"] = huge
    host.reported(DEVICES + NESTED + "report_hugepages = pages\n")
    pages = "CUSTOM_HUGEPAGES_2M"
    who = guest(host, **{CELLS[1]: {"VCPU": 2, "MEMORY_MB": 64, pages: 100}})
    agent = host.start(DEVICES)
    report = agent.period()
    assert not report.fatal, report.texts()
    assert holds(host.placement, who) == {
        NODE: {"VCPU": 2, "MEMORY_MB": 64},
        CELLS[1]: {pages: 100},
    }
    agent.period()
    found = providers(host.placement)
    assert found[CELLS[1]]["inventory"] == {pages: 512} and CELLS[0] not in found
    assert record(host, CELLS[1], pages)["reserved"] == 512, "drained"
    assert found[NODE]["inventory"]["VCPU"] == 8
    host.placement.stranger.delete_allocation(who)
    agent.period()
    agent.settle()
    assert CELLS[1] not in providers(host.placement)


@pytest.mark.parametrize("first", ["", NESTED])
def test_a_device_in_use_that_is_unplugged_survives_a_change_of_cells(host, first):
    second = NESTED if not first else ""
    host.reported(DEVICES + first)
    where = CELLS[0] if first else NODE
    who = guest(host, **{where: {"VCPU": 2}, on(DISKS[0]): {NVME: 1}})
    plug(host, *everything(DISKS[1:]))
    agent = host.start(DEVICES + second)
    agent.period()
    agent.period()
    found = providers(host.placement)
    assert found[on(DISKS[0])]["inventory"] == {NVME: 1}
    assert record(host, on(DISKS[0]))["reserved"] == 1, "nobody else gets it"
    assert totals(host.placement, who) == {"VCPU": 2, NVME: 1}
    with_cpus = set(CELLS) if second else {NODE}
    assert {name for name, one in found.items() if "VCPU" in one["inventory"]} == with_cpus
    host.placement.stranger.delete_allocation(who)
    agent.period()
    agent.settle()
    assert on(DISKS[0]) not in providers(host.placement)
    assert bool(second) == (CELLS[0] in providers(host.placement))


@pytest.mark.parametrize("count", [1, 0])
def test_cells_come_while_a_guest_has_more_of_a_device_than_is_left(host, count):
    """Drained already, or shrunk at once: what Placement would refuse waits for a period."""
    host.reported(DEVICES)
    who = guest(host, **{NODE: {"VCPU": 2}, on_gpu(1): {"VGPU": 3}, on(DISKS[0]): {NVME: 1}})
    less = [pci(GPUS[1], GPU, cell=1, types={"nvidia-35": count})]
    plug(host, *less)
    if not count:
        host.start(DEVICES).period()
        assert record(host, on_gpu(1), "VGPU")["reserved"] == 4
        assert record(host, on(DISKS[0]))["reserved"] == 1
    agent = host.start(DEVICES + NESTED)
    report = agent.period()
    assert not report.fatal and "reshape" not in str(report.texts()), report.texts()
    assert holds(host.placement, who)[CELLS[0]] == {"VCPU": 2}
    agent.period()
    total = record(host, on_gpu(1), "VGPU")
    assert (total["total"], total["reserved"]) == ((1, 0) if count else (4, 4))
    assert "VCPU" not in providers(host.placement)[NODE]["inventory"]


# -- what Nova left


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


def test_vgpus_and_contexts_leave_the_root_in_one_request(host):
    guests, own = old_root(host)
    made = [mdev(n, "nvidia-35", GPUS[n // 3]) for n in range(6)]
    plug(host, *(pci(at, GPU, cell=n, types={"nvidia-35": 1}) for n, at in enumerate(GPUS)), *made)
    mark = host.placement.mark()
    host.reported(DEVICES + NESTED)
    assert [r.path for r in host.placement.since(mark)].count("/reshaper") == 1
    found = providers(host.placement)
    assert not {"VGPU", "MEM_ENCRYPTION_CONTEXT"} & found[NODE]["inventory"].keys()
    assert [found[on_gpu(n)]["inventory"] for n in range(2)] == [{"VGPU": 4}] * 2
    assert [totals(host.placement, who) for who in guests] == [own, own]
    used = [name for who in guests for name in holds(host.placement, who) if "_pci_" in name]
    assert sorted(used) == [on_gpu(0), on_gpu(1)]
    assert all(f"{NODE}_amd_sev" in holds(host.placement, who) for who in guests)


def novas(host, name, inventory, *traits):
    uuid = host.placement.stranger.create_child(ROOT, name)
    host.placement.stranger.set_inventory(uuid, inventory)
    if traits:
        host.placement.stranger.set_traits(uuid, list(traits))
    return uuid


def test_a_device_reported_by_nova_is_drained_and_removed(host):
    host.reported("")
    one = {NVME: {"total": 1, "max_unit": 1}}
    novas(host, on("0000:99:00.0"), one, MARK)
    novas(host, on("0000:98:00.0"), one, MARK)
    novas(host, f"{NODE}_pci_0000_97_00_0", {"VGPU": {"total": 4}})
    novas(host, f"{NODE}_0000:96:00.0", one)
    novas(host, f"{NODE}_pci_0000_95_00_0", {"VGPU": {"total": 4}}, "OWNER_CYBORG")
    who = guest(host, **{on("0000:98:00.0"): {NVME: 1}})
    agent = host.start(DEVICES)
    agent.period()
    agent.period()
    found = set(providers(host.placement))
    assert not {on("0000:99:00.0"), f"{NODE}_pci_0000_97_00_0"} & found
    assert record(host, on("0000:98:00.0"))["reserved"] == 1
    host.placement.stranger.delete_allocation(who)
    agent.period()
    found = set(providers(host.placement))
    assert on("0000:98:00.0") not in found
    assert {f"{NODE}_0000:96:00.0", f"{NODE}_pci_0000_95_00_0"} <= found, "they are not Nova's"


def test_devices_that_nova_reported_are_counted_once_when_they_are_grouped(host):
    host.reported("")
    for at in DISKS:
        novas(host, on(at), {NVME: {"total": 1, "max_unit": 1}}, MARK)
    who = guest(host, **{on(DISKS[1]): {NVME: 1}})
    host.reported(DEVICES + "[pci]\ngroup_devices = true\n")
    found = providers(host.placement)
    assert sum(one["inventory"].get(NVME, 0) for one in found.values()) == len(DISKS)
    assert holds(host.placement, who) == {f"{NODE}_all_{NVME}": {NVME: 1}}


# -- beside another driver on the same root


def test_cpus_that_another_driver_has_on_the_root_do_not_move_to_the_cells(host):
    """Two drivers that both tell of CPUs: each has its own, and nothing moves for ever."""

    def cpus(tree, node, allocations=None):
        tree.update_inventory(node, {"VCPU": {"total": 3}})

    host.start(NESTED, beside=[Small(cpus)]).settle()
    found = providers(host.placement)
    assert found[NODE]["inventory"]["VCPU"] == 3
    assert found[CELLS[0]]["inventory"]["VCPU"] == 4
