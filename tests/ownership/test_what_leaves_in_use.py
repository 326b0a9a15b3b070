"""What goes while guests use it, or something below it: closed to new guests, but for what is foreign."""

from __future__ import annotations

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


def with_foreign(host: Host, provider: str) -> None:
    there = host.stranger.inventory(host.uuid(provider))
    there["CUSTOM_STRANGE"] = {"total": 3, "reserved": 1}
    host.stranger.set_inventory(host.uuid(provider), there)


def test_what_is_above_a_device_in_use_and_goes_too_takes_no_new_guests(host: Host) -> None:
    guest = uses(host, CARD, VGPU=1)
    host.says(a=both(inventory(VCPU=8), removes(CARD, CELL)))
    host.period()
    assert host.reserved(CARD) == {"VGPU": 4}
    assert host.reserved(CELL) == {"CUSTOM_CACHE": 4}, "its cell is not there any more either"
    assert host.reserved() == {"VCPU": 0}
    host.settled()
    host.stranger.delete_allocation(guest)
    host.period()
    assert host.names() == {NODE}


def test_what_is_above_is_open_again_once_it_is_reported_again(host: Host) -> None:
    uses(host, CARD, VGPU=1)
    host.says(a=both(inventory(VCPU=8), removes(CARD, CELL)))
    host.period()
    host.says(a=WITH_CARD)
    host.settled()
    assert host.reserved(CELL) == {"CUSTOM_CACHE": 0}
    assert host.reserved(CARD) == {"VGPU": 0}


def test_a_strangers_class_on_a_device_that_goes_is_not_drained(host: Host) -> None:
    with_foreign(host, CARD)
    host.period()
    uses(host, CARD, VGPU=1, CUSTOM_STRANGE=1)
    host.says(a=both(inventory(VCPU=8), child(CELL, CUSTOM_CACHE=4), removes(CARD)))
    host.period()
    assert host.reserved(CARD) == {"VGPU": 4, "CUSTOM_STRANGE": 1}
    host.settled()
    host.says(a=WITH_CARD)
    host.settled()
    assert host.reserved(CARD) == {"VGPU": 0, "CUSTOM_STRANGE": 1}


def test_nor_is_one_on_what_is_above_it(host: Host) -> None:
    with_foreign(host, CELL)
    host.period()
    uses(host, CARD, VGPU=1)
    host.says(a=both(inventory(VCPU=8), removes(CARD, CELL)))
    host.period()
    assert host.reserved(CELL) == {"CUSTOM_CACHE": 4, "CUSTOM_STRANGE": 1}
    host.settled()
