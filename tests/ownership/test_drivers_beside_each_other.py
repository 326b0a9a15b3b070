"""Several drivers on one root: what one asserts, no other can take away, put wrong or undo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ownership.world import (
    NODE,
    ROOT,
    SOON,
    Body,
    Host,
    aggregates,
    both,
    child,
    fails,
    inventory,
    own,
    pool,
    removes,
    settled_host,
    silent,
    traits,
)

POOL = "eeeeeeee-0000-4000-8000-000000000001"
RACK, ROW = "aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"
THEIRS = "bbbbbbbb-0000-4000-8000-000000000001"


def device(tree: Any) -> None:
    """A child with all that a provider can have, and one below it."""
    child("card", CUSTOM_SLOT=4)(tree)
    record = {"total": 4, "reserved": 1, "max_unit": 2, "allocation_ratio": 1.5}
    tree.update_inventory("card", {"CUSTOM_SLOT": record})
    tree.add_traits("card", "CUSTOM_FAST")
    tree.add_aggregates("card", RACK)
    child("port", parent="card", CUSTOM_PORT=2)(tree)
    tree.add_traits("port", "CUSTOM_LINK")


# -- a provider put back


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_what_another_one_removes_is_put_back_whole(placement, order: str) -> None:
    bodies: dict[str, Body] = {"a": device, "b": silent}
    host = settled_host(placement, {name: bodies[name] for name in order})
    before = host.everything()
    host.says(b=removes("port", "card"))
    report = host.period(SOON)
    assert not report.done, "neither removed nor made anew"
    assert host.everything() == before


def test_what_is_put_back_below_what_goes_keeps_its_holder_empty(placement) -> None:
    """It can be below nothing else, and what holds it offers nothing any more."""
    holder = both(child("cell", CUSTOM_CELL=2), traits("CUSTOM_NEAR", provider="cell"))
    host = settled_host(placement, {"a": holder, "b": child("card", parent="cell", CUSTOM_SLOT=4)})
    host.says(a=removes("cell"))
    assert (
        "not removed, nor its parent, which a driver removed: driver b still reports it"
        in host.complaints(SOON)
    )
    assert (host.totals("cell"), host.totals("card")) == ({}, {"CUSTOM_SLOT": 4})
    assert host.parent("card") == "cell"
    host.says(b=removes("card"))
    host.period(SOON)
    host.settled()
    assert host.names() == {NODE}, "once nothing needs it, the holder goes"


def test_another_ones_provider_below_another_ones_comes_back_with_both(placement) -> None:
    host = settled_host(
        placement,
        {
            "a": child("cell", CUSTOM_CELL=2),
            "b": child("card", parent="cell", CUSTOM_SLOT=4),
            "c": silent,
        },
    )
    before = host.everything()
    host.says(c=removes("cell", "card"))
    assert not host.period(SOON).done
    assert host.everything() == before


def test_a_sharing_provider_that_another_one_removes_is_put_back(placement) -> None:
    host = settled_host(placement, {"a": pool("pool", POOL, RACK, DISK_GB=900), "b": silent})
    before = host.everything(POOL)
    host.says(b=removes(POOL))
    assert not host.period(SOON).done
    assert host.everything(POOL) == before


def test_what_another_one_moves_or_renames_is_where_it_was_and_told(placement) -> None:
    host = settled_host(placement, {"a": both(child("cell"), device), "b": silent})
    before = host.everything()
    host.says(b=lambda tree: (tree.move("card", "cell"), tree.rename("port", "mine")))
    said = host.complaints(SOON)
    assert said.count("name and parent of driver b ignored: driver a reports this provider") == 2
    assert host.everything() == before


def test_ones_own_provider_can_be_moved_renamed_and_removed_beside_others(placement) -> None:
    host = settled_host(placement, {"a": both(child("cell"), device), "b": inventory(FPGA=1)})
    host.says(a=lambda tree: (tree.move("card", "cell"), tree.rename("port", "port0")))
    report = host.period(SOON)
    assert report.ok, report.texts()
    assert host.parent("card") == "cell" and host.parent("port0") == "card"
    host.says(a=both(child("cell"), removes("port0", "card")))
    assert host.period(SOON).ok
    assert host.names() == {NODE, "cell"}
    assert host.totals() == {"FPGA": 1}


# -- an answer that is refused


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("renamed the root provider", lambda tree: tree.rename(NODE, "mine")),
        ("removed the root provider", lambda tree: tree.remove(NODE)),
    ],
)
def test_one_whose_answer_is_refused_keeps_its_part_and_stops_nobody(
    placement, said: str, wrong
) -> None:
    """Nothing of the refused answer is used, not even what would be right by itself."""
    host = settled_host(
        placement, {"a": both(child("card"), inventory(VCPU=8)), "b": child("b0", FPGA=2)}
    )
    host.says(a=both(child("card"), inventory(VCPU=16)))
    host.says(b=both(child("b0", FPGA=3), child("b1", FPGA=9), wrong))
    report = host.period(SOON)
    assert report.driver_errors.keys() == {"b"}
    assert said in str(report.driver_errors["b"])
    assert host.totals() == {"VCPU": 16}
    assert host.names() == {NODE, "card", "b0"}
    assert host.totals("b0") == {"FPGA": 2}
    host.says(b=child("b0", FPGA=3))
    host.settled()
    assert host.totals("b0") == {"FPGA": 3}


def test_the_first_one_refused_is_not_taken_for_one_that_gave_all_up(placement) -> None:
    host = settled_host(
        placement, {"a": both(inventory(VCPU=8), child("cell")), "b": inventory(FPGA=2)}
    )
    before = host.everything()
    host.says(a=lambda tree: tree.rename(NODE, "mine"))
    report = host.period(SOON)
    assert report.driver_errors.keys() == {"a"} and not report.done
    assert host.everything() == before


# -- traits and aggregates are shared


def only(*names: str) -> Body:
    """These of the aggregates that it may set, and none of the others of them."""

    def body(tree: Any) -> None:
        tree.remove_aggregates(NODE, *{RACK, ROW}.difference(names))
        tree.add_aggregates(NODE, *names)

    return body


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_an_aggregate_stays_while_one_of_those_who_set_it_does(placement, order: str) -> None:
    bodies = {"a": only(RACK, ROW), "b": only(ROW)}
    host = settled_host(placement, {name: bodies[name] for name in order})
    assert host.aggregates() == {RACK, ROW}
    host.says(a=only())
    host.settled()
    assert host.aggregates() == {ROW}, "a's alone went, b's stayed"
    host.says(b=only())
    host.settled()
    assert host.aggregates() == set()


def test_one_that_replaces_all_aggregates_and_traits_takes_none_of_anothers(placement) -> None:
    host = settled_host(placement, {"a": both(aggregates(RACK), traits("CUSTOM_A")), "b": silent})
    host.says(b=lambda tree: (tree.update_aggregates(NODE, [ROW]), tree.update_traits(NODE, [])))
    host.settled()
    assert host.aggregates() == {RACK, ROW}
    assert host.custom() == {"CUSTOM_A"}


def test_aggregates_and_traits_of_one_that_can_not_be_asked_stay(placement) -> None:
    host = settled_host(
        placement,
        {
            "a": both(aggregates(RACK), traits("CUSTOM_A", "CUSTOM_A2")),
            "b": both(aggregates(ROW), traits("CUSTOM_B")),
        },
    )
    wipes = lambda tree: (tree.update_aggregates(NODE, []), tree.update_traits(NODE, []))  # noqa: E731
    host.says(a=both(wipes, traits("CUSTOM_A")), b=fails)
    assert host.period(SOON).driver_errors.keys() == {"b"}
    assert host.aggregates() == {ROW}, "what is known to be a's own goes all the same"
    assert host.custom() == {"CUSTOM_A", "CUSTOM_B"}


def test_what_is_nobodys_stays_while_one_can_not_be_asked(placement) -> None:
    host = settled_host(placement, {"a": inventory(VCPU=8), "b": silent})
    stranger = host.stranger
    stranger.add_trait(ROOT, "CUSTOM_STRANGE")
    stranger.set_aggregates(ROOT, [THEIRS])
    stranger.create_child(ROOT, "strange", THEIRS)

    def wipes(tree: Any) -> None:
        tree.update_traits(NODE, [])
        tree.update_aggregates(NODE, [])
        removes("strange")(tree)

    host.says(a=both(inventory(VCPU=8), wipes), b=fails)
    host.period()
    assert host.custom() == {"CUSTOM_STRANGE"}
    assert host.aggregates() == {THEIRS}
    assert host.is_there("strange")


# -- resource classes are one driver's


def test_each_is_shown_its_own_classes_and_nobodys(placement) -> None:
    """What it reads and sets again would be taken for its own word."""
    shown = {}

    def reads(name: str, **totals: int) -> Body:
        def body(tree: Any) -> None:
            there = tree.data(NODE).inventory
            shown[name] = set(there)
            said = {**there, **{key: {"total": total} for key, total in totals.items()}}
            assert tree.has_inventory_changed(NODE, there) is False
            tree.update_inventory(NODE, said)

        return body

    host = settled_host(placement, {"a": reads("a", VCPU=8), "b": reads("b", FPGA=2)})
    assert shown == {"a": {"VCPU"}, "b": {"FPGA"}}
    host.says(a=inventory(MEMORY_MB=512))
    host.settled()
    assert host.totals() == {"MEMORY_MB": 512, "FPGA": 2}, "VCPU is not kept alive by b"


def test_of_three_the_first_that_says_a_class_counts_and_the_next_inherits_it(placement) -> None:
    host = Host(placement, {"a": inventory(VCPU=1), "b": inventory(VCPU=2), "c": inventory(VCPU=3)})
    said = host.complaints()
    assert "of driver b ignored: driver a" in said
    assert "of driver c ignored: driver a" in said
    assert host.totals() == {"VCPU": 1}
    host.says(a=silent)
    host.says(a=inventory())
    said = host.complaints(SOON)
    assert host.totals() == {"VCPU": 2}, said
    host.says(b=inventory())
    host.settled()
    assert host.totals() == {"VCPU": 3}


def test_a_later_one_does_not_get_a_class_of_one_that_can_not_be_asked(placement) -> None:
    host = settled_host(placement, {"a": inventory(VCPU=8), "b": silent})
    host.says(a=fails, b=inventory(VCPU=4))
    assert "VCPU of driver b ignored: driver a" in host.complaints(SOON)
    assert host.totals() == {"VCPU": 8}


def test_same_record_in_other_words_is_no_contest(placement) -> None:
    """Defaults that one spells out and the other leaves unsaid."""
    full = {"total": 8, "reserved": 0, "min_unit": 1, "step_size": 1, "allocation_ratio": 1.0}
    settled_host(
        placement,
        {
            "a": inventory(VCPU=8),
            "b": lambda tree: tree.update_inventory(NODE, {"VCPU": full}),
        },
    )


# -- a driver that left the configuration


def test_sharing_provider_of_one_that_left_is_on_offer_no_more(placement, tmp_path: Path) -> None:
    parts = {"a": inventory(VCPU=8), "b": pool("pool", POOL, RACK, DISK_GB=900)}
    Host(placement, parts, tmp_path).settled()
    host = Host(placement, {"a": fails}, tmp_path)
    host.period()
    assert host.totals("pool") == {"DISK_GB": 900}, "not before all others have answered"
    host.restart(a=inventory(VCPU=8))
    host.settled()
    assert host.aggregates() == set()
    if host.is_there("pool"):
        assert host.totals("pool") == {} and host.aggregates("pool") == set()
        assert "MISC_SHARES_VIA_AGGREGATE" not in host.traits("pool")


def test_sharing_provider_of_one_that_left_is_drained_while_in_use(placement, tmp_path) -> None:
    parts = {"a": inventory(VCPU=8), "b": pool("pool", POOL, RACK, DISK_GB=900)}
    Host(placement, parts, tmp_path).settled()
    host = Host(placement, {"a": inventory(VCPU=8)}, tmp_path)
    guest = host.stranger.put_allocation({POOL: {"DISK_GB": 100}})
    host.period()
    assert host.reserved("pool") == {"DISK_GB": 900}, "no new guest gets any"
    assert POOL in host.stranger.allocation(guest)["allocations"]


def test_all_kinds_that_one_that_left_asserted_go_and_what_others_said_too_stays(
    placement, tmp_path: Path
) -> None:
    common = both(aggregates(ROW), traits("CUSTOM_BOTH"))
    parts = {
        "a": both(common, inventory(VCPU=8), child("cell", CUSTOM_CELL=1)),
        "b": both(common, inventory(FPGA=2), aggregates(RACK), traits("CUSTOM_B"), device),
    }
    Host(placement, parts, tmp_path).settled()
    host = settled_host(placement, {"a": parts["a"]}, tmp_path)
    assert host.names() == {NODE, "cell"}
    assert (host.totals(), host.aggregates(), host.custom()) == (
        {"VCPU": 8},
        {ROW},
        {"CUSTOM_BOTH"},
    )


def test_what_one_that_left_asserted_may_be_another_ones_by_then(placement, tmp_path) -> None:
    said = both(inventory(FPGA=2), child("card", CUSTOM_SLOT=4), traits("CUSTOM_B"))
    Host(placement, {"a": silent, "b": said}, tmp_path).settled()
    host = Host(placement, {"a": silent, "renamed": said}, tmp_path)
    report = host.period()
    assert report.ok and not report.done, "not removed and made again"
    assert host.totals() == {"FPGA": 2} and host.totals("card") == {"CUSTOM_SLOT": 4}


def test_a_strangers_provider_below_one_that_left_outlives_it(placement, tmp_path) -> None:
    Host(placement, {"a": silent, "b": child("card", CUSTOM_SLOT=4)}, tmp_path).settled()
    host = Host(placement, {"a": silent}, tmp_path)
    strange = host.stranger.create_child(own("card"), "strange")
    host.stranger.set_inventory(strange, {"FPGA": {"total": 1}})
    host.period()
    host.period()
    assert host.totals("strange") == {"FPGA": 1}
    assert host.parent("strange") == "card"


def test_another_ones_provider_below_one_that_left_outlives_it(placement, tmp_path) -> None:
    parts = {"a": child("port", parent="card", CUSTOM_PORT=2), "b": child("card", CUSTOM_SLOT=4)}
    order = {"b": parts["b"], "a": parts["a"]}
    Host(placement, order, tmp_path).settled()
    host = Host(placement, {"a": parts["a"]}, tmp_path)
    host.period()
    host.period()
    assert host.totals("port") == {"CUSTOM_PORT": 2}
    assert host.parent("port") == "card"


def test_one_that_comes_back_has_its_part_again(placement, tmp_path: Path) -> None:
    parts = {"a": inventory(VCPU=8), "b": both(inventory(FPGA=2), aggregates(RACK), device)}
    host = settled_host(placement, parts, tmp_path)
    before = host.everything()
    host.restart(a=parts["a"])
    host.settled()
    host.restart(**parts)
    host.settled()
    assert host.everything() == before


def test_what_of_one_that_left_was_never_there_is_forgotten(placement, tmp_path: Path) -> None:
    """Also what somebody else took away meanwhile, and put there again for himself."""
    Host(placement, {"a": silent, "b": traits("CUSTOM_B")}, tmp_path).settled()
    host = settled_host(placement, {"a": silent}, tmp_path)
    host.stranger.add_trait(ROOT, "CUSTOM_B")
    host.settled()
    assert host.custom() == {"CUSTOM_B"}, "this one is not ours"


def test_of_the_ledger_only_what_placement_has_is_acted_upon(placement, tmp_path: Path) -> None:
    """A departed driver's device that a stranger removed before us is no error."""
    Host(placement, {"a": inventory(VCPU=8), "b": device}, tmp_path).settled()
    host = Host(placement, {"a": inventory(VCPU=8)}, tmp_path)
    host.stranger.delete_provider(own("port"))
    host.stranger.delete_provider(own("card"))
    host.settled()
    assert host.names() == {NODE}


def test_a_device_that_its_owner_gives_up_stays_while_one_with_a_part_in_it_is_silent(
    placement,
) -> None:
    """With that part only; and it goes once the other one says that it has none any more."""

    def adds(tree: Any) -> None:
        if tree.exists("card"):
            tree.add_traits("card", "CUSTOM_LIT")

    host = settled_host(placement, {"a": child("card", CUSTOM_SLOT=4), "b": adds})
    host.says(a=removes("card"), b=fails)
    host.period(SOON)
    assert (host.totals("card"), host.custom("card")) == ({}, {"CUSTOM_LIT"})
    host.says(b=adds)
    host.period(SOON)
    assert not host.is_there("card")
    host.settled()
