"""A missing ledger removes nothing, but where nova-compute reported this host until now."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points

import pytest

from drivers.errors import ReshapeNeeded
from drivers.libvirt.tree.reported import child_uuid
from drivers.loader import GROUP
from reportclient.provider_tree import own_uuid
from tests.ownership.world import (
    NODE,
    OWNER,
    ROOT,
    Host,
    aggregates,
    both,
    child,
    fails,
    inventory,
    own,
    removes,
    settled_host,
    traits,
)
from tests.stranger import FakePlacement

REPORTS = both(inventory(VCPU=8), child("card", VGPU=2))
CARD = own("card")


@dataclass
class Case:
    """What happened to the host before this start, and whether Nova's old classes go."""

    name: str
    happen: Callable[[Host], None]
    takes_over: bool = False
    attached: bool = False


def nothing(host: Host) -> None:
    """There is no provider yet."""


def from_nova(host: Host) -> None:
    host.stranger.create_provider(NODE, ROOT)
    host.stranger.add_trait(ROOT, "COMPUTE_NODE")


def lived(host: Host) -> None:
    """The agent has reported this host, and Placement has its tag."""
    host.settled()


def state_lost(host: Host) -> None:
    lived(host)
    assert host.state is not None
    shutil.rmtree(host.state)
    host.state.mkdir()


def restored(host: Host) -> None:
    lived(host)
    assert host.state is not None
    shutil.copytree(host.state, host.state.with_name("backup"))
    shutil.rmtree(host.state)
    shutil.copytree(host.state.with_name("backup"), host.state)


def half_restored(host: Host) -> None:
    """All but the file with the ledger."""
    lived(host)
    host.lose_all()


def untagged(host: Host) -> None:
    """The ledger is missing and an operator has removed the owner trait by hand."""
    half_restored(host)
    host.stranger.remove_trait(ROOT, OWNER)


def back_from_nova(host: Host) -> None:
    """nova-compute had the root back meanwhile; state_path is that of then, without the ledger."""
    untagged(host)
    host.stranger.add_trait(ROOT, "OWNER_NOVA")


