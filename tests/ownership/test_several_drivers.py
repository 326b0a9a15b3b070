"""Several drivers on one root: each keeps its own part, whatever the others do or fail at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.state.root_file import root_path
from drivers.api import DriverNotReady, ReshapeFailed, ReshapeNeeded
from reportclient.provider_tree import own_uuid
from reportclient.testing.fake_placement import FakePlacement
from tests import agents
from tests.agents import NODE, ROOT, Body, Small, both, whole_root

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


def fails(tree: Any) -> None:
    tree.update_inventory(NODE, {"VCPU": {"total": 666}})
    raise DriverNotReady("not now")


class Agent(agents.Agent):
    def __init__(self, placement: FakePlacement, state: Path | None = None, **bodies: Body):
        named = {name: Small(body) for name, body in bodies.items()}
        rules = {"owner_traits": ("CUSTOM_OURS",), "audit_every": None}
        super().__init__(placement, named=named, state=state, **rules)

    def totals(self, uuid: str = ROOT) -> dict[str, int]:
        found = self.placement.stranger.inventory(uuid)
        return {name: record["total"] for name, record in found.items()}

    def managers(self) -> set[str]:
        return self.nodes.trackers[ROOT].ledger.managers()

    def names(self) -> set[str]:
        listed = self.placement.answer("GET", f"/resource_providers?in_tree={ROOT}")
        return {item["name"] for item in listed["resource_providers"]}


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_drivers_that_set_the_whole_root_do_not_wipe_out_each_other(placement, order) -> None:
    bodies = {"a": whole_root(VCPU=8, MEMORY_MB=512), "b": whole_root(FPGA=2)}
    agent = Agent(placement, **{name: bodies[name] for name in order})
    agent.settled()
    assert agent.totals() == {"VCPU": 8, "MEMORY_MB": 512, "FPGA": 2}
    agent.named["b"].body = whole_root(FPGA=3)
    assert agent.period(60).calls == 1
    agent.named["a"].body = whole_root(VCPU=8)
    assert agent.period(60).calls == 1
    assert agent.totals() == {"VCPU": 8, "FPGA": 3}


def test_what_is_done_with_a_root_is_known_while_it_is_done_and_nothing_after_it(placement) -> None:
    seen: list[str] = []
    agent = Agent(placement, a=lambda _: seen.append(agent.nodes.trackers[ROOT].activity))
    agent.settled()
    agent.named["a"].body = fails
    assert not agent.period().ok
    assert (set(seen), agent.nodes.trackers[ROOT].activity) == ({"calling the drivers"}, "")


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_a_driver_put_beside_one_that_had_all_takes_nothing_of_it(placement, order) -> None:
    """There is no journal of what the old one reported while it was alone."""
    both_parts = both(whole_root(VCPU=8), children("cell", 0, 1))
    Agent(placement, old=both_parts).settled()
    writes = len(placement.writes)
    bodies = {"old": both_parts, "new": whole_root(FPGA=2)}
    agent = Agent(placement, **{name: bodies[name] for name in order})
    agent.settled()
    assert agent.totals() == {"VCPU": 8, "FPGA": 2}
    assert agent.names() == {NODE, "cell0", "cell1"}
    assert len(placement.writes) == writes + 1


def test_quiet_periods_of_several_drivers_cost_nothing(placement) -> None:
    agent = Agent(placement, a=both(whole_root(VCPU=8), children("cell", 0)), b=whole_root(FPGA=2))
    agent.settled()
    assert agent.period(60).calls == 0
    assert agent.period(600).calls == 1


# -- one that can't be asked


def test_only_the_part_of_the_one_that_fails_is_frozen(placement) -> None:
    first = both(whole_root(VCPU=8, MEMORY_MB=512), children("cell", 0, 1))
    agent = Agent(placement, a=first, b=both(whole_root(FPGA=2), children("card", 0, 1)))
    agent.settled()
    agent.named["b"].body = fails
    agent.named["a"].body = both(whole_root(VCPU=16), children("cell", 1, 2))
    report = agent.period()
    assert list(report.driver_errors) == ["b"]
    assert agent.totals() == {"VCPU": 16, "FPGA": 2}, "a's class went, b's stayed"
    assert agent.names() == {NODE, "cell1", "cell2", "card0", "card1"}
    agent.named["b"].body = both(whole_root(FPGA=1), children("card", 1))
    agent.settled()
    assert agent.totals() == {"VCPU": 16, "FPGA": 1}
    assert agent.names() == {NODE, "cell1", "cell2", "card1"}


def test_what_nobody_claimed_stays_while_one_can_not_be_asked(placement) -> None:
    """It may be the part of the one that fails, of whom no word was ever heard."""
    had = both(whole_root(FPGA=2), children("card", 0))
    Agent(placement, b=had).settled()
    agent = Agent(placement, a=both(whole_root(VCPU=8), children("card")), b=fails)
    assert not agent.period().ok
    assert agent.totals() == {"VCPU": 8, "FPGA": 2}
    assert agent.names() == {NODE, "card0"}


def test_who_reports_what_survives_a_restart(placement, tmp_path: Path) -> None:
    bodies = {"a": both(whole_root(VCPU=8), children("cell", 0, 1)), "b": whole_root(FPGA=2)}
    Agent(placement, tmp_path, **bodies).settled()
    agent = Agent(placement, tmp_path, a=both(whole_root(VCPU=8), children("cell", 0)), b=fails)
    assert not agent.period().ok
    assert agent.totals() == {"VCPU": 8, "FPGA": 2}
    assert agent.names() == {NODE, "cell0"}, "cell1 was known to be a's own"


def test_a_damaged_journal_is_told_and_takes_nothing_away(placement, tmp_path, caplog) -> None:
    bodies = {"a": both(whole_root(VCPU=8), children("cell", 0)), "b": whole_root(FPGA=2)}
    Agent(placement, tmp_path, **bodies).settled()
    file = root_path(tmp_path, ROOT)
    file.write_text('{"version": 1, "drivers": {"a": [["planet", 1, 2]]}}')
    agent = Agent(placement, tmp_path, **bodies)
    report = agent.period()
    assert report.ok and not report.done
    assert str(file) in caplog.text
    assert agent.managers() == {"agent", "driver:a", "driver:b"}


# -- against each other


def test_a_contested_class_is_the_first_ones_and_is_told_with_both_names(placement) -> None:
    agent = Agent(placement, a=whole_root(VCPU=8), b=whole_root(VCPU=4, FPGA=2))
    (said,) = agent.period().texts()
    assert "VCPU of driver b ignored: driver a" in said
    assert agent.totals() == {"VCPU": 8, "FPGA": 2}
    report = agent.period()
    assert report.texts() and not report.done, "no war"
    agent.named["b"].body = whole_root(VCPU=8, FPGA=2)
    assert agent.period().ok, "who says the same contests nothing"


def test_an_earlier_driver_gets_a_class_that_a_later_one_had(placement) -> None:
    agent = Agent(placement, a=whole_root(VCPU=8), b=whole_root(FPGA=2))
    agent.settled()
    agent.named["a"].body = whole_root(VCPU=8, FPGA=7)
    assert agent.period().texts()
    assert agent.totals() == {"VCPU": 8, "FPGA": 7}


def test_a_class_that_one_gives_up_may_be_another_ones(placement) -> None:
    agent = Agent(placement, a=whole_root(VCPU=8, FPGA=1), b=whole_root(PGPU=1))
    agent.settled()
    agent.named["a"].body = whole_root(VCPU=8)
    agent.named["b"].body = whole_root(PGPU=1, FPGA=5)
    agent.settled()
    assert agent.totals() == {"VCPU": 8, "PGPU": 1, "FPGA": 5}


def test_another_ones_provider_is_not_taken_away_renamed_or_moved(placement) -> None:
    cells = both(whole_root(VCPU=8), children("cell", 0, 1))
    agent = Agent(placement, a=cells, b=whole_root(FPGA=1))
    agent.settled()

    def bully(tree: Any) -> None:
        tree.remove("cell0")
        tree.rename("cell1", "mine")
        tree.update_inventory(NODE, {"FPGA": {"total": 2}})

    agent.named["b"].body = bully
    report = agent.period()
    said = " ".join(report.texts())
    assert "name and parent of driver b ignored: driver a reports this provider" in said
    assert agent.names() == {NODE, "cell0", "cell1"}
    assert agent.totals() == {"VCPU": 8, "FPGA": 2}, "its own part is reported"
    assert agent.totals(own_uuid(ROOT, "cell0")) == {"CUSTOM_DEVICE": 1}
    assert placement.stranger.traits(own_uuid(ROOT, "cell0")) == {"CUSTOM_BOUGHT"}


def test_drivers_that_take_away_all_that_they_do_not_know_live_side_by_side(placement) -> None:
    """The usual way to find one's own: by the UUID that is made from the name."""

    def reports(*names: str) -> Body:
        def body(tree: Any) -> None:
            for uuid in tree.get_provider_uuids_in_tree(NODE)[1:]:
                name = tree.data(uuid).name
                if tree.exists(uuid) and uuid == own_uuid(ROOT, name) and name not in names:
                    tree.remove(uuid)
            for name in names:
                if not tree.exists(name):
                    tree.new_child(name, NODE)
                tree.update_inventory(name, {"CUSTOM_DEVICE": {"total": 1}})

        return body

    agent = Agent(placement, a=reports("cell0", "cell1"), b=reports("card0", "card1"))
    agent.settled()
    assert agent.names() == {NODE, "cell0", "cell1", "card0", "card1"}
    agent.named["a"].body = reports("cell1")
    agent.settled()
    assert agent.names() == {NODE, "cell1", "card0", "card1"}


