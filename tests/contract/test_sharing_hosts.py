"""A sharing provider that several hosts use: it goes with the last of them, and nobody is misled."""

from typing import Any

import pytest

from agent.reporting.condition import Severity
from reportclient.client import Client
from tests.agents import NODE, ROOT, Agent, Body, Small, door_to
from tests.cost.trees import VERIFY

OTHER = "c0ffee00-0000-4000-8000-0000000000b2"
POOL = "eeeeeeee-0000-4000-8000-000000000001"
SECOND = "eeeeeeee-0000-4000-8000-000000000002"
RACK = "aaaaaaaa-0000-4000-8000-000000000001"
ROW = "aaaaaaaa-0000-4000-8000-000000000002"


def mounts(node: str, *pools: str) -> Body:
    """A host that mounts these storages, as other hosts of its rack may."""

    def body(tree: Any) -> None:
        tree.update_inventory(node, {"VCPU": {"total": 8}})
        for uuid in tree.get_provider_uuids():
            if tree.exists(uuid) and tree.data(uuid).name.startswith("pool-") and uuid not in pools:
                tree.remove(uuid)
        for uuid in pools:
            if not tree.exists(uuid):
                tree.new_root(f"pool-{uuid[-1]}", uuid)
            tree.update_inventory(uuid, {"DISK_GB": {"total": 900}})
            tree.add_traits(uuid, "MISC_SHARES_VIA_AGGREGATE")
            tree.add_aggregates(uuid, RACK)
        tree.set_own_aggregates(node, [RACK] if pools else [])

    return body


class Host(Agent):
    def __init__(self, placement: Any, node: str, root: str, *pools: str, **rules: Any) -> None:
        self.driver = Small(mounts(node, *pools), [node])
        self.node = node
        super().__init__(placement, self.driver, root=root, audit_every=None, **rules)

    def mounts(self, *pools: str) -> None:
        self.driver.body = mounts(self.node, *pools)


@pytest.fixture
def hosts(any_placement) -> tuple[Host, Host]:
    """Two agents whose hosts mount the same storage."""
    first, second = Host(any_placement, NODE, ROOT, POOL), Host(any_placement, "h2", OTHER, POOL)
    for host in (first, second, first, second):
        assert host.period().ok
    assert not second.period().done
    return first, second


def reports(host: Host, **record: int) -> None:
    """Let a host report this of the storage."""

    def body(tree: Any) -> None:
        mounts(host.node, POOL)(tree)
        tree.update_inventory(POOL, {"DISK_GB": {"total": 900, "reserved": 0, **record}})

    host.driver.body = body


def pool(placement: Any, uuid: str = POOL) -> dict[str, Any]:
    return placement.stranger.inventory(uuid)["DISK_GB"]


def there(placement: Any, uuid: str) -> bool:
    return bool(placement.request("GET", f"/resource_providers?uuid={uuid}")["resource_providers"])


@pytest.mark.parametrize("used", [False, True], ids=["free", "with a guest"])
def test_a_storage_that_one_host_unmounts_stays_as_it_is_for_the_others(
    any_placement, hosts, used: bool
) -> None:
    first, second = hosts
    before = pool(any_placement)
    guest = any_placement.stranger.put_allocation({POOL: {"DISK_GB": 10}}) if used else None
    first.mounts()
    report = first.period()
    assert report.ok, report.texts()
    text = "pool-1: kept for other hosts in its aggregates: h2; removed with the last of them"
    assert text in report.texts(Severity.WARNING)
    assert pool(any_placement) == before
    assert not second.period().done

    second.mounts()
    second.period()
    if guest is not None:
        assert pool(any_placement)["reserved"] == 900, "drained: no other host uses it now"
        any_placement.stranger.delete_allocation(guest)
    first.period(), second.period(), first.period()
    assert not there(any_placement, POOL)
    assert not first.period().texts() and not second.period().texts()


def test_a_second_storage_beside_it_is_no_host_that_uses_it(any_placement) -> None:
    host = Host(any_placement, NODE, ROOT, POOL, SECOND)
    host.period()
    host.mounts(SECOND)
    assert host.period().ok
    assert not there(any_placement, POOL) and there(any_placement, SECOND)

    strangers = "eeeeeeee-0000-4000-8000-00000000000f"
    any_placement.stranger.create_provider("theirs", strangers)
    any_placement.stranger.add_trait(strangers, "MISC_SHARES_VIA_AGGREGATE")
    any_placement.stranger.set_aggregates(strangers, [ROW])
    any_placement.stranger.set_aggregates(SECOND, [RACK, ROW])
    host.mounts()
    report = [host.period() for _ in range(3)][-1]
    assert report.ok and f"another service set aggregate {ROW}" in str(report.texts(Severity.INFO))
    record = any_placement.stranger.inventory(SECOND)["DISK_GB"]
    assert record["reserved"] == record["total"]
    any_placement.stranger.set_aggregates(SECOND, [RACK])
    host.period(2 * VERIFY), host.period()
    assert not there(any_placement, SECOND), "though another one shares"


def test_a_storage_that_another_one_replaces_waits_for_an_operator(any_placement, hosts) -> None:
    for host in hosts:
        host.mounts(SECOND)
    for _ in range(3):
        conditions = [each for host in hosts for each in host.period(2 * VERIFY).conditions]
        assert [each.severity for each in conditions] == [Severity.WARNING] * 2
        assert all(f"resource provider delete {POOL}" in each.next_step for each in conditions)
    any_placement.stranger.delete_provider(POOL)
    for host in hosts:
        assert not host.period(2 * VERIFY).texts()
    assert not there(any_placement, POOL)


