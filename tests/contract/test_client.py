"""The client as a library, against the fake and against a real Placement alike."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reportclient.client import Client, NotOwned, Result
from reportclient.errors import InUse, NotFound, Rejected, Unreachable
from reportclient.saved_view import FileStore
from reportclient.schedule import Times
from tests.contract.test_report_client import full, shared_storage
from tests.contract.world import AGG1, AGG2, CHILD, GRANDCHILD, OTHER, ROOT, SECOND, World, kinds

GUESTS = [f"00000000-0000-4000-8000-0000000000c{number}" for number in range(4)]


def calls(world: World, action: Callable[[], object]) -> list[str]:
    return kinds(world.calls_of(action))


def test_a_tree_is_read_once_and_then_known(nova: World, client: Client) -> None:
    assert len(client.tree(ROOT).get_provider_uuids()) == 4
    assert calls(nova, lambda: client.tree(ROOT)) == []
    client.stale(ROOT)
    assert calls(nova, lambda: client.tree(ROOT)) == ["GET in_tree", "GET member_of"]


def test_a_root_that_is_not_there_is_an_error_or_begun(nova: World, client: Client) -> None:
    with pytest.raises(NotFound, match=OTHER):
        client.tree(OTHER)
    tree = client.tree(OTHER, name="pool")
    assert [root.name for root in tree.roots] == ["pool"]
    assert client.update(tree).ok
    assert client.find_provider("pool") == OTHER and client.find_provider("nobody") is None


def test_an_update_sends_what_differs_and_tells_what_was_done(nova: World, client: Client) -> None:
    tree = client.tree(ROOT)
    tree.update_inventory(SECOND, {"VGPU": {"total": 8}})
    result = client.update(tree)
    assert result.ok and result.calls == 1
    assert [type(one).__name__ for one in result.done] == ["SetInventory"]
    assert nova.truth().get(SECOND).inventory == {"VGPU": full(8)}
    assert client.update(client.tree(ROOT)).calls == 0


def test_an_update_is_laid_on_top_of_what_somebody_else_wrote_meanwhile(
    nova: World, client: Client
) -> None:
    tree = client.tree(ROOT)
    tree.add_traits(ROOT, "HW_CPU_X86_AVX")
    tree.remove_aggregates(ROOT, AGG1)
    tree.update_inventory(ROOT, {**tree.data(ROOT).inventory, "VGPU": {"total": 1}})
    tree.remove(SECOND)
    nova.stranger.add_trait(ROOT, "HW_CPU_X86_AVX2")
    nova.stranger.set_inventory(ROOT, {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 1024}})
    result = client.update(tree)
    assert result.ok
    root = nova.truth().get(ROOT)
    assert root.traits == {"COMPUTE_NODE", "CUSTOM_GOLD", "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"}
    assert root.aggregates == frozenset()
    assert root.inventory == {"VCPU": full(16), "MEMORY_MB": full(1024), "VGPU": full(1)}
    assert SECOND not in nova.truth()


def test_what_somebody_else_removed_meanwhile_comes_back_for_no_other_change(
    nova: World, client: Client
) -> None:
    tree = client.tree(ROOT)
    tree.add_traits(ROOT, "HW_CPU_X86_AVX")
    tree.add_aggregates(SECOND, AGG2)
    nova.stranger.set_inventory(ROOT, {"VCPU": {"total": 8}})
    nova.stranger.set_aggregates(SECOND, [AGG1], old_microversion=True)
    assert client.update(tree).ok
    assert nova.truth().get(ROOT).inventory == {"VCPU": full(8)}
    assert nova.truth().get(SECOND).aggregates == {AGG1, AGG2}


def test_one_provider_is_edited_again_after_a_conflict(nova: World, client: Client) -> None:
    client.tree(ROOT)
    seen: list[set[str]] = []
    nova.stranger.add_trait(CHILD, "HW_CPU_X86_AVX2")

    def change(tree) -> None:
        seen.append(tree.data(CHILD).traits)
        tree.add_traits(CHILD, "HW_CPU_X86_AVX")

    assert client.edit(CHILD, change).ok
    assert seen == [{"CUSTOM_GOLD"}, {"CUSTOM_GOLD", "HW_CPU_X86_AVX2"}]
    assert nova.truth().get(CHILD).traits == {"CUSTOM_GOLD", "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"}


def test_a_provider_is_edited_by_who_does_not_know_its_tree(nova: World) -> None:
    assert Client(nova.api).edit(GRANDCHILD, lambda tree: tree.remove(GRANDCHILD)).ok
    assert GRANDCHILD not in nova.truth()
    with pytest.raises(NotFound):
        Client(nova.api).edit(OTHER, lambda tree: None)


def test_what_is_not_owned_is_not_changed(nova: World) -> None:
    client = Client(nova.api, owns=lambda provider: provider.name.startswith("mine"))
    tree = client.tree(ROOT)
    tree.new_child("mine-1", ROOT, OTHER)
    assert client.update(tree).ok, "below it is another matter"
    for change in (
        lambda tree: tree.add_traits(ROOT, "HW_CPU_X86_AVX"),
        lambda tree: tree.remove(SECOND),
    ):
        tree = client.tree(ROOT)
        change(tree)
        with pytest.raises(NotOwned):
            client.update(tree)
    tree = client.tree(ROOT)
    tree.remove(OTHER)
    assert client.update(tree).ok


def test_what_shares_with_the_tree_is_changed_by_who_says_it_owns_it(nova: World) -> None:
    shared_storage(nova, AGG1)

    def full_of_disks(client: Client) -> Result:
        tree = client.tree(ROOT)
        tree.update_inventory("storage", {"DISK_GB": {"total": 200}})
        return client.update(tree)

    result = full_of_disks(Client(nova.api))
    assert not result.done and [problem.uuid for problem in result.problems] == [OTHER]
    result = full_of_disks(Client(nova.api, owns=lambda provider: provider.uuid == OTHER))
    assert result.ok and nova.truth(OTHER).get(OTHER).inventory["DISK_GB"].total == 200


def test_allocations_cost_nothing_until_they_are_looked_at(nova: World, client: Client) -> None:
    guests = [nova.stranger.put_allocation({ROOT: {"VCPU": 1}}) for _ in range(3)]
    client.stale(ROOT)
    client.tree(ROOT)
    assert calls(nova, lambda: client.allocations(ROOT)) == []
    held = client.allocations(ROOT)
    assert sorted(held) == sorted(guests)
    assert len(calls(nova, lambda: held[guests[0]])) == 1
    assert len(calls(nova, lambda: held[guests[0]])) == 0
    assert held[guests[0]]["allocations"][ROOT]["resources"] == {"VCPU": 1}


def test_consumers_of_any_age_move_together_and_keep_what_they_are(
    nova: World, client: Client
) -> None:
    """Placement shows the type of one that was written before 1.38 as "unknown", and takes none such."""
    nova.stranger.set_inventory(SECOND, {"VGPU": {"total": 8}})
    made = (("1.28", None), ("1.36", None), ("1.38", "INSTANCE"), ("1.39", "MIGRATION"))
    for number, (version, kind) in enumerate(made):
        body = {
            "allocations": {SECOND: {"resources": {"VGPU": 1}}},
            "project_id": f"project {number}",
            "user_id": f"user {number}",
            "consumer_generation": None,
            **({"consumer_type": kind} if kind else {}),
        }
        nova.stranger.send("PUT", f"/allocations/{GUESTS[number]}", json=body, microversion=version)
    before = [nova.stranger.allocation(guest) for guest in GUESTS]
    client.stale(ROOT)
    tree, moved = client.tree(ROOT), dict(client.allocations(ROOT))
    tree.update_inventory(GRANDCHILD, tree.data(SECOND).inventory)
    tree.update_inventory(SECOND, {})
    for guest in GUESTS:
        moved[guest]["allocations"] = {GRANDCHILD: {"resources": {"VGPU": 1}}}
    assert client.update(tree, allocations=moved).ok
    after = [nova.stranger.allocation(guest) for guest in GUESTS]
    for old, new in zip(before, after, strict=True):
        assert set(new["allocations"]) == {GRANDCHILD}
        assert new["consumer_generation"] == old["consumer_generation"] + 1
        for key in ("project_id", "user_id", "consumer_type"):
            assert new[key] == old[key]
    assert [new["consumer_type"] for new in after] == ["unknown"] * 2 + ["INSTANCE", "MIGRATION"]


def test_what_others_wrote_is_taken_when_it_is_written_back(nova: World, client: Client) -> None:
    odd = {"total": 10, "min_unit": 5, "max_unit": 2, "allocation_ratio": 0.001}
    nova.stranger.set_inventory(SECOND, {"VGPU": odd})
    spelled = ["AAAAAAAA-0000-4000-8000-00000000ABCD", "AAAAAAAA00004000800000000000ABCE"]
    nova.stranger.set_aggregates(SECOND, spelled, old_microversion=True)
    nova.stranger.rename(SECOND, " ü/ö?&=#%, ")
    client.stale(ROOT)
    tree = client.tree(ROOT)
    tree.update_inventory(SECOND, {**tree.records(SECOND), "PCI_DEVICE": {"total": 1}})
    tree.add_aggregates(SECOND, AGG1)
    tree.add_traits(SECOND, "CUSTOM_NEW")
    tree.move(SECOND, CHILD)
    assert client.update(tree).ok
    written = nova.truth().get(SECOND)
    assert (written.name, written.parent_uuid) == (" ü/ö?&=#%, ", CHILD)
    assert written.aggregates == {*spelled, AGG1}
    assert written.inventory["VGPU"].as_dict() == {**full(10).as_dict(), **odd}
    assert client.find_provider(" ü/ö?&=#%, ") == SECOND


def test_allocations_move_once_for_each_time_they_were_asked(
    nova: World, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    nova.stranger.put_allocation({GRANDCHILD: {"CUSTOM_LINK": 1}})
    client.stale(ROOT)
    tree = client.tree(ROOT)
    held = dict(client.allocations(ROOT))
    tree.add_traits(ROOT, "HW_CPU_X86_AVX")
    assert client.update(tree, allocations=held).ok
    with caplog.at_level("WARNING"), pytest.raises(ValueError, match="call Client.allocations"):
        client.update(client.tree(ROOT), allocations=held)
    with pytest.raises(ZeroDivisionError):
        client.edit(ROOT, lambda tree: 1 / 0)
    assert not caplog.records, "the caller has the error, and logs it or not"


def test_what_can_not_be_sent_is_raised_where_the_caller_is_strict(nova: World) -> None:
    strict = Client(nova.api, strict=True)
    tree = strict.tree(ROOT)
    tree.update_inventory(ROOT, {"VCPU": {"total": 8, "reserved": 9}})
    with pytest.raises(ValueError, match="VCPU"):
        strict.update(tree)
    assert nova.truth().get(ROOT).inventory["VCPU"].reserved == 0


def test_a_second_root_knows_the_names_that_the_first_has_made(nova: World, client: Client) -> None:
    first = client.tree(ROOT)
    first.add_traits(ROOT, "CUSTOM_NEW")
    assert "PUT traits" in calls(nova, lambda: client.update(first))
    second = client.tree(OTHER, name="pool")
    second.add_traits(OTHER, "CUSTOM_NEW")
    asked = calls(nova, lambda: client.update(second))
    assert len(asked) == 2 and asked[-1] == "PUT traits", "the root, and its traits"
    assert nova.truth(OTHER).get(OTHER).traits == {"CUSTOM_NEW"}


def test_a_sharing_provider_is_edited_in_the_tree_that_it_is_in(nova: World) -> None:
    shared_storage(nova, AGG1)
    client = Client(nova.api)
    assert client.tree(ROOT).exists(OTHER)
    assert client.edit(OTHER, lambda tree: tree.add_traits(OTHER, "CUSTOM_GOLD")).ok
    storage = "00000000-0000-4000-8000-0000000000b0"
    assert "CUSTOM_GOLD" in nova.truth(storage).get(OTHER).traits


def test_a_root_goes_with_all_below_it(nova: World, client: Client) -> None:
    assert client.delete(ROOT).ok
    assert len(nova.truth()) == 0


def test_names_that_nobody_uses_are_deleted_and_made_again(nova: World, client: Client) -> None:
    def use(*traits: str, **inventory: dict[str, int]) -> Result:
        tree = client.tree(ROOT)
        tree.update_traits(CHILD, traits)
        tree.update_inventory(CHILD, inventory)
        return client.update(tree)

    for _ in range(2):
        assert use("CUSTOM_BITSTREAM_7", CUSTOM_BITSTREAM={"total": 1}).ok
        for delete in (
            lambda: client.delete_trait("CUSTOM_BITSTREAM_7"),
            lambda: client.delete_class("CUSTOM_BITSTREAM"),
        ):
            with pytest.raises(InUse):
                delete()
        assert use().ok
        for _ in range(2):
            client.delete_trait("CUSTOM_BITSTREAM_7")
            client.delete_class("CUSTOM_BITSTREAM")
        names = nova.stranger.send("GET", "/resource_classes")["resource_classes"]
        assert {"name": "CUSTOM_BITSTREAM"} not in names
    with pytest.raises(Rejected):
        client.delete_trait("COMPUTE_NODE")


def test_no_answer_is_raised_and_what_was_done_is_known(nova: World, client: Client) -> None:
    tree = client.tree(ROOT)
    tree.add_traits(ROOT, "HW_CPU_X86_AVX")
    tree.update_inventory(SECOND, {"VGPU": {"total": 8}})
    nova.api.fail_next("PUT", "/inventories$", Unreachable("away"))
    with pytest.raises(Unreachable, match="away"):
        client.update(tree)
    result = client.update(tree)
    assert result.ok and [type(one).__name__ for one in result.done] == ["SetInventory"]


def test_a_restart_is_one_verification_with_a_store(nova: World, tmp_path: Path) -> None:
    directory = tmp_path / "made" / "when it is needed"
    Client(nova.api, store=FileStore(directory)).tree(ROOT)
    again = Client(nova.api, store=FileStore(directory))
    assert calls(nova, lambda: again.tree(ROOT)) == ["GET in_tree", "GET member_of"]
    nova.stranger.add_trait(CHILD, "HW_CPU_X86_AVX")
    tree = Client(nova.api, store=FileStore(directory)).tree(ROOT)
    assert "HW_CPU_X86_AVX" in tree.data(CHILD).traits


def test_a_tree_is_verified_when_it_is_time_to(nova: World) -> None:
    now = [0.0]
    client = Client(nova.api, times=Times(verify_every=300), clock=lambda: now[0])
    client.tree(ROOT)
    now[0] = 100
    assert calls(nova, lambda: client.tree(ROOT)) == []
    now[0] = 600
    assert calls(nova, lambda: client.tree(ROOT)) == ["GET in_tree", "GET member_of"]
