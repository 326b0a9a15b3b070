"""Provider files on the fake and on a real Placement: what they add, and what they never touch."""

from pathlib import Path

import pytest

from agent.state.saved_root import root_path
from drivers.api import DriverNotReady, ReshapeNeeded
from reportclient.errors import Unreachable
from tests.agents import NODE, ROOT, VERIFY, Small, child_uuid, devices, fails, inventory
from tests.integration.provider_hosts import EVERY_ROOT, Host, entry
from tests.stranger import FakePlacement

DEVICE = f"{NODE}_dev1"
CHILD = child_uuid(DEVICE)
STORAGE = "eeeeeeee-0000-4000-8000-000000000001"
AGG = "aaaaaaaa-0000-4000-8000-000000000001"


@pytest.fixture
def host(fake_placement: FakePlacement, tmp_path: Path) -> Host:
    """A root and a device below it, by two drivers."""
    return Host(fake_placement, tmp_path, Small(inventory()), Small(devices(DEVICE)))


@pytest.fixture
def any_host(any_placement, tmp_path: Path) -> Host:
    """The same, on the real Placement too: for what depends on its answers."""
    return Host(any_placement, tmp_path, Small(inventory()), Small(devices(DEVICE)))


def started(host: Host, *entries: str) -> Host:
    if entries:
        host.write(*entries)
    return host.start().settle()


# -- what they add


def test_one_more_trait_costs_its_name_and_one_write(any_host: Host) -> None:
    started(any_host, entry(EVERY_ROOT, "CUSTOM_GOLD"))
    any_host.reads(entry(EVERY_ROOT, "CUSTOM_GOLD", "CUSTOM_SILVER"))
    assert any_host.calls_of(any_host.period) == [
        "PUT /traits/CUSTOM_SILVER",
        f"PUT /resource_providers/{ROOT}/traits",
    ]
    any_host.reads(entry(EVERY_ROOT, "CUSTOM_SILVER"))
    assert any_host.calls_of(any_host.period) == [f"PUT /resource_providers/{ROOT}/traits"]
    assert any_host.custom() == {"CUSTOM_SILVER"}


def test_what_a_record_leaves_out_is_placements_default(host: Host) -> None:
    started(host, entry(EVERY_ROOT, CUSTOM_LICENSE=8))
    host.stranger.set_inventory(
        ROOT, {"VCPU": {"total": 8}, "CUSTOM_LICENSE": {"total": 8, "reserved": 3}}
    )
    host.settle()
    record = host.stranger.inventory(ROOT)["CUSTOM_LICENSE"]
    assert (record["reserved"], record["max_unit"]) == (0, 2147483647)


def test_every_root_but_named_ones_gets_what_is_for_the_compute_node(
    any_placement, tmp_path: Path
) -> None:
    host = Host(any_placement, tmp_path, Small(inventory(), ["n1", "n2", "n3", "n4"]))
    two = child_uuid("n2")
    host.write(entry(EVERY_ROOT, "CUSTOM_ANY", CUSTOM_LICENSE=1), name="z.yaml")
    host.write(
        entry("name: n1", "CUSTOM_ONE"),
        entry(f"uuid: {two.upper()}", CUSTOM_OTHER=2),
        "- identification: {name: n3}\n",  # says nothing, so it stands in nothing's way
    )
    started(host)
    seen = {
        name: (host.custom(child_uuid(name)), host.totals(child_uuid(name)))
        for name in ("n1", "n2", "n3", "n4")
    }
    assert seen == {
        "n1": ({"CUSTOM_ONE"}, {"VCPU": 8}),
        "n2": (set(), {"VCPU": 8, "CUSTOM_OTHER": 2}),
        "n3": ({"CUSTOM_ANY"}, {"VCPU": 8, "CUSTOM_LICENSE": 1}),
        "n4": ({"CUSTOM_ANY"}, {"VCPU": 8, "CUSTOM_LICENSE": 1}),
    }
    assert host.calls_of(host.periods) == []