def test_a_storage_with_a_strangers_provider_below_it_is_drained(any_placement) -> None:
    host = Host(any_placement, NODE, ROOT, POOL)
    host.period()
    child = any_placement.stranger.create_child(POOL, "export")
    host.mounts()
    for sake in ("export is below it", f"provider export ({child}) below it; to remove it"):
        report = host.period()
        assert report.ok and sake in str(report.texts(Severity.INFO))
    record = any_placement.stranger.inventory(POOL)["DISK_GB"]
    assert record["reserved"] == record["total"]
    assert host.calls_of(lambda: host.period(1.0)) == []
    any_placement.stranger.delete_provider(child)
    host.period(2 * VERIFY)
    assert not there(any_placement, POOL)


def test_while_other_hosts_use_it_they_are_looked_for_at_doubled_gaps(fake_placement) -> None:
    first = Host(fake_placement, NODE, ROOT, POOL, verify_every=1e6)
    second = Host(fake_placement, "h2", OTHER, POOL)
    first.period(), second.period()
    first.mounts()
    first.period()
    calls = [first.calls_of(lambda: first.periods(30.0)) for _ in range(8)]
    looks = [number for number, sent in enumerate(calls, 1) if sent]
    assert looks == [2, 6], "60 s and 120 s later"
    assert {len(sent) for sent in calls} == {0, 1}


def test_a_client_that_removes_it_keeps_it_for_the_other_hosts(any_placement, hosts) -> None:
    client = Client(door_to(any_placement), owns=lambda provider: True)
    tree = client.tree(ROOT)
    tree.remove(POOL)
    result = client.update(tree)
    assert "in its aggregates: h2" in str(result.waiting[POOL]) and not result.draining
    assert there(any_placement, POOL)


@pytest.mark.parametrize("used", [False, True], ids=["free", "with a guest"])
def test_the_owner_of_a_storage_withdraws_it_whoever_shares_it(
    any_placement, hosts, used: bool
) -> None:
    guest = any_placement.stranger.put_allocation({POOL: {"DISK_GB": 10}}) if used else None
    client = Client(door_to(any_placement))
    result = client.delete(POOL)
    assert result.ok and there(any_placement, POOL) == used == (result.draining == {POOL})
    if guest is not None:
        assert pool(any_placement)["reserved"] == 900 and result.waiting.keys() == {POOL}
        any_placement.stranger.delete_allocation(guest)
        result = client.delete(POOL)
    assert result.ok and not result.waiting and not there(any_placement, POOL)


def test_a_storage_that_another_service_deleted_is_created_again(any_placement, hosts) -> None:
    _, second = hosts
    any_placement.stranger.delete_provider(POOL)
    for _ in range(3):
        second.period()
    assert there(any_placement, POOL)


@pytest.mark.parametrize(
    ("more", "least"),
    [
        ({"total": 901}, {"total": 900}),
        ({"reserved": 0}, {"reserved": 900}),
        ({"max_unit": 900}, {"max_unit": 800}),
        ({"total": 901, "reserved": 1}, {"total": 900}),
    ],
    ids=["totals", "health", "units", "same capacity"],
)
def test_hosts_that_differ_on_a_storage_end_at_the_least_of_it(
    any_placement, hosts, more: dict[str, int], least: dict[str, int]
) -> None:
    first, second = hosts
    third = Host(any_placement, "h3", "c0ffee00-0000-4000-8000-0000000000b3", POOL)
    for host, record in ((first, more), (second, least), (third, more)):
        reports(host, **record)
    periods = [[host.period() for host in (first, second, third)] for _ in range(20)]
    writes = [sum(len(report.done) for report in each) for each in periods]
    assert sum(writes[1:]) <= 4 and not any(writes[4:]), writes
    kept = pool(any_placement)
    assert kept == kept | least
    for host in (first, third):
        (text,) = host.period().texts()
        assert f"DISK_GB (total {kept['total']}, reserved {kept['reserved']}" in text
        assert f"of provider {POOL} is set again by another service or host" in text
        assert all(
            f"{key} {value}" in text.partition("driver1 reports")[2] for key, value in more.items()
        )
    assert not second.period().texts()

    reports(second, **more)  # as a device that is well again
    for _ in range(2):
        second.period(), first.period(), third.period()
    assert pool(any_placement) | more == pool(any_placement)
    assert not any(host.period().texts() for host in (first, second, third))


def test_hosts_that_name_a_storage_differently_end_at_the_first_name(fake_placement) -> None:
    def names(node: str, name: str) -> Body:
        def body(tree: Any) -> None:
            mounts(node, POOL)(tree)
            tree.rename(POOL, name)

        return body

    hosts = Host(fake_placement, NODE, ROOT, POOL), Host(fake_placement, "h2", OTHER, POOL)
    for host, name in zip(hosts, ("pool-a", "pool-b"), strict=True):
        host.driver.body = names(host.node, name)
    writes = [sum(len(host.period().done) for host in hosts) for _ in range(20)]
    assert not any(writes[3:]) and fake_placement.stranger.provider(POOL)["name"] == "pool-a"
    (text,) = hosts[1].period().texts()
    assert "the name pool-a of provider" in text and "reports the name pool-b" in text


def test_what_another_service_took_from_a_storage_is_given_back(any_placement, hosts) -> None:
    first, _ = hosts
    for taken in (100, 200):
        any_placement.stranger.set_inventory(POOL, {"DISK_GB": {"total": 900 - taken}})
        first.period()
        assert pool(any_placement)["total"] == 900
