"""Who may change what, where drivers, files, Nova and others write to one tree.

The rule: who asserted a thing may change it and take it away, and nobody else.  What
does not answer loses nothing.  ``tests/ownership`` has all the cases.
"""

from __future__ import annotations

import pytest

from tests.ownership.world import (
    NODE,
    ROOT,
    Host,
    both,
    child,
    inventory,
    removes,
)
from tests.stranger import FakePlacement


@pytest.fixture
def placement() -> FakePlacement:
    return FakePlacement()


def test_what_drivers_say_is_there_and_a_quiet_period_asks_nothing(placement) -> None:
    host = Host(placement, {"libvirt": inventory(VCPU=8), "cards": child("card", VGPU=4)})
    host.settled()
    assert host.totals() == {"VCPU": 8}
    assert host.totals("card") == {"VGPU": 4}
    assert host.period(after=60).calls == 0


def test_each_driver_changes_its_own_part_only(placement) -> None:
    """Both say "all of the root's inventory is this", and mean their own."""
    host = Host(placement, {"libvirt": inventory(VCPU=8), "cards": inventory(FPGA=2)})
    host.settled()
    host.says(cards=inventory(FPGA=3))
    host.settled()
    assert host.totals() == {"VCPU": 8, "FPGA": 3}


def test_what_guests_use_is_drained_and_goes_once_they_are_gone(placement) -> None:
    host = Host(placement, {"cards": child("card", VGPU=4)})
    host.settled()
    guest = host.stranger.put_allocation({host.uuid("card"): {"VGPU": 1}})
    host.says(cards=removes("card"))
    host.period()
    assert host.reserved("card") == {"VGPU": 4}, "nobody new gets any"
    host.stranger.delete_allocation(guest)
    host.period()
    assert host.names() == {NODE}


def test_beside_nova_only_what_is_hung_below_its_root_is_ours(placement) -> None:
    nova = placement.stranger
    nova.create_provider(NODE, ROOT)
    nova.set_inventory(ROOT, {"VCPU": {"total": 8}})
    nova.set_traits(ROOT, ["COMPUTE_NODE"])
    before = nova.provider(ROOT)["generation"]
    said = both(inventory(VCPU=1), child("card", VGPU=4))
    host = Host(placement, {"cards": said}, attached=True)
    assert "another service owns this root and its inventory" in host.complaints()
    assert host.totals("card") == {"VGPU": 4}
    assert (host.totals(), host.traits()) == ({"VCPU": 8}, {"COMPUTE_NODE"})
    assert nova.provider(ROOT)["generation"] == before, "Nova's next write meets no conflict"
