"""What the ledger of ownership has to put right; each test is taken for wrong today."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivers.api import ReshapeNeeded
from reportclient import errors
from tests.ownership.world import (
    NODE,
    ROOT,
    SOON,
    Host,
    aggregates,
    both,
    child,
    fails,
    inventory,
    pool,
    removes,
    settled_host,
    silent,
    traits,
)

STRANGE = "dddddddd-0000-4000-8000-000000000001"
POOL = "eeeeeeee-0000-4000-8000-000000000001"
RACK, ROW = "aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"
THEIRS = "bbbbbbbb-0000-4000-8000-000000000001"
DISABLED = "COMPUTE_STATUS_DISABLED"


def strange_device(host: Host) -> str:
    """Somebody else's, below our root, with a guest on it."""
    made = host.stranger.create_child(ROOT, "strange", STRANGE)
    host.stranger.set_inventory(made, {"FPGA": {"total": 2}})
    return host.stranger.put_allocation({made: {"FPGA": 1}})


# -- one driver alone


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.remove("strange"),
        lambda tree: tree.update_inventory("strange", {}),
        lambda tree: tree.update_inventory("strange", {"FPGA": {"total": 9}}),
        lambda tree: tree.rename("strange", "mine"),
        lambda tree: tree.add_traits("strange", "CUSTOM_MINE"),
        lambda tree: tree.add_aggregates("strange", RACK),
    ],
    ids=["removed", "emptied", "inventory", "renamed", "trait", "aggregate"],
)
@pytest.mark.parametrize("in_use", [False, True], ids=["free", "in use"])
def test_one_driver_alone_does_not_change_a_strangers_provider(
    placement, change: Any, in_use: bool
) -> None:
    host = settled_host(placement, {"a": inventory(VCPU=8)})
    guest = strange_device(host)
    if not in_use:
        host.stranger.delete_allocation(guest)
    before = host.everything()["strange"]
    host.says(a=both(inventory(VCPU=8), change))
    assert "strange" in host.complaints()
    assert host.everything()["strange"] == before


def test_one_driver_alone_that_sets_all_traits_wipes_none_of_a_strangers(placement) -> None:
    sets_all = lambda tree: tree.update_traits(NODE, ["CUSTOM_A"])  # noqa: E731
    host = settled_host(placement, {"a": sets_all})
    host.stranger.add_trait(ROOT, "CUSTOM_STRANGE")
    host.period()
    assert host.custom() == {"CUSTOM_A", "CUSTOM_STRANGE"}


def test_several_drivers_that_set_all_wipe_none_of_a_strangers(placement) -> None:
    def sets_all(trait: str) -> Any:
        return lambda tree: (
            tree.update_traits(NODE, [trait]),
            tree.update_aggregates(NODE, [RACK]),
            removes("strange")(tree),
        )

    host = settled_host(placement, {"a": sets_all("CUSTOM_A"), "b": sets_all("CUSTOM_B")})
    host.stranger.delete_allocation(strange_device(host))
    host.stranger.add_trait(ROOT, "CUSTOM_STRANGE")
    host.stranger.set_aggregates(ROOT, [RACK, THEIRS])
    host.period()
    assert host.custom() == {"CUSTOM_A", "CUSTOM_B", "CUSTOM_STRANGE"}
    assert host.aggregates() == {RACK, THEIRS}
    assert host.is_there("strange")


def test_a_device_in_use_is_not_moved_below_another_root_and_comes_back_with_a_mended_driver(
    placement,
) -> None:
    good = both(
        inventory(VCPU=8), pool("pool", POOL, RACK, DISK_GB=900), child("card", CUSTOM_SLOT=4)
    )
    host = settled_host(placement, {"a": good})
    host.stranger.put_allocation({host.uuid("card"): {"CUSTOM_SLOT": 1}})
    host.says(a=both(good, lambda tree: tree.move("card", POOL)))
    assert "card" in host.complaints()
    assert host.parent("card") == NODE
    host.says(a=good)
    host.settled()
    assert host.parent("card") == NODE


def test_a_device_that_is_below_another_root_comes_back_with_a_mended_driver(placement) -> None:
    good = both(
        inventory(VCPU=8), pool("pool", POOL, RACK, DISK_GB=900), child("card", CUSTOM_SLOT=4)
    )
    host = settled_host(placement, {"a": good})
    host.says(a=both(good, lambda tree: tree.move("card", POOL)))
    host.period()
    host.says(a=both(good, lambda tree: tree.move("card", NODE)))
    host.period()
    host.settled()
    assert host.parent("card") == NODE


# -- what is kept, and lost


def test_a_root_class_stays_whose_driver_left_while_the_ledger_was_damaged(
    placement, tmp_path: Path
) -> None:
    """Nobody knows whose it was: it may as well be a stranger's."""
    Host(placement, {"a": inventory(VCPU=8), "b": inventory(FPGA=2)}, tmp_path).settled()
    host = Host(placement, {"a": inventory(VCPU=8)}, tmp_path)
    host.damage_ledger()
    host.period()
    host.period()
    assert host.totals() == {"VCPU": 8, "FPGA": 2}


