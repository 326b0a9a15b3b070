"""Reshapes of the libvirt driver on a real Placement, with guests: everybody keeps its totals."""

from __future__ import annotations

import pytest

from agent.reporting.reports import Severity
from drivers.errors import ReshapeFailed
from drivers.libvirt.tree.children import write_report
from drivers.libvirt.tree.reported import HostReport, ReportedProvider
from drivers.libvirt.tree.reported import child_uuid as own_uuid
from tests.agents import NODE, ROOT, Agent, Small, child_uuid
from tests.integration.libvirt_hosts import DocumentedHost, holds, providers, totals
from tests.servers.placement import RealPlacement
from tests.unit.libvirt.hosts import capabilities, cell

NESTED = "[libvirt]\nreport_numa = nested\nreport_hugepages = pages\n"
FLAT = "[libvirt]\nreport_hugepages = pages\n"
CELLS = [f"{NODE}_numa0", f"{NODE}_numa1"]


def two_cells(second=True):
    cells = [cell(n, range(4 * n, 4 * n + 4), mib=8192, pages={2048: 1024}) for n in range(2)]
    return capabilities(*cells[: 1 + second])


@pytest.fixture
def host(placement, tmp_path):
    host = DocumentedHost(placement, tmp_path, two_cells(), mib=16384)
    yield host
    host.close()


def guest(host, **resources):
    return host.placement.stranger.put_allocation({ROOT: {**resources, "DISK_GB": 10}})


def test_on_and_off_again_with_guests_of_every_kind(host):
    host.reported(FLAT)
    guests = [
        guest(host, VCPU=2, MEMORY_MB=2048),
        guest(host, VCPU=4, MEMORY_MB=4096),
        guest(host, VCPU=1, CUSTOM_HUGEPAGES_2M=1000),
        guest(host, VCPU=1, CUSTOM_HUGEPAGES_2M=500, MEMORY_MB=1),
    ]
    before = [totals(host.placement, who) for who in guests]
    host.reported(NESTED)
    assert [totals(host.placement, who) for who in guests] == before
    for who in guests:
        cells = set(holds(host.placement, who)) - {NODE}
        assert len(cells) == 1, "each fits on one cell"
        assert holds(host.placement, who)[NODE] == {"DISK_GB": 10}
    assert set(providers(host.placement)) == {NODE, *CELLS}
    assert set(providers(host.placement)[NODE]["inventory"]) == {"DISK_GB"}
    host.reported(FLAT)
    assert [totals(host.placement, who) for who in guests] == before
    assert all(set(holds(host.placement, who)) == {NODE} for who in guests)
    assert set(providers(host.placement)) == {NODE}


def test_a_guest_that_is_larger_than_a_cell_is_split(host):
    host.reported(FLAT)
    who = guest(host, VCPU=6, MEMORY_MB=8000)
    host.reported(NESTED)
    assert totals(host.placement, who) == {"VCPU": 6, "MEMORY_MB": 8000, "DISK_GB": 10}
    assert set(holds(host.placement, who)) == {NODE, *CELLS}


def test_one_who_fits_nowhere_stops_the_start_before_anything_is_sent(host):
    agent = host.reported(FLAT)
    host.placement.stranger.set_inventory(
        ROOT,
        {
            **host.placement.stranger.inventory(ROOT),
            "MEMORY_MB": {"total": 20000, "max_unit": 20000},
        },
    )
    who = guest(host, MEMORY_MB=15000)
    before = providers(host.placement)
    agent = host.start(NESTED)
    report = agent.period()
    assert report.fatal and isinstance(report.error, ReshapeFailed)
    words = str(report.error)
    assert who in words and "MEMORY_MB" in words and "raise the allocation ratio" in words
    assert providers(host.placement) == before
    assert totals(host.placement, who)["MEMORY_MB"] == 15000


def test_while_running_nothing_moves_unless_it_is_allowed(host):
    """A cell that vanishes (firmware that joins two) moves what was on it."""
    agent = host.reported(NESTED)
    cell1 = providers(host.placement)[CELLS[1]]["uuid"]
    who = host.placement.stranger.put_allocation({cell1: {"VCPU": 2, "MEMORY_MB": 64}})
    host.binding.answers["getCapabilities"] = capabilities(cell(0, range(8), mib=16384))
    report = agent.period(1.0)
    assert report.reshape_pending == ("driver1",)
    assert set(holds(host.placement, who)) == {CELLS[1]}
    host.reported(NESTED)
    assert holds(host.placement, who) == {CELLS[0]: {"VCPU": 2, "MEMORY_MB": 64}}
    assert CELLS[1] not in providers(host.placement)