def test_a_sharing_provider_of_ours_gets_it_once_for_all_nodes(any_placement, tmp_path) -> None:
    def shared(tree, nodename, allocations=None):
        inventory()(tree, nodename)
        tree.add_aggregates(nodename, AGG)
        if not tree.exists("storage"):
            tree.new_root("storage", STORAGE)
            tree.update_inventory("storage", {"DISK_GB": {"total": 100}})
            tree.update_traits("storage", ["MISC_SHARES_VIA_AGGREGATE"])
            tree.update_aggregates("storage", [AGG])

    host = Host(any_placement, tmp_path, Small(shared, ["n1", "n2"]))
    host.write(entry("name: storage", "CUSTOM_FAST", CUSTOM_SLOT=2))
    host.start()
    host.periods()  # both make it at once: one of them may find it there
    host.settle()
    assert host.totals(STORAGE) == {"DISK_GB": 100, "CUSTOM_SLOT": 2}
    host.reads()
    host.settle()
    assert (host.totals(STORAGE), host.custom(STORAGE)) == ({"DISK_GB": 100}, set())


# -- what is taken out of a file


def test_what_leaves_the_file_leaves_placement_and_nothing_else_does(any_host: Host) -> None:
    started(any_host, entry(EVERY_ROOT, "CUSTOM_GOLD", CUSTOM_LICENSE=8))
    assert any_host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 8}
    any_host.stranger.add_trait(ROOT, "CUSTOM_FOREIGN")
    any_host.reads()
    any_host.settle()
    assert any_host.totals() == {"VCPU": 8}
    assert any_host.custom() == {"CUSTOM_FOREIGN"}
    assert list(any_host.state.glob("provider-config-*.json")) == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("part", ["traits", "inventories"])
def test_an_agent_killed_at_a_write_still_knows_what_is_its_own(
    fake_placement: FakePlacement, tmp_path: Path, part: str, after: bool
) -> None:
    host = started(Host(fake_placement, tmp_path, Small(inventory())))
    host.reads(entry(EVERY_ROOT, "CUSTOM_GOLD", CUSTOM_LICENSE=8))
    fake_placement.fail_next("PUT", f"{ROOT}/{part}", Unreachable("killed"), after=after)
    assert not host.period().ok
    host.write()
    host.start()
    host.settle()
    assert (host.custom(), host.totals()) == (set(), {"VCPU": 8})


def test_a_name_leaves_the_journal_only_once_placement_is_without_it(
    fake_placement: FakePlacement, tmp_path: Path
) -> None:
    host = Host(fake_placement, tmp_path, Small(inventory()))
    started(host, entry(EVERY_ROOT, "CUSTOM_GOLD"))
    host.reads()
    fake_placement.fail_next("PUT", f"{ROOT}/traits", Unreachable("killed"))
    host.period()
    host.start()
    host.settle()
    assert host.custom() == set()
    host.stranger.add_trait(ROOT, "CUSTOM_GOLD")
    host.settle()
    assert host.custom() == {"CUSTOM_GOLD"}


def test_a_class_in_use_is_drained_until_it_is_free_or_comes_back(any_host: Host) -> None:
    started(any_host, entry(EVERY_ROOT, CUSTOM_LICENSE=8))
    consumer = any_host.stranger.put_allocation({ROOT: {"CUSTOM_LICENSE": 3}})
    for entries, total, reserved in (
        ([], 8, 8),
        ([entry(EVERY_ROOT, CUSTOM_LICENSE=9)], 9, 0),
        ([], 9, 9),
    ):
        any_host.reads(*entries)
        report = any_host.period(2 * VERIFY)
        assert (consumer in str(report.texts())) is (reserved > 0)
        record = any_host.stranger.inventory(ROOT)["CUSTOM_LICENSE"]
        assert (record["total"], record["reserved"]) == (total, reserved)
    any_host.start()  # it is still known to be ours
    any_host.stranger.delete_allocation(consumer)
    any_host.settle()
    assert any_host.totals() == {"VCPU": 8}


# -- what belongs to others


