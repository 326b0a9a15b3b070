"""The client as a library, against the fake and against a real Placement alike."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reportclient.client import Client, Result
from reportclient.errors import (
    Conflict,
    Forbidden,
    InUse,
    NoCapacity,
    NotFound,
    NotOwned,
    Rejected,
    Unreachable,
    Wrong,
)
from reportclient.provider_tree import ProviderTree
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


def test_absence_is_no_verified_view(nova: World, client: Client) -> None:
    """A service that boots beside nova-compute asks before the root is there."""
    for _ in range(2):  # it is deleted and made again
        with pytest.raises(NotFound):
            client.tree(OTHER)
        nova.stranger.create_provider("host2", OTHER)
        assert client.tree(OTHER).exists("host2")
        nova.stranger.delete_provider(OTHER)
        client.stale(OTHER)
    nova.stranger.create_provider("host2", OTHER)
    assert client.edit(OTHER, lambda tree: tree.add_traits(OTHER, "CUSTOM_GOLD")).ok
    child = nova.stranger.create_child(OTHER, "child")
    assert client.edit(child, lambda tree: tree.add_traits(child, "CUSTOM_GOLD")).ok
    assert nova.truth(OTHER).get(child).traits == {"CUSTOM_GOLD"}


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


def test_what_others_removed_meanwhile_comes_back_for_no_other_change(
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


def test_a_write_between_the_reads_after_a_conflict_stays(nova: World) -> None:
    """The part that was read last is written at once, the others are read again first."""
    armed: list[str] = []

    class Late:
        def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
            reply = nova.api.request(method, path, **more)
            if method == "GET" and path in armed:
                armed.remove(path)
                nova.stranger.add_trait(CHILD, "HW_CPU_X86_AVX2")
            return reply

    client = Client(Late())
    client.tree(ROOT)
    nova.stranger.add_trait(CHILD, "HW_CPU_X86_AVX")
    armed.append(f"/resource_providers/{CHILD}/aggregates")
    vgpus = {"VGPU": {"total": 3}}
    asked = calls(nova, lambda: client.edit(CHILD, lambda it: it.update_inventory(CHILD, vgpus)))
    own = [each for each in asked if each in ("PUT inventories", "GET inventories")]
    assert not armed and own == ["PUT inventories", "GET inventories", "PUT inventories"], asked
    assert client.edit(CHILD, lambda tree: tree.add_traits(CHILD, "HW_CPU_X86_SSE")).ok
    child, cpu = nova.truth().get(CHILD), "HW_CPU_X86_"
    assert child.traits == {"CUSTOM_GOLD", f"{cpu}AVX", f"{cpu}AVX2", f"{cpu}SSE"}
    assert child.inventory == {"VGPU": full(3)}


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

    with pytest.raises(NotOwned, match="storage"):
        full_of_disks(Client(nova.api))
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


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.update_inventory(SECOND, {"VGPU": {"total": 8, "reserved": 9}}),
        lambda tree: tree.update_inventory(SECOND, {"VGPU": {"total": 0}}),
        lambda tree: tree.update_inventory(SECOND, {"not a class": {"total": 1}}),
        lambda tree: tree.update_inventory(SECOND, {"VGPU": {"total": "8"}}),
        lambda tree: tree.add_traits(SECOND, "not a trait"),
        lambda tree: tree.add_aggregates(SECOND, "not a UUID"),
        lambda tree: tree.new_child("n" * 201, SECOND),
        lambda tree: tree.add_traits(CHILD, "CUSTOM_OF_ANOTHER"),
    ],
)
def test_wrong_data_is_a_value_error_before_a_call(nova: World, change: Any) -> None:
    client = Client(nova.api, owns=lambda provider: provider.uuid != CHILD)
    client.tree(ROOT)

    def update(tree: ProviderTree) -> None:
        tree.add_traits(ROOT, "CUSTOM_ELSEWHERE")
        change(tree)

    def refused() -> None:
        with pytest.raises(ValueError, match="^(provider|a provider|aggregate|trait)"):
            client.edit(ROOT, update)

    assert calls(nova, refused) == []


def test_errors_say_what_to_do_next(nova: World, client: Client) -> None:
    nova.stranger.set_inventory(SECOND, {"VGPU": {"total": 1}})
    held = {"allocations": {SECOND: {"resources": {"VGPU": 2}}}, "project_id": "p", "user_id": "u"}
    body = {**held, "consumer_generation": None, "consumer_type": "INSTANCE"}
    with pytest.raises(NoCapacity) as caught:
        client.api.request("PUT", f"/allocations/{GUESTS[0]}", json=body, needs="1.38")
    assert caught.value.next == "candidate"
    with pytest.raises(Rejected) as wrong:
        client.api.request("PUT", f"/allocations/{GUESTS[0]}", json={}, needs="1.38")
    assert (wrong.value.next, Wrong.next, InUse.next) == ("code", "code", "wait")
    assert (Conflict.next, Unreachable.next, Forbidden.next) == ("retry", "retry", "operator")


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
    for wrong in ("", f"../resource_providers/{CHILD}", "CUSTOM_A?x=1"):
        with pytest.raises(ValueError, match="is not a valid name"):
            client.delete_trait(wrong)
        with pytest.raises(ValueError, match="resource class .* is not a valid name"):
            client.delete_class(wrong)
    assert CHILD in nova.truth()


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