def test_a_pool_of_a_driver_that_left_goes_once_nobody_uses_it(placement, tmp_path: Path) -> None:
    """It is not shared with this host any more, and so it is looked at no more."""
    parts = {"a": inventory(VCPU=8), "b": pool("pool", POOL, RACK, DISK_GB=900)}
    Host(placement, parts, tmp_path).settled()
    host = Host(placement, {"a": inventory(VCPU=8)}, tmp_path)
    guest = host.stranger.put_allocation({POOL: {"DISK_GB": 100}})
    host.period()
    assert host.reserved("pool") == {"DISK_GB": 900}
    host.stranger.delete_allocation(guest)
    host.period()
    host.settled()
    assert not host.is_there("pool") or host.totals("pool") == {}


# -- the status is the agent's


@pytest.mark.parametrize("disabled", [None, False])
def test_a_driver_that_disables_its_host_is_told_and_disables_nothing(
    placement, disabled: bool | None
) -> None:
    host = Host(placement, {"a": both(inventory(VCPU=8), traits(DISABLED))})
    assert DISABLED in host.complaints(disabled=disabled)
    assert DISABLED not in host.traits()


# -- roots that others hang things below


def test_children_of_an_attached_agent_outlive_a_node_that_vanishes(
    placement, tmp_path: Path
) -> None:
    owner = Host(placement, {"a": lambda tree: None}, tmp_path, audit_every=None, node="n0")
    owner.is_called("n0", "n1")
    owner.periods()
    owner.periods()
    root = owner.uuid("n1")
    beside = settled_host(
        placement,
        {"cards": child("card", parent="n1", CUSTOM_SLOT=4)},
        attached=True,
        node="n1",
        root=root,
    )
    owner.periods()
    owner.is_called("n0")
    for _ in range(4):
        owner.periods(10_000)
    assert beside.totals("card") == {"CUSTOM_SLOT": 4}
    assert owner.is_there("n1")


def test_a_device_drained_while_its_host_is_renamed_is_not_reserved_for_ever(
    placement, tmp_path: Path
) -> None:
    """As drivers do that begin the names of their devices with the host's."""

    def named(prefix: str) -> Any:
        return child(f"{prefix}_card", CUSTOM_SLOT=4)

    def heir(prefix: str, old: str) -> Any:
        def body(tree: Any, allocations: Any) -> None:
            if tree.exists(f"{old}_card"):
                if allocations is None:
                    raise ReshapeNeeded
                before = tree.data(f"{old}_card")
                named(prefix)(tree)
                made = tree.data(f"{prefix}_card").uuid
                reserved = before.inventory["CUSTOM_SLOT"].get("reserved") or 0
                tree.update_inventory(made, {"CUSTOM_SLOT": {"total": 4, "reserved": reserved}})
                for held in allocations.values():
                    part = held["allocations"].pop(before.uuid, None)
                    if part is not None:
                        held["allocations"][made] = {"resources": part["resources"]}
                tree.remove(before.uuid)
            else:
                named(prefix)(tree)

        return body

    host = settled_host(placement, {"a": named("old")}, tmp_path)
    guest = host.stranger.put_allocation({host.uuid("old_card"): {"CUSTOM_SLOT": 1}})
    host.says(a=removes("old_card"))
    host.period()
    assert host.reserved("old_card") == {"CUSTOM_SLOT": 4}
    host.restart(a=heir("new", "old"))
    host.period()
    host.period()
    host.stranger.delete_allocation(guest)
    host.period()
    assert host.totals("new_card") == {"CUSTOM_SLOT": 4}
    assert host.reserved("new_card") == {"CUSTOM_SLOT": 0}


def test_two_nodes_that_swap_names_get_them(placement, tmp_path: Path) -> None:
    told = {"n1": STRANGE, "n2": THEIRS}
    host = Host(placement, {"a": lambda tree: None}, tmp_path, node="n1")
    host.is_called("n1", "n2")
    host.tells(told)
    for _ in range(2):
        assert all(report.ok for report in host.periods())
    assert (host.uuid("n1"), host.uuid("n2")) == (STRANGE, THEIRS)
    host.tells({"n1": THEIRS, "n2": STRANGE})
    for _ in range(3):
        reports = host.periods()
    assert all(report.ok for report in reports), [report.texts() for report in reports]
    assert (host.uuid("n1"), host.uuid("n2")) == (THEIRS, STRANGE)


# -- a reshape that is not allowed now


