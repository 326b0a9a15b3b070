"""Several drivers on one root: each keeps its own part, whatever the others do or fail at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drivers.api import DriverNotReady, ReshapeFailed, ReshapeNeeded
from reportclient.provider_tree import own_key, own_uuid
from tests.agents import NODE, ROOT, Agent, Body, Small, both, whole_root
from tests.ownership.world import Host, fails, pool, settled_host, silent
from tests.stranger import FakePlacement

AGGREGATE = "aaaaaaaa-0000-4000-8000-00000000000a"
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
    host.says(a=both(whole_root(VCPU=16), children("cell", 1, 2)), b=fails)
    report = host.period()
    assert list(report.driver_errors) == ["b"]
    assert host.totals() == {"VCPU": 16, "FPGA": 2}, "a's class went, b's stayed"
    assert host.names() == {NODE, "cell1", "cell2", "card0", "card1"}
    host.says(b=both(whole_root(FPGA=1), children("card", 1)))
    host.settled()
    assert host.totals() == {"VCPU": 16, "FPGA": 1}
    assert host.names() == {NODE, "cell1", "cell2", "card1"}


# -- against each other


def test_an_earlier_driver_gets_a_class_that_a_later_one_had(placement) -> None:
    host = settled_host(placement, {"a": whole_root(VCPU=8), "b": whole_root(FPGA=2)})
    host.says(a=whole_root(VCPU=8, FPGA=7))
    assert host.period().texts()
    assert host.totals() == {"VCPU": 8, "FPGA": 7}


def test_drivers_that_take_away_all_that_they_do_not_know_live_side_by_side(placement) -> None:
    """The usual way to find one's own: by the UUID that is made from the key."""

    def reports(*names: str) -> Body:
        def body(tree: Any) -> None:
            for uuid in tree.get_provider_uuids_in_tree(NODE)[1:]:
                name = tree.data(uuid).name
                if tree.exists(uuid) and own_key(ROOT, uuid, name) and name not in names:
                    tree.remove(uuid)
            for name in names:
                if not tree.exists(name):
                    tree.new_child(name, NODE)
                tree.update_inventory(name, {"CUSTOM_DEVICE": {"total": 1}})

        return body

    bodies = {"a": reports("cell0", "cell1"), "b": reports("card0", "card1")}
    host = settled_host(placement, bodies)
    assert host.names() == {NODE, "cell0", "cell1", "card0", "card1"}
    host.says(a=reports("cell1"))
    host.settled()
    assert host.names() == {NODE, "cell1", "card0", "card1"}


def test_a_name_is_not_taken_from_another_ones_provider(placement) -> None:
    host = settled_host(placement, {"a": children("cell", 0), "b": whole_root(FPGA=1)})

    def thief(tree: Any) -> None:
        tree.remove("cell0")
        tree.new_child("cell0", NODE, POOL)

    host.says(b=both(thief, whole_root(FPGA=2)))
    report = host.period()
    assert "another owner has its name" in str(report.texts())
    assert host.names() == {NODE, "cell0"}
    assert host.totals() == {"FPGA": 2}, "the rest of the answer counts"


def test_a_driver_is_told_of_a_sharing_provider_whose_class_it_is_not_shown(placement) -> None:
    shares = pool("pool", POOL, AGGREGATE, DISK_GB=8)
    told: list[bool] = []
    looks = lambda tree: told.append(tree.has_sharing_provider("DISK_GB"))  # noqa: E731
    settled_host(placement, {"a": shares, "b": looks})
    assert all(told)