def test_a_device_below_another_ones_provider_outlives_it_and_both_are_told(placement) -> None:
    def card(tree: Any) -> None:
        if not tree.exists("card"):
            tree.new_child("card", "cell0")
        tree.update_inventory("card", {"FPGA": {"total": 1}})

    agent = Agent(placement, a=children("cell", 0), b=card)
    agent.settled()
    agent.named["a"].body = children("cell")
    report = agent.period()
    assert "not removed, nor its parent, which a driver removed" in " ".join(report.texts())
    assert agent.names() == {NODE, "cell0", "card"}
    assert agent.totals(own_uuid(ROOT, "cell0")) == {}
    assert agent.totals(own_uuid(ROOT, "card")) == {"FPGA": 1}
    assert not agent.period().done


def test_a_name_is_not_taken_from_another_ones_provider(placement) -> None:
    agent = Agent(placement, a=children("cell", 0), b=whole_root(FPGA=1))
    agent.settled()

    def thief(tree: Any) -> None:
        tree.remove("cell0")
        tree.new_child("cell0", NODE, AGGREGATE)

    agent.named["b"].body = thief
    report = agent.period()
    assert "another owner has its name" in str(report.texts())
    assert agent.names() == {NODE, "cell0"} and not report.done
    assert AGGREGATE not in agent.view.providers


