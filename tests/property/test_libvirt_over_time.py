"""A host that changes while its options do, start after start, with guests that come and go.

Whatever happens: guests keep their totals, nothing is offered twice, every start succeeds
(but for guests that fit nowhere), and once the guests have gone it is as on a new host.
"""

import random
from collections import Counter

import pytest

from tests.agents import Agent
from tests.hosts import FakeHost
from tests.profiles import examples
from tests.stranger import FakePlacement
from tests.unit.libvirt.devices import GPU, NIC, NIC_VF, pci, sev
from tests.unit.libvirt.fake_binding import FakeDevice, FakeLibvirt
from tests.unit.libvirt.hosts import NODE, capabilities, cell

CPUS = 8
DISKS = [f"0000:0{n}:00.0" for n in range(4, 8)]
GPUS = ["0000:84:00.0", "0000:85:00.0"]
PF, VFS = "0000:81:00.0", [f"0000:81:02.{n}" for n in range(4)]
OF_DISKS = ("CUSTOM_PCI_144D_A80A", "CUSTOM_BLUE")
MORE = ("", ', "traits": "fast"', ', "resource_class": "blue"')
DISK_SPECS = ["", *(f'device_spec = {{"vendor_id": "144d"{more}}}\n' for more in MORE)]
NIC_SPECS = ["", 'device_spec = {"product_id": "154c"}\n', 'device_spec = {"vendor_id": "8086"}\n']


class World:
    """One host, its Placement, and what its guests have."""

    def __init__(self, seed, directory):
        self.chance = random.Random(seed)
        self.directory = directory
        self.placement = FakePlacement()
        self.binding = FakeLibvirt()
        self.binding.answers["getHostname"] = NODE
        self.binding.answers["getCPUMap"] = (CPUS, [True] * CPUS, CPUS)
        self.guests: dict[str, Counter[str]] = {}
        self.options = ""
        self.disks = 0

    def change(self):
        """Firmware, devices and options: all at once, at the worst."""
        pick, some = self.chance.choice, lambda listed: [x for x in listed if pick("yyyn") == "y"]
        count, pages = pick([1, 2, 2, 2]), pick([{}, {2048: 64}])
        size = CPUS // count
        cells = [
            cell(n, range(size * n, size * (n + 1)), 8192 // count, pages) for n in range(count)
        ]
        disks, vfs, sizes = some(DISKS), some(VFS), {"nvidia-35": 4, "nvidia-36": 2}
        listed = [pci(at, cell=pick([None, 0, 1])) for at in disks]
        listed += [pci(at, GPU, cell=n, types=sizes) for n, at in enumerate(some(GPUS))]
        listed += [pci(PF, NIC, cell=1, virtual=vfs)]
        listed += [pci(at, NIC_VF, physical=PF, cell=1) for at in vfs]
        self.disks = len(disks)
        self.binding.answers |= {
            "getCapabilities": capabilities(*cells),
            "listAllDevices": [FakeDevice(one) for one in listed],
            "getDomainCapabilities": pick([sev(), "<domainCapabilities/>"]),
        }
        self.options = (
            f"[libvirt]\nreport_numa = {pick(['off', 'nested'])}\n"
            f"report_hugepages = {pick(['off', 'pages'])}\n"
            f"[devices]\nenabled_mdev_types = {pick(['nvidia-35', 'nvidia-36', ''])}\n"
            f"group_mdev_devices = {pick(['true', 'false'])}\n"
            f"[pci]\nreport_in_placement = {pick(['true', 'true', 'false'])}\n"
            f"group_devices = {pick(['true', 'false'])}\n{pick(DISK_SPECS)}{pick(NIC_SPECS)}"
        )

    def start(self, placement, state):
        """An agent from its start until it is quiet; the tree, or ``None``: somebody has no room."""
        state = self.directory / state
        state.mkdir(exist_ok=True)
        host = FakeHost(self.directory, self.binding, disk=500 * 1024**3)
        driver = host.driver(self.options, state_path=state)
        agent = Agent(placement, named={"libvirt": driver}, state=state)
        for _ in range(5):
            report = agent.period(1000.0)
            if "no room for" in str(report.error):
                host.close()
                return None
            assert not report.fatal and report.error is None, report.texts()
            assert "reshape" not in str(report.texts()), report.texts()
        assert not report.done, "it becomes quiet"
        host.close()
        return agent.view

    def guests_go(self, all_of_them=False):
        for who in [one for one in self.guests if all_of_them or self.chance.random() < 0.4]:
            self.placement.stranger.delete_allocation(who)
            del self.guests[who]

    def guests_come(self, tree):
        for _ in range(3):
            used, parts = self.used(), {}
            for provider in tree.walk():
                for name, record in provider.inventory.items():
                    free = record.total - (record.reserved or 0) - used[provider.uuid, name]
                    if free > 0 and self.chance.random() < 0.35:
                        amount = min(self.chance.choice([1, 2]), free, record.max_unit or free)
                        parts.setdefault(provider.uuid, {})[name] = amount
            if parts:
                self.guests[self.placement.stranger.put_allocation(parts)] = sums(parts)

    def used(self):
        found = Counter()
        for who in self.guests:
            for uuid, part in self.parts(who).items():
                found.update({(uuid, name): amount for name, amount in part.items()})
        return found

    def parts(self, who):
        held = self.placement.stranger.allocation(who)["allocations"]
        return {uuid: part["resources"] for uuid, part in held.items()}


def sums(parts):
    found = Counter()
    for resources in parts.values():
        found.update(resources)
    return found


def offered(tree):
    """Totals less what is reserved, by class."""
    found = Counter()
    for provider in tree.walk():
        found.update({n: r.total - (r.reserved or 0) for n, r in provider.inventory.items()})
    return found


def plain(tree):
    return {
        one.name: (
            {n: (r.total, r.reserved or 0) for n, r in one.inventory.items()},
            one.traits,
            one.parent_uuid,
        )
        for one in tree.walk()
    }


@pytest.mark.parametrize("seed", range(examples(12)))
def test_start_after_start(seed, tmp_path):
    world = World(seed, tmp_path)
    for _ in range(6):
        world.change()
        tree = world.start(world.placement, "state")
        assert {who: sums(world.parts(who)) for who in world.guests} == world.guests
        if tree is None:
            break
        free = offered(tree)
        assert free["VCPU"] == CPUS
        assert sum(free[name] for name in OF_DISKS) <= world.disks
        world.guests_go()
        world.guests_come(tree)
    world.guests_go(all_of_them=True)
    later = world.start(world.placement, "state")
    assert plain(later) == plain(world.start(FakePlacement(), "new"))