def test_what_a_driver_that_is_not_configured_any_more_reported_is_taken_away(
    placement, tmp_path: Path
) -> None:
    """Also when guests use it: then once they are gone, however many restarts later."""
    cards = both(whole_root(FPGA=2), children("card", 0, 1))
    settled_host(placement, {"a": whole_root(VCPU=8), "b": cards}, tmp_path)
    card = own_uuid(ROOT, "card1")
    guest = placement.stranger.put_allocation({card: {"CUSTOM_DEVICE": 1}})
    host = Host(placement, {"a": whole_root(VCPU=8)}, tmp_path)
    assert host.period().draining
    assert host.names() == {NODE, "card1"}
    assert host.totals() == {"VCPU": 8}
    host = Host(placement, {"a": whole_root(VCPU=8)}, tmp_path)
    placement.stranger.delete_allocation(guest)
    host.settled()
    assert host.names() == {NODE}
    host = settled_host(placement, {"a": whole_root(VCPU=8)}, tmp_path)
    assert host.tracker.ledger.managers() == {"agent", "driver:a"}


def test_the_host_can_do_what_one_of_its_drivers_can(placement) -> None:
    host = Host(placement, {"host": whole_root(VCPU=8), "cards": children("card", 1)})
    host.named["host"].capabilities = {
        "supports_multiattach": True,
        "supports_bfv_rescue": False,
    }
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
    sets_all = lambda tree: tree.update_traits(NODE, ["CUSTOM_A"])  # noqa: E731
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
    host = Host(placement, {"gpus": silent, "cards": silent}, tmp_path)
    for name, body in (("gpus", needs_reshape), ("cards", needs_none)):
        ask = lambda tree, _, allocations=None, body=body: body(tree, allocations)  # noqa: E731
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


def test_a_driver_that_never_answers_does_not_keep_the_start_of_the_others_open(
    placement, tmp_path
) -> None:
    silent = Moving("CUSTOM_SILENT", "CUSTOM_AWAKE", ready=False)
    other = Moving("CUSTOM_OLD", "CUSTOM_NEW")
    agent = Agent(placement, named={"silent": silent, "other": other}, state=tmp_path)
    agent.period()
    consumer = placement.stranger.put_allocation({ROOT: {"CUSTOM_OLD": 1}})

    other.moves = True
    report = agent.period()
    assert report.reshape_pending == ("other",)
    assert totals(placement) == {"CUSTOM_OLD": 4}

    silent.ready = True
    assert agent.period().reshape_pending == ("other",)
    assert totals(placement) == {"CUSTOM_OLD": 4, "CUSTOM_SILENT": 4}
    agent.restart()
    agent.settled()
    held = placement.stranger.allocation(consumer)["allocations"][ROOT]["resources"]
    assert held == {"CUSTOM_NEW": 1}


def test_a_reshape_at_the_start_of_a_driver_is_done_beside_one_that_has_started(
    placement, tmp_path
) -> None:
    late = Moving("CUSTOM_LATE", "CUSTOM_READY")
    other = Moving("CUSTOM_OLD", "CUSTOM_NEW")
    agent = Agent(placement, named={"late": late, "other": other}, state=tmp_path)
    agent.settled()
    agent.restart()
    late.ready = False
    agent.period()
    consumer = placement.stranger.put_allocation({ROOT: {"CUSTOM_OLD": 1, "CUSTOM_LATE": 1}})
    late.ready = late.moves = other.moves = True
    assert agent.period().reshape_pending == ("other",)
    assert totals(placement) == {"CUSTOM_OLD": 4, "CUSTOM_READY": 4}
    held = placement.stranger.allocation(consumer)["allocations"][ROOT]["resources"]
    assert held == {"CUSTOM_OLD": 1, "CUSTOM_READY": 1}


@pytest.mark.parametrize("silent", [False, True])
def test_a_reshape_that_fails_after_others_have_started_ends_no_agent(
    placement, tmp_path, silent: bool
) -> None:
    """Also days later, and by the first answer of a driver."""
    first, other = Moving("CUSTOM_FIRST", "CUSTOM_X"), Moving("CUSTOM_OLD", "CUSTOM_NEW")
    agent = Agent(placement, named={"first": first, "other": other}, state=tmp_path)
    agent.settled()
    agent.restart()
    first.ready = not silent
    agent.period()
    first.ready = first.moves = first.gives_up = True
    agent.tracker.rules = replace(agent.rules, reshape_when_running=True)
    report = agent.period()
    assert not report.fatal and "guest 1" in str(report.texts())