def test_another_drivers_and_a_strangers_providers_stay_through_all_of_it(host):
    host.reported(FLAT)
    stranger = host.placement.stranger
    stranger.create_child(ROOT, "of-a-stranger")
    stranger.create_child(ROOT, f"{NODE}_other", child_uuid(f"{NODE}_other"))
    host.reported(NESTED)
    below = stranger.create_child(providers(host.placement)[CELLS[0]]["uuid"], "below-a-cell")
    stranger.set_inventory(below, {"CUSTOM_NIC": {"total": 1}})
    agent = host.start(FLAT)
    agent.period()
    found = providers(host.placement)
    assert {"of-a-stranger", f"{NODE}_other", "below-a-cell"} < set(found)
    assert CELLS[1] not in found
    assert found[CELLS[0]]["inventory"] == {}, "it stays for what is below it, emptied"
    assert agent.period().done == ()


# -- devices, as the driver's other modules report them

CPUS = {"VCPU": {"total": 8, "max_unit": 8}}
DISK = {"DISK_GB": {"total": 100}}


class DevicesAnswer:
    """A driver that writes whatever report it has now."""

    def __init__(self, placement, state):
        self.placement, self.state = placement, state
        self.now = HostReport(CPUS)

    def start(self, report):
        self.now = report
        agent = Agent(self.placement, Small(self.write), state=self.state)
        return agent, agent.period()

    def write(self, tree, node, allocations):
        write_report(tree, node, self.now, allocations)


def cells():
    return {n: ReportedProvider(name, CPUS) for n, name in enumerate(CELLS)}


def gpu(number, cell):
    inventory = {"VGPU": {"total": 4, "max_unit": 4}}
    name = f"{NODE}_pci_0000_8{number}_00_0"
    return ReportedProvider(name, inventory, cell=cell, from_root=frozenset({"VGPU"}))


def test_an_older_placement_keeps_devices_where_they_are_and_says_why(tmp_path):
    with RealPlacement(tmp_path / "placement", max_microversion="1.36") as older:
        devices = DevicesAnswer(older, tmp_path / "state")
        assert devices.start(HostReport(CPUS, {}, [gpu(0, 1)]))[1].ok
        _, report = devices.start(HostReport(DISK, cells(), [gpu(0, 1)]))
        assert "1.37" in " ".join(report.texts())
        children = [*CELLS, gpu(0, 1).name]
        uuids = {each: own_uuid(ROOT, each.removeprefix(f"{NODE}_")) for each in children}
        moved = older.request("GET", f"/resource_providers/{uuids[CELLS[0]]}", microversion="1.36")
        assert moved["parent_provider_uuid"] == ROOT
        path = f"/resource_providers/{uuids[CELLS[1]]}/inventories"
        cell = older.request("GET", path, microversion="1.36")["inventories"]
        assert cell["VCPU"]["total"] == 8
        device = older.request(
            "GET", f"/resource_providers/{uuids[gpu(0, 1).name]}", microversion="1.36"
        )
        assert device["parent_provider_uuid"] == ROOT


def cpus_of(host):
    """What Placement would give to a new guest of each CPU class, by provider."""
    return {
        (name, one): record["total"] - record["reserved"]
        for name, found in providers(host.placement).items()
        for one, record in host.placement.stranger.inventory(found["uuid"]).items()
        if one in ("VCPU", "PCPU") and record["total"] > record["reserved"]
    }


@pytest.mark.parametrize("before", [FLAT, NESTED], ids=["from-root", "from-cells"])
def test_cpus_that_get_dedicated_while_guests_share_them_are_never_offered_twice(host, before):
    agent = host.reported(before)
    where = ROOT if before == FLAT else providers(host.placement)[CELLS[0]]["uuid"]
    who = host.placement.stranger.put_allocation({where: {"VCPU": 2}})
    agent = host.start(NESTED + "[compute]\ncpu_dedicated_set = 0-7\n")
    for _ in range(3):
        agent.period()
        offered = {one for name, one in cpus_of(host) if name != CELLS[1]}
        assert len(offered) <= 1, offered
    report = agent.period()
    assert who in str(report.texts(Severity.INFO))
    assert "PCPU is reported" in str(report.texts())
    host.placement.stranger.delete_allocation(who)
    agent.period()
    assert agent.period().ok
    assert cpus_of(host) == {(name, "PCPU"): 4 for name in CELLS}