def test_while_a_reshape_is_pending_the_rest_of_that_driver_is_reported(placement) -> None:
    def wants_reshape(vcpus: int) -> Any:
        def body(tree: Any, allocations: Any) -> None:
            tree.update_inventory(NODE, {"VCPU": {"total": vcpus}})
            child("card", CUSTOM_SLOT=vcpus)(tree)
            if allocations is None:
                raise ReshapeNeeded
            child("gpu", VGPU=4)(tree)
            for held in allocations.values():
                part = held["allocations"].pop(ROOT)
                held["allocations"][tree.data("gpu").uuid] = part

        return body

    plain = lambda tree: (  # noqa: E731
        tree.update_inventory(NODE, {"VCPU": {"total": 8}, "VGPU": {"total": 4}}),
        child("card", CUSTOM_SLOT=8)(tree),
    )
    host = settled_host(placement, {"a": plain})
    host.stranger.put_allocation({ROOT: {"VGPU": 1}})
    host.says(a=wants_reshape(16))
    report = host.period(SOON)
    assert report.reshape_pending == ("a",)
    assert host.totals("card") == {"CUSTOM_SLOT": 16}
    assert host.totals() == {"VCPU": 16, "VGPU": 4}, "what moves stays where guests use it"


# -- the order of answers decides nothing but exclusive claims


def test_one_of_two_that_names_an_aggregate_of_a_stranger_does_not_make_it_its_own(
    placement,
) -> None:
    """It set what was there already, as drivers do that read, add and set."""
    reads = lambda tree: tree.update_aggregates(NODE, {*tree.data(NODE).aggregates, RACK})  # noqa: E731
    only = lambda tree: tree.update_aggregates(NODE, [RACK])  # noqa: E731
    host = settled_host(placement, {"a": reads, "b": silent})
    host.stranger.set_aggregates(ROOT, [RACK, THEIRS])
    host.settled()
    host.says(a=only)
    host.period()
    assert host.aggregates() == {RACK, THEIRS}


def test_one_driver_alone_that_drops_an_aggregate_drops_its_own_only(placement) -> None:
    host = settled_host(placement, {"a": aggregates(RACK, ROW)})
    host.stranger.set_aggregates(ROOT, [RACK, ROW, THEIRS])
    host.says(a=lambda tree: tree.update_aggregates(NODE, [RACK]))
    host.period()
    assert host.aggregates() == {RACK, THEIRS}


# -- what was released


@pytest.mark.parametrize(
    ("path", "said", "left", "there"),
    [
        ("/aggregates$", aggregates(RACK), lambda t: t.update_aggregates(NODE, []), "aggregates"),
        ("/traits$", traits("CUSTOM_A"), lambda t: t.update_traits(NODE, []), "custom"),
    ],
    ids=["aggregate", "trait"],
)
@pytest.mark.parametrize("error", [errors.Forbidden("403"), errors.Conflict("409")])
def test_what_one_released_goes_though_it_was_refused_first_and_another_is_not_ready(
    placement, path: str, said: Any, left: Any, there: str, error: errors.PlacementError
) -> None:
    host = settled_host(placement, {"a": said, "b": silent})
    host.says(a=left, b=fails)
    placement.fail_next("PUT", path, error)
    host.period()
    host.period()
    assert getattr(host, there)() == set()


@pytest.mark.parametrize(
    ("drops", "reports", "stays"),
    [
        (
            lambda tree: tree.remove_traits(NODE, "CUSTOM_C"),
            traits("CUSTOM_C"),
            lambda host: host.custom() == {"CUSTOM_C"},
        ),
        (removes("card"), child("card", CUSTOM_SLOT=4), lambda host: host.is_there("card")),
    ],
    ids=["a trait", "a device"],
)
def test_what_one_had_that_left_stays_while_another_can_not_be_asked(
    placement, tmp_path: Path, drops, reports, stays
) -> None:
    host = settled_host(placement, {"a": drops, "b": silent, "c": reports}, tmp_path)
    host.restart(a=drops, b=fails)
    host.period()
    assert stays(host), "it may as well be b's by now"


def test_one_that_was_alone_keeps_its_record_when_another_comes_and_it_can_not_be_asked(
    placement, tmp_path: Path
) -> None:
    Host(placement, {"a": inventory(VCPU=8)}, tmp_path).settled()
    host = Host(placement, {"a": fails, "b": inventory(VCPU=4)}, tmp_path)
    host.period()
    assert host.totals() == {"VCPU": 8}


def test_a_drained_device_that_comes_back_is_opened_though_another_can_not_be_asked(
    placement,
) -> None:
    host = settled_host(placement, {"a": child("card", CUSTOM_SLOT=4), "b": silent})
    host.stranger.put_allocation({host.uuid("card"): {"CUSTOM_SLOT": 1}})
    host.says(a=removes("card"))
    host.period()
    assert host.reserved("card") == {"CUSTOM_SLOT": 4}
    host.says(a=child("card", CUSTOM_SLOT=4), b=fails)
    host.period()
    assert host.reserved("card") == {"CUSTOM_SLOT": 0}
