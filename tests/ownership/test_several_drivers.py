"""Several drivers on one root: each keeps its own part, whatever the others do or fail at."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.reporting.condition import Severity
from drivers.api import DriverNotReady, ReshapeFailed, ReshapeNeeded
from reportclient import errors
from reportclient.provider_tree import own_uuid
from tests.agents import NODE, ROOT, Agent, Body, Small, both, whole_root
from tests.ownership.world import (
    SOON,
    Host,
    aggregates,
    child,
    fails,
    inventory,
    pool,
    removes,
    settled_host,
    traits,
    unanswered,
)
from tests.stranger import FakePlacement

RACK, ROW = "aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"
THEIRS = "bbbbbbbb-0000-4000-8000-000000000001"
POOL = "eeeeeeee-0000-4000-8000-000000000001"


def children(prefix: str, *numbers: int) -> Body:
    """Children by number; those with the prefix that are not named are taken away."""

    def body(tree: Any) -> None:
        wanted = {f"{prefix}{number}" for number in numbers}
        for uuid in tree.get_provider_uuids():
            name = tree.exists(uuid) and tree.data(uuid).name
            if name and name.startswith(prefix) and name not in wanted:
                tree.remove(uuid)
        for name in sorted(wanted):
            if not tree.exists(name):
                tree.new_child(name, NODE)
            tree.update_inventory(name, {"CUSTOM_DEVICE": {"total": 1}})
            tree.add_traits(name, "CUSTOM_BOUGHT")

    return body


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_a_driver_put_beside_one_that_had_all_takes_nothing_of_it(placement, order) -> None:
    """There is no journal of what the old one reported while it was alone."""
    both_parts = both(whole_root(VCPU=8), children("cell", 0, 1))
    settled_host(placement, {"old": both_parts})
    writes = len(placement.writes)
    bodies = {"old": both_parts, "new": whole_root(FPGA=2)}
    host = settled_host(placement, {name: bodies[name] for name in order})
    assert host.totals() == {"VCPU": 8, "FPGA": 2}
    assert host.names() == {NODE, "cell0", "cell1"}
    assert len(placement.writes) == writes + 1


# -- one that can't be asked


def test_only_the_part_of_the_one_that_fails_is_frozen(placement) -> None:
    first = both(whole_root(VCPU=8, MEMORY_MB=512), children("cell", 0, 1))
    second = both(whole_root(FPGA=2), children("card", 0, 1))
    host = settled_host(placement, {"a": first, "b": second})
    report = host.says(a=both(whole_root(VCPU=16), children("cell", 1, 2)), b=fails).period()
    assert list(report.driver_errors) == ["b"]
    assert host.totals() == {"VCPU": 16, "FPGA": 2}, "a's class went, b's stayed"
    assert host.names() == {NODE, "cell1", "cell2", "card0", "card1"}
    host.says(b=both(whole_root(FPGA=1), children("card", 1))).settled()
    assert host.totals() == {"VCPU": 16, "FPGA": 1}
    assert host.names() == {NODE, "cell1", "cell2", "card1"}


def test_a_driver_is_told_of_a_sharing_provider_that_it_is_not_shown(placement) -> None:
    shares = pool("pool", POOL, RACK, DISK_GB=8)
    told: list[bool] = []
    looks = lambda tree: told.append(tree.has_sharing_provider("DISK_GB"))
    settled_host(placement, {"a": shares, "b": looks})
    assert all(told)


def test_what_a_driver_reported_goes_once_it_is_not_configured(placement, tmp_path: Path) -> None:
    """Also when guests use it: then once they are gone, however many restarts later."""
    cards = both(whole_root(FPGA=2), children("card", 0, 1))
    settled_host(placement, {"a": whole_root(VCPU=8), "b": cards}, tmp_path)
    card = own_uuid(ROOT, "card1")
    guest = placement.stranger.put_allocation({card: {"CUSTOM_DEVICE": 1}})
    host = Host(placement, {"a": whole_root(VCPU=8)}, tmp_path)
    assert host.period().texts(Severity.INFO)
    assert host.names() == {NODE, "card1"}
    assert host.totals() == {"VCPU": 8}
    host = Host(placement, {"a": whole_root(VCPU=8)}, tmp_path)
    placement.stranger.delete_allocation(guest)
    host.settled()
    assert host.names() == {NODE}
    host = settled_host(placement, {"a": whole_root(VCPU=8)}, tmp_path)
    assert host.tracker.ledger.owners() == {"agent", "driver:a"}


def test_the_host_can_do_what_one_of_its_drivers_can(placement) -> None:
    host = Host(placement, {"host": whole_root(VCPU=8), "cards": children("card", 1)})
    host.named["host"].capabilities = {"supports_multiattach": True, "supports_bfv_rescue": False}
    host.named["cards"].capabilities = dict.fromkeys(host.named["host"].capabilities, False)
    placement.stranger.create_provider(NODE, ROOT)
    placement.stranger.add_trait(ROOT, "COMPUTE_RESCUE_BFV")
    host.settled()
    traits = placement.stranger.traits(ROOT)
    assert "COMPUTE_VOLUME_MULTI_ATTACH" in traits
    assert "COMPUTE_RESCUE_BFV" not in traits


@pytest.mark.parametrize("disabled", [True, None])
def test_no_driver_opens_a_host_that_is_closed(placement, disabled: bool | None) -> None:
    """Also while nobody can say whether it is: the last known status holds."""
    sets_all = lambda tree: tree.update_traits(NODE, ["CUSTOM_A"])
    host = Host(placement, {"host": whole_root(VCPU=8), "cards": sets_all})
    host.nodes.period(0.0, disabled=True)
    (report,) = host.nodes.period(600.0, disabled=disabled)
    assert report.ok and not report.done
    assert "COMPUTE_STATUS_DISABLED" in placement.stranger.traits(ROOT)


def test_the_allocations_are_passed_only_to_the_driver_that_needs_them(placement, tmp_path) -> None:
    child = own_uuid(ROOT, "gpu")

    def needs_reshape(tree: Any, allocations: Any) -> None:
        if "VGPU" not in tree.data(NODE).inventory:
            return
        if allocations is None:
            raise ReshapeNeeded
        tree.update_inventory(NODE, {})
        tree.new_child("gpu", NODE)
        tree.update_inventory("gpu", {"VGPU": {"total": 4}})
        for one in allocations.values():
            held = one["allocations"].pop(ROOT)
            one["allocations"][child] = {"resources": {"VGPU": held["resources"].pop("VGPU")}}
            if held["resources"]:
                one["allocations"][ROOT] = held

    def needs_none(tree: Any, allocations: Any) -> None:
        assert allocations is None
        tree.update_inventory(NODE, {"FPGA": {"total": 2}})

    settled_host(placement, {"gpus": whole_root(VGPU=4), "cards": whole_root(FPGA=2)}, tmp_path)
    consumer = placement.stranger.put_allocation({ROOT: {"VGPU": 1, "FPGA": 1}})
    host = Host(placement, {"gpus": unanswered, "cards": unanswered}, tmp_path)
    for name, body in (("gpus", needs_reshape), ("cards", needs_none)):
        ask = lambda tree, _, allocations=None, body=body: body(tree, allocations)
        host.named[name].update_provider_tree = ask
    report = host.period()
    assert report.ok, report.texts()
    found = placement.stranger.allocation(consumer)["allocations"]
    held = {uuid: one["resources"] for uuid, one in found.items()}
    assert held == {child: {"VGPU": 1}, ROOT: {"FPGA": 1}}


class Moving(Small):
    """Reports CUSTOM_OLD; once ``moves``, CUSTOM_NEW in its place, with the allocations on it."""

    def __init__(self, old: str, new: str, *, ready: bool = True) -> None:
        super().__init__(lambda _: None)
        self.old, self.new, self.ready = old, new, ready
        self.moves = False
        self.gives_up = False

    def update_provider_tree(self, tree: Any, node: str, allocations: Any = None) -> None:
        if not self.ready:
            raise DriverNotReady("not now")
        inventory = {
            name: {"total": record["total"]} for name, record in tree.data(node).inventory.items()
        }
        if self.moves and self.old in inventory:
            if allocations is None:
                raise ReshapeNeeded
            if self.gives_up:
                raise ReshapeFailed("guest 1 fits nowhere")
            for one in allocations.values():
                held = one["allocations"][ROOT]["resources"]
                held[self.new] = held.pop(self.old)
        inventory.pop(self.old, None)
        name = self.new if self.moves else self.old
        tree.update_inventory(node, {**inventory, name: {"total": 4}})


def totals(placement: FakePlacement) -> dict[str, int]:
    found = placement.stranger.inventory(ROOT)
    return {name: record["total"] for name, record in found.items()}


def test_a_driver_that_never_answers_keeps_the_start_of_no_other_open(placement, tmp_path) -> None:
    unanswered = Moving("CUSTOM_SILENT", "CUSTOM_AWAKE", ready=False)
    other = Moving("CUSTOM_OLD", "CUSTOM_NEW")
    agent = Agent(placement, named={"unanswered": unanswered, "other": other}, state=tmp_path)
    agent.period()
    consumer = placement.stranger.put_allocation({ROOT: {"CUSTOM_OLD": 1}})

    other.moves = True
    report = agent.period()
    assert report.reshape_pending == ("other",)
    assert totals(placement) == {"CUSTOM_OLD": 4}

    unanswered.ready = True
    assert agent.period().reshape_pending == ("other",)
    assert totals(placement) == {"CUSTOM_OLD": 4, "CUSTOM_SILENT": 4}
    agent.restart().settled()
    held = placement.stranger.allocation(consumer)["allocations"][ROOT]["resources"]
    assert held == {"CUSTOM_NEW": 1}


def test_a_driver_that_starts_late_may_still_reshape(placement, tmp_path) -> None:
    late = Moving("CUSTOM_LATE", "CUSTOM_READY")
    other = Moving("CUSTOM_OLD", "CUSTOM_NEW")
    agent = Agent(placement, named={"late": late, "other": other}, state=tmp_path).settle()
    agent.restart()
    late.ready = False
    agent.period()
    consumer = placement.stranger.put_allocation({ROOT: {"CUSTOM_OLD": 1, "CUSTOM_LATE": 1}})
    late.ready = late.moves = other.moves = True
    assert agent.period().reshape_pending == ("other",)
    assert totals(placement) == {"CUSTOM_OLD": 4, "CUSTOM_READY": 4}
    held = placement.stranger.allocation(consumer)["allocations"][ROOT]["resources"]
    assert held == {"CUSTOM_OLD": 1, "CUSTOM_READY": 1}


@pytest.mark.parametrize("unanswered", [False, True])
def test_a_reshape_that_fails_after_others_have_started_ends_no_agent(
    placement, tmp_path, unanswered: bool
) -> None:
    """Also days later, and by the first answer of a driver."""
    first, other = Moving("CUSTOM_FIRST", "CUSTOM_X"), Moving("CUSTOM_OLD", "CUSTOM_NEW")
    agent = Agent(placement, named={"first": first, "other": other}, state=tmp_path).settle()
    agent.restart()
    first.ready = not unanswered
    agent.period()
    first.ready = first.moves = first.gives_up = True
    agent.tracker.rules = replace(agent.rules, reshape_when_running=True)
    report = agent.period()
    assert not report.fatal and "guest 1" in str(report.texts())


# -- what is put back, released or was another service's


def device(tree: Any) -> None:
    """A child with all that a provider can have, and one below it."""
    child("card", CUSTOM_SLOT=4)(tree)
    record = {"total": 4, "reserved": 1, "max_unit": 2, "allocation_ratio": 1.5}
    tree.update_inventory("card", {"CUSTOM_SLOT": record})
    tree.add_traits("card", "CUSTOM_FAST")
    tree.add_aggregates("card", RACK)
    child("port", parent="card", CUSTOM_PORT=2)(tree)
    tree.add_traits("port", "CUSTOM_LINK")


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_provider_that_another_driver_removes_stays_whole(placement, order: str) -> None:
    bodies: dict[str, Body] = {"a": device, "b": unanswered}
    host = settled_host(placement, {name: bodies[name] for name in order})
    before = host.everything()
    report = host.says(b=removes("port", "card")).period(SOON)
    assert not report.done, "neither removed nor made anew"
    assert host.everything() == before


def test_a_driver_moves_renames_and_removes_its_own_provider(placement) -> None:
    host = settled_host(placement, {"a": both(child("cell"), device), "b": inventory(FPGA=1)})
    host.says(a=lambda tree: (tree.move("card", "cell"), tree.rename("port", "port0")))
    report = host.period(SOON)
    assert report.ok, report.texts()
    assert host.parent("card") == "cell" and host.parent("port0") == "card"
    assert host.says(a=both(child("cell"), removes("port0", "card"))).period(SOON).ok
    assert host.names() == {NODE, "cell"}
    assert host.totals() == {"FPGA": 1}


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("renamed the root provider", lambda tree: tree.rename(NODE, "mine")),
        ("removed the root provider", lambda tree: tree.remove(NODE)),
    ],
)
def test_a_driver_whose_answer_is_refused_keeps_its_part_and_stops_nobody(
    placement, said: str, wrong
) -> None:
    """Nothing of the refused answer is used, not even what would be right by itself."""
    host = settled_host(
        placement, {"a": both(child("card"), inventory(VCPU=8)), "b": child("b0", FPGA=2)}
    )
    host.says(a=both(child("card"), inventory(VCPU=16)))
    report = host.says(b=both(child("b0", FPGA=3), child("b1", FPGA=9), wrong)).period(SOON)
    assert report.driver_errors.keys() == {"b"}
    assert said in str(report.driver_errors["b"])
    assert host.totals() == {"VCPU": 16}
    assert host.names() == {NODE, "card", "b0"}
    assert host.totals("b0") == {"FPGA": 2}
    host.says(b=child("b0", FPGA=3)).settled()
    assert host.totals("b0") == {"FPGA": 3}


def test_a_driver_under_a_new_name_has_what_it_had_under_the_old_one(placement, tmp_path) -> None:
    said = both(inventory(FPGA=2), child("card", CUSTOM_SLOT=4), traits("CUSTOM_B"))
    Host(placement, {"a": unanswered, "b": said}, tmp_path).settled()
    host = Host(placement, {"a": unanswered, "renamed": said}, tmp_path)
    report = host.period()
    assert report.ok and not report.done, "not removed and made again"
    assert host.totals() == {"FPGA": 2} and host.totals("card") == {"CUSTOM_SLOT": 4}


def test_drivers_that_set_everything_remove_nothing_of_another_service(placement) -> None:
    def sets_all(trait: str) -> Any:
        return lambda tree: (
            tree.update_traits(NODE, [trait]),
            tree.update_aggregates(NODE, [RACK]),
            removes("strange")(tree),
        )

    host = settled_host(placement, {"a": sets_all("CUSTOM_A"), "b": sets_all("CUSTOM_B")})
    host.stranger.create_child(ROOT, "strange")
    host.stranger.add_trait(ROOT, "CUSTOM_STRANGE")
    host.stranger.set_aggregates(ROOT, [RACK, THEIRS])
    host.period()
    assert host.custom() == {"CUSTOM_A", "CUSTOM_B", "CUSTOM_STRANGE"}
    assert host.aggregates() == {RACK, THEIRS}
    assert host.is_there("strange")


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


def test_an_aggregate_that_a_driver_only_repeats_stays_another_services(placement) -> None:
    """It set what was there already, as drivers do that read, add and set."""
    reads = lambda tree: tree.update_aggregates(NODE, {*tree.data(NODE).aggregates, RACK})
    only = lambda tree: tree.update_aggregates(NODE, [RACK])
    host = settled_host(placement, {"a": reads, "b": unanswered})
    host.stranger.set_aggregates(ROOT, [RACK, THEIRS])
    host.settled()
    host.says(a=only).period()
    assert host.aggregates() == {RACK, THEIRS}


def test_a_driver_that_drops_an_aggregate_drops_its_own_only(placement) -> None:
    host = settled_host(placement, {"a": aggregates(RACK, ROW)})
    host.stranger.set_aggregates(ROOT, [RACK, ROW, THEIRS])
    host.says(a=lambda tree: tree.update_aggregates(NODE, [RACK])).period()
    assert host.aggregates() == {RACK, THEIRS}


def test_a_refused_removal_is_repeated_though_another_driver_is_not_ready(placement) -> None:
    host = settled_host(placement, {"a": traits("CUSTOM_A"), "b": unanswered})
    host.says(a=lambda tree: tree.update_traits(NODE, []), b=fails)
    placement.fail_next("PUT", "/traits$", errors.Forbidden("403"))
    host.period()
    host.period()
    assert host.custom() == set()


def test_a_drained_device_comes_back_though_another_driver_is_not_ready(placement) -> None:
    host = settled_host(placement, {"a": child("card", CUSTOM_SLOT=4), "b": unanswered})
    host.stranger.put_allocation({host.uuid("card"): {"CUSTOM_SLOT": 1}})
    host.says(a=removes("card")).period()
    assert host.reserved("card") == {"CUSTOM_SLOT": 4}
    host.says(a=child("card", CUSTOM_SLOT=4), b=fails).period()
    assert host.reserved("card") == {"CUSTOM_SLOT": 0}