def test_a_class_that_a_driver_reports_is_the_drivers(host: Host) -> None:
    path = host.write(entry(f"name: {DEVICE}", "CUSTOM_FAST", CUSTOM_DEVICE=7, CUSTOM_SLOT=2))
    host.start()
    host.period()
    report = host.period()
    [told] = report.texts()
    assert f"provider {DEVICE} ({CHILD}): {path}:4: CUSTOM_DEVICE of the file ignored: " in told
    assert host.totals(CHILD) == {"CUSTOM_DEVICE": 1, "CUSTOM_SLOT": 2}
    assert host.custom(CHILD) == {"CUSTOM_FAST"}
    host.reads(entry(f"name: {DEVICE}", "CUSTOM_FAST", CUSTOM_SLOT=2))
    host.settle()
    assert host.totals(CHILD) == {"CUSTOM_DEVICE": 1, "CUSTOM_SLOT": 2}


def test_a_sharing_provider_of_somebody_else_is_never_changed(any_host: Host) -> None:
    started(any_host)
    any_host.stranger.create_provider("storage", STORAGE)
    any_host.stranger.set_aggregates(STORAGE, [AGG])
    any_host.stranger.add_trait(STORAGE, "MISC_SHARES_VIA_AGGREGATE")
    any_host.stranger.set_aggregates(ROOT, [AGG])
    any_host.period(2 * VERIFY)
    path = any_host.write(entry("name: storage", "CUSTOM_FAST", CUSTOM_SLOT=1))
    any_host.reload()
    for _ in range(2):
        [told] = any_host.period(2 * VERIFY).texts()
        assert f"{path}:3: not changed: owned by another service" in told
    assert (any_host.custom(STORAGE), any_host.totals(STORAGE)) == (set(), {})
    any_host.reads()
    any_host.settle()


def test_a_driver_that_fails_takes_nothing_of_a_file_along(host: Host) -> None:
    started(
        host,
        entry(EVERY_ROOT, "CUSTOM_GOLD", CUSTOM_LICENSE=8),
        entry(f"name: {DEVICE}", "CUSTOM_FAST"),
    )
    for driver in host.drivers:
        driver.body = fails(DriverNotReady("a bad moment"))
        assert not host.period().ok
    assert (host.custom(), host.custom(CHILD)) == ({"CUSTOM_GOLD"}, {"CUSTOM_FAST"})
    assert host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 8}
    host.reads()
    host.period()
    assert (host.custom(), host.custom(CHILD)) == (set(), set())
    assert host.totals() == {"VCPU": 8}


def test_a_device_that_goes_and_comes_back_gets_what_the_file_adds(any_host: Host) -> None:
    started(any_host, entry(f"name: {DEVICE}", "CUSTOM_FAST", CUSTOM_SLOT=2))
    any_host.drivers[1].body = devices()
    any_host.settle()
    assert list(any_host.state.glob("provider-config-*.json")) == []
    any_host.drivers[1].body = devices(DEVICE)
    any_host.settle()
    assert any_host.totals(CHILD) == {"CUSTOM_DEVICE": 1, "CUSTOM_SLOT": 2}
    assert any_host.custom(CHILD) == {"CUSTOM_FAST"}


def test_a_reshape_carries_what_a_file_added_and_the_guests_that_use_it(
    any_placement, tmp_path: Path
) -> None:
    def flat(tree, nodename, allocations=None):
        tree.update_inventory(nodename, {"VCPU": {"total": 8}, "VGPU": {"total": 4}})

    def nested(tree, nodename, allocations=None):
        if "VGPU" in tree.data(nodename).inventory and allocations is None:
            raise ReshapeNeeded
        tree.update_inventory(nodename, {"VCPU": {"total": 8}})
        if not tree.exists(DEVICE):
            tree.new_child(DEVICE, nodename)
        tree.update_inventory(DEVICE, {"VGPU": {"total": 4}})
        for held in (allocations or {}).values():
            amount = held["allocations"][ROOT]["resources"].pop("VGPU")
            held["allocations"][CHILD] = {"resources": {"VGPU": amount}}

    driver = Small(flat)
    host = started(Host(any_placement, tmp_path, driver), entry(EVERY_ROOT, CUSTOM_LICENSE=8))
    consumer = host.stranger.put_allocation({ROOT: {"VGPU": 1, "CUSTOM_LICENSE": 2}})
    driver.body = nested
    host.write(entry(EVERY_ROOT, CUSTOM_LICENSE=9), entry(f"name: {DEVICE}", CUSTOM_SLOT=1))
    host.start()
    mark = host.placement.mark()
    assert host.period().ok
    assert "POST /reshaper" in [f"{r.method} {r.path}" for r in host.placement.since(mark)]
    held = host.stranger.allocation(consumer)["allocations"]
    assert held[ROOT]["resources"] == {"CUSTOM_LICENSE": 2}
    assert held[CHILD]["resources"] == {"VGPU": 1}
    assert host.totals() == {"VCPU": 8, "CUSTOM_LICENSE": 9}
    assert host.totals(CHILD) == {"VGPU": 4, "CUSTOM_SLOT": 1}
    host.settle()


