"""Devices that come late, or can't be read, stay in Placement: through the agent and its ledger."""

import pytest

from tests.agents import Agent
from tests.hosts import UP_FOR, FakeHost
from tests.stranger import FakePlacement
from tests.unit.libvirt.devices import GPU, pci
from tests.unit.libvirt.fake_binding import FakeDevice, FakeLibvirt, FakeLibvirtError

A = "0000:84:00.0"
MDEV = "[devices]\nenabled_mdev_types = t\n"
WHOLE = f'[pci]\nreport_in_placement = true\ndevice_spec = {{"vendor_id": "{GPU[0]}"}}\n'
DIVIDED, BARE = FakeDevice(pci(A, GPU, types={"t": 4})), FakeDevice(pci(A, GPU))


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (MDEV, DIVIDED, BARE),
        (WHOLE + MDEV, DIVIDED, BARE),
        (MDEV, DIVIDED, FakeDevice(pci(A, GPU), FakeLibvirtError("I/O error"))),
        (WHOLE, BARE, FakeDevice(pci(A, GPU, iommu=False))),
    ],
    ids=["mdev types", "mdev types or whole", "unreadable", "IOMMU group"],
)
def test_the_only_device_stays_in_placement_after_a_boot(tmp_path, text, before, after):
    now, binding, placement = [UP_FOR], FakeLibvirt(), FakePlacement()
    host = FakeHost(tmp_path, binding, clock=lambda: now[0], disk=1024**3)

    def boot(time, device):
        now[0], binding.answers["listAllDevices"] = time, [device]
        driver = host.driver(text, state_path=tmp_path)
        agent = Agent(placement, named={"libvirt": driver}, state=tmp_path / "agent")
        for _ in range(2):
            assert agent.period(1000.0).ok
        return agent.view.providers

    tree = boot(UP_FOR, before)
    (card,) = (uuid for uuid, provider in tree.items() if provider.parent_uuid)
    placement.stranger.put_allocation({card: dict.fromkeys(tree[card].inventory, 1)})
    assert boot(60.0, after)[card].inventory == tree[card].inventory
    assert boot(UP_FOR, before).keys() == tree.keys()
    host.close()
