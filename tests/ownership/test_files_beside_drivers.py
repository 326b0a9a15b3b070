"""Provider files beside drivers: a driver's record beats a file's, and a bad file loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ownership.world import (
    EVERY_ROOT,
    NODE,
    ROOT,
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
    made.write_file(entry(EVERY_ROOT, "CUSTOM_GOLD", CUSTOM_LICENSE=8))
    made.settled()
    return made


def test_a_drivers_new_record_beats_the_files_while_the_file_is_bad(host: Host) -> None:
    """The last good files hold, but for what a driver says by now."""
    host.write_file(BAD)
    host.says(a=both(inventory(VCPU=8, CUSTOM_LICENSE=5)))
    host.period(SOON)
    assert host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 5}
    assert host.custom() == {"CUSTOM_GOLD"}
    host.says(a=inventory(VCPU=8))
    host.period(SOON)
    assert host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 8}, "the file's again"


@pytest.mark.parametrize("kept", [True, False], ids=["last good known", "last good lost"])
def test_a_bad_file_at_the_start_leaves_what_was_added_and_takes_a_drivers_record(
    host: Host, kept: bool
) -> None:
    host.write_file(BAD)
    if not kept:
        assert host.state is not None
        (host.state / "provider-config.json").unlink()
    host.restart()
    host.period()
    assert (host.totals(), host.custom()) == ({"VCPU": 8, "CUSTOM_LICENSE": 8}, {"CUSTOM_GOLD"})
    host.says(a=both(inventory(VCPU=8, CUSTOM_LICENSE=5), traits("CUSTOM_GOLD")))
    host.period(SOON)
    assert host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 5}
    host.write_file()
    host.settled()
    assert host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 5}, "it is the driver's by now"
    assert host.custom() == {"CUSTOM_GOLD"}


def test_what_a_driver_took_over_and_gives_up_goes_once_no_file_says_it(host: Host) -> None:
    host.says(a=inventory(VCPU=8, CUSTOM_LICENSE=5))
    host.period(SOON)
    host.write_file()
    host.says(a=inventory(VCPU=8))
    host.period(SOON)
    assert host.totals() == {"VCPU": 8}
    assert host.custom() == set()


def test_a_driver_never_sees_what_a_file_added(host: Host) -> None:
    shown = []
    looks = lambda tree: shown.append((tree.data(NODE).inventory, tree.data(NODE).traits))  # noqa: E731
    host.says(a=both(inventory(VCPU=8), looks))
    host.period(SOON)
    host.restart()
    host.period()
    for records, names in shown:
        assert set(records) == {"VCPU"} and "CUSTOM_GOLD" not in names
    assert host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 8}


def test_what_somebody_put_there_before_a_file_says_it_is_not_taken_away_with_it(
    host: Host,
) -> None:
    host.stranger.add_trait(ROOT, "CUSTOM_SILVER")
    host.write_file(entry(EVERY_ROOT, "CUSTOM_GOLD", "CUSTOM_SILVER"))
    host.settled()
    host.write_file()
    host.settled()
    assert host.custom() == {"CUSTOM_SILVER"}


def test_a_trait_of_two_drivers_and_a_file_stays_while_one_of_them_says_it(
    placement, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    gold = traits("CUSTOM_GOLD")
    without = lambda tree: tree.remove_traits(NODE, "CUSTOM_GOLD")  # noqa: E731
    host = Host(placement, {"a": gold, "b": gold}, tmp_path / "state", tmp_path / "provider_config")
    host.write_file(entry(EVERY_ROOT, "CUSTOM_GOLD"))
    host.settled()
    host.says(a=without)
    host.settled()
    assert host.custom() == {"CUSTOM_GOLD"}
    host.says(b=without)
    host.period()
    host.settled()
    assert host.custom() == {"CUSTOM_GOLD"}, "the file still says it"
    host.write_file()
    host.settled()
    assert host.custom() == set()


def test_what_a_file_adds_to_a_device_in_use_is_drained_with_it(host: Host) -> None:
    host.says(a=child("card", CUSTOM_SLOT=4))
    host.write_file(entry("name: card", CUSTOM_LICENSE=8))
    host.settled()
    guest = host.stranger.put_allocation({host.uuid("card"): {"CUSTOM_LICENSE": 1}})
    host.says(a=removes("card"))
    host.period()
    host.period()
    assert host.reserved("card")["CUSTOM_LICENSE"] == 8
    host.stranger.delete_allocation(guest)
    host.period()
    host.period()
    assert host.names() == {NODE}


def test_a_driver_that_leaves_takes_nothing_that_a_file_says_too(placement, tmp_path) -> None:
    (tmp_path / "state").mkdir()
    parts = {"a": inventory(VCPU=8), "b": inventory(CUSTOM_LICENSE=5)}
    host = Host(placement, parts, tmp_path / "state", tmp_path / "provider_config")
    host.write_file(entry(EVERY_ROOT, CUSTOM_LICENSE=8))
    host.period()
    assert host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 5}
    host.restart(a=parts["a"])
    host.period()
    host.settled()
    assert host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 8}


def test_a_file_adds_nothing_to_another_hosts_provider(host: Host) -> None:
    strange = host.stranger.create_provider("strange")
    host.write_file(entry("name: strange", CUSTOM_LICENSE=8))
    host.period()
    assert host.stranger.inventory(strange) == {}, "not in the tree of this host"


def test_an_entry_that_waits_for_its_provider_holds_up_no_other(host: Host) -> None:
    host.write_file(entry("name: absent", "CUSTOM_A"), entry(f"name: {NODE}", "CUSTOM_B"))
    host.period()
    assert host.custom() == {"CUSTOM_B"}