# -- absent providers


def test_a_new_node_makes_nobody_be_called_absent_again(fake_placement, tmp_path, caplog) -> None:
    driver = Small(inventory(), ["n1", "n2"])
    host = Host(fake_placement, tmp_path, driver)
    started(host, entry("name: nobody", "CUSTOM_FAST"))
    driver.nodes = ["n1", "n2", "n3"]
    path = f"/resource_providers.in_tree={child_uuid('n3')}"
    fake_placement.fail_next("GET", path, Unreachable("not now"))
    host.periods()
    host.settle()
    assert not fake_placement.failures
    assert caplog.text.count("no provider has the name nobody") == 1


def test_an_absent_provider_is_named_once_and_again_after_it_was_there(
    fake_placement: FakePlacement, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(fake_placement, tmp_path, Small(inventory()), Small(devices()))
    path = host.write(entry(f"name: {DEVICE}", "CUSTOM_FAST"))
    line = f"{path}:3: no provider has the name {DEVICE}; the entry is applied once that provider exists"
    started(host)
    assert [one.message for one in caplog.records].count(line) == 1
    host.drivers[1].body = devices(DEVICE)
    host.settle()
    assert host.custom(CHILD) == {"CUSTOM_FAST"}
    host.drivers[1].body = devices()
    host.settle()
    assert [one.message for one in caplog.records].count(line) == 2


def test_no_provider_is_absent_before_every_driver_and_node_answered(
    fake_placement: FakePlacement, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Small(fails(DriverNotReady("not yet")))
    host = Host(fake_placement, tmp_path, Small(inventory(), ["n1", "n2"]), failing)
    host.write(entry(f"name: {DEVICE}", "CUSTOM_FAST"), entry("name: n2", "CUSTOM_SLOW"))
    host.start()
    host.periods()
    failing.body = lambda tree: tree.exists("n1") and devices(DEVICE)(tree, "n1")
    host.settle()
    assert "no provider has the name" not in caplog.text


# -- bad files


def test_a_bad_file_changes_nothing_until_it_is_mended(host: Host) -> None:
    started(host, entry(EVERY_ROOT, "CUSTOM_GOLD"))
    path = host.write(entry(EVERY_ROOT, "HW_GOLD"))
    host.reload()
    assert host.calls_of(host.period) == []
    [condition] = host.nodes.provider_files.conditions()
    told = condition.sentence
    assert condition.text.startswith(f"{path}:5: providers[0].traits.additional[0]: has to be")
    assert "the last valid files stay in use; correct this, then reload compute-agent" in told
    host.reads(entry(EVERY_ROOT, "CUSTOM_SILVER"))
    host.settle()
    assert (host.custom(), host.nodes.provider_files.conditions()) == ({"CUSTOM_SILVER"}, ())


# -- a state directory that fails


def test_a_damaged_ledger_is_told_and_nothing_is_taken_away_by_guess(host: Host, caplog) -> None:
    started(host, entry(EVERY_ROOT, "CUSTOM_GOLD"))
    kept = root_path(host.state, ROOT)
    kept.write_bytes(kept.read_bytes().replace(b"GOLD", b"BOLD"))
    host.write()
    host.start()
    host.settle()
    assert host.custom() == {"CUSTOM_GOLD"}
    assert "removes nothing else" in caplog.text