def test_a_trait_stays_while_one_of_those_who_set_it_does(placement) -> None:
    def sets(*traits: str, aggregates: tuple[str, ...] = ()) -> Body:
        def body(tree: Any) -> None:
            mine = {"CUSTOM_A", "CUSTOM_B", "CUSTOM_BOTH"}
            tree.remove_traits(NODE, *mine.difference(traits))
            tree.add_traits(NODE, *traits)
            tree.update_aggregates(NODE, aggregates or tree.data(NODE).aggregates)

        return body

    agent = Agent(
        placement,
        a=sets("CUSTOM_A", "CUSTOM_BOTH", aggregates=(AGGREGATE,)),
        b=sets("CUSTOM_B", "CUSTOM_BOTH"),
    )
    agent.settled()
    custom = {"CUSTOM_A", "CUSTOM_B", "CUSTOM_BOTH"}
    assert custom <= placement.stranger.traits(ROOT)
    agent.named["a"].body = sets("CUSTOM_A", aggregates=(AGGREGATE,))
    agent.settled()
    assert custom <= placement.stranger.traits(ROOT)
    agent.named["b"].body = both(sets("CUSTOM_B"), lambda t: t.update_aggregates(NODE, []))
    agent.settled()
    assert placement.stranger.traits(ROOT) & custom == {"CUSTOM_A", "CUSTOM_B"}
    assert placement.stranger.aggregates(ROOT) == {AGGREGATE}