CASES = [
    Case("first start", nothing),
    Case("takeover from Nova", from_nova, takes_over=True),
    Case("state directory lost", state_lost),
    Case("restored", restored),
    Case("half restored", half_restored),
    Case("tag removed by hand", untagged),
    Case("back from Nova", back_from_nova),
    Case("attached", from_nova, attached=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_nobody_asserts(case: Case, tmp_path) -> None:
    """A class, a trait and an aggregate of another service, on the root and on our child."""
    placement = FakePlacement()
    host = Host(placement, {"d": REPORTS}, state=tmp_path / "state")
    case.happen(host)
    stranger, aggregate = placement.stranger, "6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01"
    theirs = [uuid for uuid in (ROOT, CARD) if uuid in {host.uuid(name) for name in (NODE, "card")}]
    for uuid in (one for one in theirs if host.is_there(NODE)):
        records = {n: {"total": r["total"]} for n, r in stranger.inventory(uuid).items()}
        stranger.set_inventory(uuid, {**records, "DISK_GB": {"total": 5}})
        stranger.add_trait(uuid, "CUSTOM_THEIRS")
        stranger.set_aggregates(uuid, [aggregate])
    host = Host(placement, {"d": REPORTS}, state=tmp_path / "state", attached=case.attached)
    for _ in range(3):
        host.period()
    for uuid in theirs if host.is_there(NODE) and case.name != "first start" else ():
        assert ("DISK_GB" in stranger.inventory(uuid)) is not case.takes_over
        assert "CUSTOM_THEIRS" in stranger.traits(uuid)
        assert aggregate in stranger.aggregates(uuid)
    if not case.attached:
        assert host.totals()["VCPU"] == 8 and host.totals("card")["VGPU"] == 2


@pytest.mark.parametrize("back", ["copied anew", "copied over", "whole disk"])
def test_yesterdays_ledger_removes_nothing_that_others_set_since(back: str, tmp_path) -> None:
    """Unless the disk as a whole is set back: the files of then are the same files."""
    rack, state = "6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01", tmp_path / "state"
    whole = both(inventory(VCPU=8, DISK_GB=5), traits("CUSTOM_OLD"), aggregates(rack))
    host = settled_host(FakePlacement(), {"d": whole}, state=state)
    whole_disk = back == "whole disk"
    shutil.copytree(
        state, tmp_path / "backup", copy_function=os.link if whole_disk else shutil.copy2
    )
    host.restart(another=inventory(VCPU=8)).settled()
    assert (host.totals(), host.custom(), host.aggregates()) == ({"VCPU": 8}, set(), set())
    host.stranger.set_inventory(ROOT, {"VCPU": {"total": 8}, "DISK_GB": {"total": 7}})
    host.stranger.add_trait(ROOT, "CUSTOM_OLD")
    host.stranger.set_aggregates(ROOT, [rack])
    if back != "copied over":
        shutil.rmtree(state)
    if whole_disk:
        (tmp_path / "backup").rename(state)
    else:
        shutil.copytree(tmp_path / "backup", state, dirs_exist_ok=True)
    for _ in range(2):  # then the ledger is this host's own again
        host.restart().settled()
    assert (host.totals() == {"VCPU": 8, "DISK_GB": 7}) is not whole_disk
    assert ((host.custom(), host.aggregates()) == ({"CUSTOM_OLD"}, {rack})) is not whole_disk


@pytest.mark.parametrize("used", [0, 1])
def test_without_a_ledger_a_reshape_takes_along_what_it_moves(used: int, tmp_path) -> None:
    """What the driver leaves out, and moves nowhere, may be another service's."""
    host = settled_host(FakePlacement(), {"d": inventory(VCPU=8, VGPU=2)}, tmp_path / "state")
    stranger, records = host.stranger, {"VCPU": 8, "VGPU": 2, "DISK_GB": 5}
    stranger.set_inventory(ROOT, {name: {"total": total} for name, total in records.items()})
    guest = stranger.put_allocation({ROOT: {"VGPU": 1}}) if used else ""
    host.lose_all()

    def to_a_child(tree, allocations) -> None:
        if "VGPU" in tree.data(NODE).inventory and allocations is None:
            raise ReshapeNeeded
        both(inventory(VCPU=8), child("card", VGPU=2))(tree)
        for held in (allocations or {}).values():
            held["allocations"][CARD] = held["allocations"].pop(ROOT)

    host.restart(d=to_a_child).settled()
    assert (host.totals(), host.totals("card")) == ({"VCPU": 8, "DISK_GB": 5}, {"VGPU": 2})
    if used:
        assert stranger.allocation(guest)["allocations"].keys() == {CARD}


def test_a_takeover_ends_with_the_first_start(tmp_path) -> None:
    """An agent that ran and was stopped before it reported has seen nothing that tells of Nova."""
    host = Host(FakePlacement(), {"d": REPORTS}, state=tmp_path / "state")
    from_nova(host)
    host.stranger.set_inventory(ROOT, {"DISK_GB": {"total": 5}})
    assert host.state is not None
    host.state.mkdir(exist_ok=True)
    (host.state / "status.json").write_text("{}")
    host.restart().settled()
    assert host.totals() == {"VCPU": 8, "DISK_GB": 5}


def test_a_takeover_waits_for_a_driver_that_answers(tmp_path) -> None:
    host = Host(FakePlacement(), {"d": fails}, state=tmp_path / "state")
    from_nova(host)
    host.stranger.set_inventory(ROOT, {"DISK_GB": {"total": 5}})
    before = host.stranger.traits(ROOT)
    assert not host.period().ok and host.stranger.traits(ROOT) == before
    host.says(d=REPORTS).settled()
    assert host.totals() == {"VCPU": 8}


@pytest.mark.parametrize(("driver", "uuid_of"), [("d", own_uuid), ("libvirt", child_uuid)])
def test_a_child_of_ours_by_its_uuid_goes_when_its_driver_removes_it(
    tmp_path, driver, uuid_of
) -> None:
    """The names of drivers are those of their entry points."""
    assert driver == "d" or driver in {one.name for one in entry_points(group=GROUP)}
    reports = both(inventory(VCPU=8), child("card", uuid=uuid_of(ROOT, "card"), VGPU=2))
    host = Host(FakePlacement(), {driver: reports}, state=tmp_path / "state")
    half_restored(host)
    host.restart(**{driver: both(inventory(VCPU=8), removes("card"))}).settled()
    assert not host.is_there("card")
