"""What goes while guests use it, or something below it: closed to new guests, but for what is foreign."""

import pytest

from tests.ownership.world import NODE, Host, both, child, inventory, removes, settled_host
from tests.stranger import FakePlacement

CELL, CARD = "cell", "card"
WITH_CARD = both(inventory(VCPU=8), child(CELL, CUSTOM_CACHE=4), child(CARD, parent=CELL, VGPU=4))


@pytest.fixture
def host() -> Host:
    return settled_host(FakePlacement(), {"a": WITH_CARD})


def uses(host: Host, provider: str, **amounts: int) -> str:
    return host.stranger.put_allocation({host.uuid(provider): amounts})


def test_a_removed_device_in_use_and_its_cell_take_no_new_guests(host: Host) -> None:
    guest = uses(host, CARD, VGPU=1)
    without = both(inventory(VCPU=8), removes(CARD, CELL))
    host.says(a=without).period()
    assert host.reserved(CARD) == {"VGPU": 4}
    assert host.reserved(CELL) == {"CUSTOM_CACHE": 4}, "its cell is not there any more either"
    assert host.reserved() == {"VCPU": 0}
    host.says(a=WITH_CARD).settled()
    assert (host.reserved(CELL), host.reserved(CARD)) == ({"CUSTOM_CACHE": 0}, {"VGPU": 0})
    host.says(a=without).period()
    host.settled()
    host.stranger.delete_allocation(guest)
    host.period()
    assert host.names() == {NODE}