def test_a_driver_is_not_shown_what_only_another_reports(placement) -> None:
    def sets(tree: Any) -> None:
        tree.update_inventory(NODE, {"VCPU": {"total": 8}})
        tree.add_traits(NODE, "CUSTOM_A")
        tree.update_aggregates(NODE, [AGGREGATE])

    shown = {}

    def looks(name: str) -> Body:
        def body(tree: Any) -> None:
            data = tree.data(NODE)
            shown[name] = set(data.inventory), data.traits & {"CUSTOM_A"}, data.aggregates

        return body

    Agent(placement, a=both(sets, looks("a")), b=looks("b")).settled()
    assert shown == {"a": ({"VCPU"}, {"CUSTOM_A"}, {AGGREGATE}), "b": (set(), set(), set())}


def test_a_driver_is_told_of_a_sharing_provider_whose_class_it_is_not_shown(placement) -> None:
    def shares(tree: Any) -> None:
        if not tree.exists("pool"):
            tree.new_root("pool", POOL)
        tree.update_inventory("pool", {"DISK_GB": {"total": 8}})
        tree.add_traits("pool", "MISC_SHARES_VIA_AGGREGATE")
        for name in ("pool", NODE):
            tree.update_aggregates(name, [AGGREGATE])

    told: list[bool] = []
    Agent(
        placement, a=shares, b=lambda tree: told.append(tree.has_sharing_provider("DISK_GB"))
    ).settled()
    assert all(told)


def test_what_a_driver_that_is_not_configured_any_more_reported_is_taken_away(
    placement, tmp_path: Path
) -> None:
    """Also when guests use it: then once they are gone, however many restarts later."""
    cards = both(whole_root(FPGA=2), children("card", 0, 1))
    Agent(placement, tmp_path, a=whole_root(VCPU=8), b=cards).settled()
    card = own_uuid(ROOT, "card1")
    guest = placement.stranger.put_allocation({card: {"CUSTOM_DEVICE": 1}})
    agent = Agent(placement, tmp_path, a=whole_root(VCPU=8))
    assert agent.period().draining
    assert agent.names() == {NODE, "card1"}
    assert agent.totals() == {"VCPU": 8}
    agent = Agent(placement, tmp_path, a=whole_root(VCPU=8))
    placement.stranger.delete_allocation(guest)
    agent.settled()
    assert agent.names() == {NODE}
    agent = Agent(placement, tmp_path, a=whole_root(VCPU=8))
    agent.settled()
    assert agent.managers() == {"agent", "driver:a"}


def test_a_driver_taken_out_while_another_can_not_be_asked_keeps_its_part(
    placement, tmp_path: Path
) -> None:
    Agent(placement, tmp_path, a=whole_root(VCPU=8), b=whole_root(FPGA=2)).settled()
    agent = Agent(placement, tmp_path, a=fails)
    assert not agent.period().ok
    assert agent.totals() == {"VCPU": 8, "FPGA": 2}


def test_the_host_can_do_what_one_of_its_drivers_can(placement) -> None:
    agent = Agent(placement, host=whole_root(VCPU=8), cards=children("card", 1))
    agent.named["host"].capabilities = {
        "supports_multiattach": True,
        "supports_bfv_rescue": False,
    }
    agent.named["cards"].capabilities = dict.fromkeys(agent.named["host"].capabilities, False)
    placement.stranger.create_provider(NODE, ROOT)
    placement.stranger.add_trait(ROOT, "COMPUTE_RESCUE_BFV")
    agent.settled()
    traits = placement.stranger.traits(ROOT)
    assert "COMPUTE_VOLUME_MULTI_ATTACH" in traits
    assert "COMPUTE_RESCUE_BFV" not in traits


@pytest.mark.parametrize("disabled", [True, None])
def test_no_driver_opens_a_host_that_is_closed(placement, disabled: bool | None) -> None:
    """Also while nobody can say whether it is: the last known status holds."""
    sets_all = lambda tree: tree.update_traits(NODE, ["CUSTOM_A"])  # noqa: E731
    agent = Agent(placement, host=whole_root(VCPU=8), cards=sets_all)
    agent.nodes.period(0.0, disabled=True)
    (report,) = agent.nodes.period(600.0, disabled=disabled)
    assert report.ok and not report.done
    assert "COMPUTE_STATUS_DISABLED" in placement.stranger.traits(ROOT)


