"""Provider files beside drivers: a driver's record beats a file's, and a bad file loses nothing."""

from pathlib import Path

import pytest

from tests.ownership.world import (
    EVERY_ROOT,
    NODE,
    SOON,
    Host,
    both,
    child,
    entry,
    inventory,
    removes,
    traits,
)
from tests.stranger import FakePlacement

BAD = "- identification: {uuid: $COMPUTE_NODE}\n  inventories: 7\n"


@pytest.fixture
def host(placement: FakePlacement, tmp_path: Path) -> Host:
    """With a license by a file, beside a driver's VCPU."""
    (tmp_path / "state").mkdir()
    body = {"a": inventory(VCPU=8)}
    made = Host(placement, body, tmp_path / "state", tmp_path / "provider_config")
    made.write_file(entry(EVERY_ROOT, "CUSTOM_GOLD", CUSTOM_LICENSE=8)).settled()
    return made


@pytest.mark.parametrize("kept", [True, False], ids=["last good known", "last good lost"])
def test_a_bad_file_at_the_start_keeps_additions_but_for_drivers_records(host, kept: bool) -> None:
    host.write_file(BAD)
    if not kept:
        assert host.state is not None
        (host.state / "provider-config.json").unlink()
    host.restart().period()
    assert (host.totals(), host.custom()) == ({"VCPU": 8, "CUSTOM_LICENSE": 8}, {"CUSTOM_GOLD"})
    host.says(a=both(inventory(VCPU=8, CUSTOM_LICENSE=5), traits("CUSTOM_GOLD"))).period(SOON)
    assert host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 5}
    host.write_file().settled()
    assert host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 5}, "it is the driver's by now"
    assert host.custom() == {"CUSTOM_GOLD"}


def test_a_driver_never_sees_what_a_file_added(host: Host) -> None:
    shown = []
    looks = lambda tree: shown.append((tree.data(NODE).inventory, tree.data(NODE).traits))
    host.says(a=both(inventory(VCPU=8), looks)).period(SOON)
    host.restart().period()
    for records, names in shown:
        assert set(records) == {"VCPU"} and "CUSTOM_GOLD" not in names
    assert host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 8}


def test_a_trait_of_two_drivers_and_a_file_stays_while_one_of_them_says_it(
    placement, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    gold = traits("CUSTOM_GOLD")
    without = lambda tree: tree.remove_traits(NODE, "CUSTOM_GOLD")
    host = Host(placement, {"a": gold, "b": gold}, tmp_path / "state", tmp_path / "provider_config")
    host.write_file(entry(EVERY_ROOT, "CUSTOM_GOLD")).settled()
    host.says(a=without).settled()
    assert host.custom() == {"CUSTOM_GOLD"}
    host.says(b=without).period()
    host.settled()
    assert host.custom() == {"CUSTOM_GOLD"}, "the file still says it"
    host.write_file().settled()
    assert host.custom() == set()


def test_what_a_file_adds_to_a_device_in_use_is_drained_with_it(host: Host) -> None:
    host.says(a=child("card", CUSTOM_SLOT=4))
    host.write_file(entry("name: card", CUSTOM_LICENSE=8)).settled()
    guest = host.stranger.put_allocation({host.uuid("card"): {"CUSTOM_LICENSE": 1}})
    host.says(a=removes("card")).period()
    host.period()
    assert host.reserved("card")["CUSTOM_LICENSE"] == 8
    host.stranger.delete_allocation(guest)
    host.period()
    host.period()
    assert host.names() == {NODE}


def test_what_a_file_adds_to_a_device_goes_with_it_though_others_keep_it(host: Host) -> None:
    host.says(a=both(inventory(VCPU=8), child("card", CUSTOM_SLOT=4)))
    host.write_file(entry("name: card", "CUSTOM_GOLD", CUSTOM_LICENSE=8)).settled()
    host.stranger.set_aggregates(host.uuid("card"), ["7d0f5f52-3f0e-4d5b-8a38-1f6d4c1e9a77"])
    host.says(a=both(inventory(VCPU=8), removes("card")))
    assert "set aggregate 7d0f5f52" in [host.complaints() for _ in range(3)][-1]
    assert (host.totals("card"), host.custom("card")) == ({}, set())
    host.says(a=both(inventory(VCPU=8), child("card", CUSTOM_SLOT=4))).settled()
    assert host.totals("card") == {"CUSTOM_SLOT": 4, "CUSTOM_LICENSE": 8}


def test_a_file_for_a_device_that_a_lost_ledger_had_is_obeyed_once(host: Host) -> None:
    host.says(a=both(inventory(VCPU=8), child("card", CUSTOM_SLOT=4))).settled()
    host.lose_all()
    host.write_file(entry("name: card", CUSTOM_LICENSE=8))
    host.restart(a=inventory(VCPU=8)).settled()
    assert host.totals("card") == {"CUSTOM_SLOT": 4, "CUSTOM_LICENSE": 8}
