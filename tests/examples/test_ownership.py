"""Who may change what, where drivers, files, Nova and others write to one tree.

The rule: who asserted a thing may change it and take it away, and nobody else.  What
does not answer loses nothing.  ``tests/ownership`` has all the cases.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ownership.world import (
    EVERY_ROOT,
    NODE,
    ROOT,
    Host,
    both,
    child,
    entry,
    fails,
    inventory,
    removes,
    traits,
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


def test_a_driver_that_does_not_answer_loses_nothing_and_holds_nobody_up(placement) -> None:
    host = Host(placement, {"libvirt": inventory(VCPU=8), "cards": child("card", VGPU=4)})
    host.settled()
    host.says(libvirt=inventory(VCPU=16), cards=fails)
    report = host.period()
    assert list(report.driver_errors) == ["cards"]
    assert host.totals() == {"VCPU": 16}
    assert host.totals("card") == {"VGPU": 4}


def test_what_two_drivers_say_differently_is_the_first_ones_and_told(placement) -> None:
    host = Host(placement, {"libvirt": inventory(VCPU=8), "cards": inventory(VCPU=4)})
    assert "VCPU of driver cards ignored: driver libvirt" in (host.complaints())
    assert host.totals() == {"VCPU": 8}


def test_a_trait_stays_while_one_of_those_who_set_it_does(placement) -> None:
    fast = traits("CUSTOM_FAST")
    host = Host(placement, {"libvirt": fast, "cards": fast})
    host.settled()
    host.says(cards=lambda tree: tree.remove_traits(NODE, "CUSTOM_FAST"))
    host.settled()
    assert host.custom() == {"CUSTOM_FAST"}


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


def test_a_driver_taken_out_of_the_configuration_takes_its_part_along(
    placement, tmp_path: Path
) -> None:
    """It is kept in the state directory who reported what."""
    host = Host(
        placement,
        {"libvirt": inventory(VCPU=8), "cards": both(inventory(FPGA=2), child("card", VGPU=4))},
        state=tmp_path,
    )
    host.settled()
    host.restart(libvirt=inventory(VCPU=8))
    host.settled()
    assert host.totals() == {"VCPU": 8}
    assert host.names() == {NODE}


def test_an_operators_file_adds_to_what_drivers_say_and_a_driver_beats_it(
    placement, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    host = Host(
        placement, {"cards": inventory(CUSTOM_CARD=8)}, tmp_path / "state", tmp_path / "files"
    )
    host.write_file(entry(EVERY_ROOT, "CUSTOM_GOLD", CUSTOM_CARD=99, CUSTOM_LICENSE=5))
    assert "CUSTOM_CARD of the file ignored: a driver reports it" in host.complaints()
    assert host.totals() == {"CUSTOM_CARD": 8, "CUSTOM_LICENSE": 5}
    host.write_file()
    host.settled()
    assert host.totals() == {"CUSTOM_CARD": 8}, "with the file goes what it added, and nothing else"


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