def test_no_driver_closes_a_host_of_which_nobody_knows_the_status(placement) -> None:
    closes = lambda tree: tree.add_traits(NODE, "COMPUTE_STATUS_DISABLED")  # noqa: E731
    agent = Agent(placement, host=both(whole_root(VCPU=8), closes))
    assert "only the agent sets this trait" in str(agent.period().texts())
    assert "COMPUTE_STATUS_DISABLED" not in placement.stranger.traits(ROOT)


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

    Agent(placement, tmp_path, gpus=whole_root(VGPU=4), cards=whole_root(FPGA=2)).settled()
    consumer = placement.stranger.put_allocation({ROOT: {"VGPU": 1, "FPGA": 1}})
    agent = Agent(placement, tmp_path, gpus=lambda _: None, cards=lambda _: None)
    for name, body in (("gpus", needs_reshape), ("cards", needs_none)):
        ask = lambda tree, _, allocations=None, body=body: body(tree, allocations)  # noqa: E731
        agent.named[name].update_provider_tree = ask
    report = agent.period()
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


def moving(placement: FakePlacement, state: Path, **drivers: Moving) -> Agent:
    agent = Agent(placement, state, **dict.fromkeys(drivers, fails))
    agent.named = dict(drivers)
    agent.restart()
    return agent


def test_a_driver_that_never_answers_does_not_keep_the_start_of_the_others_open(
    placement, tmp_path
) -> None:
    silent = Moving("CUSTOM_SILENT", "CUSTOM_AWAKE", ready=False)
    other = Moving("CUSTOM_OLD", "CUSTOM_NEW")
    agent = moving(placement, tmp_path, silent=silent, other=other)
    agent.period()
    consumer = placement.stranger.put_allocation({ROOT: {"CUSTOM_OLD": 1}})

    other.moves = True
    report = agent.period()
    assert report.reshape_pending == ("other",)
    assert agent.totals() == {"CUSTOM_OLD": 4}

    silent.ready = True
    assert agent.period().reshape_pending == ("other",)
    assert agent.totals() == {"CUSTOM_OLD": 4, "CUSTOM_SILENT": 4}
    agent.restart()
    agent.settled()
    held = placement.stranger.allocation(consumer)["allocations"][ROOT]["resources"]
    assert held == {"CUSTOM_NEW": 1}


def test_a_reshape_at_the_start_of_a_driver_is_done_beside_one_that_has_started(
    placement, tmp_path
) -> None:
    late = Moving("CUSTOM_LATE", "CUSTOM_READY")
    other = Moving("CUSTOM_OLD", "CUSTOM_NEW")
    agent = moving(placement, tmp_path, late=late, other=other)
    agent.settled()
    agent.restart()
    late.ready = False
    agent.period()
    consumer = placement.stranger.put_allocation({ROOT: {"CUSTOM_OLD": 1, "CUSTOM_LATE": 1}})
    late.ready = late.moves = other.moves = True
    assert agent.period().reshape_pending == ("other",)
    assert agent.totals() == {"CUSTOM_OLD": 4, "CUSTOM_READY": 4}
    held = placement.stranger.allocation(consumer)["allocations"][ROOT]["resources"]
    assert held == {"CUSTOM_OLD": 1, "CUSTOM_READY": 1}


@pytest.mark.parametrize("silent", [False, True])
def test_a_reshape_that_fails_after_others_have_started_ends_no_agent(
    placement, tmp_path, silent: bool
) -> None:
    """Also days later, and by the first answer of a driver."""
    first, other = Moving("CUSTOM_FIRST", "CUSTOM_X"), Moving("CUSTOM_OLD", "CUSTOM_NEW")
    agent = moving(placement, tmp_path, first=first, other=other)
    agent.settled()
    agent.restart()
    first.ready = not silent
    agent.period()
    first.ready = first.moves = first.gives_up = True
    agent.tracker.rules = replace(agent.rules, reshape_when_running=True)
    report = agent.period()
    assert not report.fatal and "guest 1" in str(report.texts())
