"""An older driver, a driver with devices, provider files and a disabled host on one root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.ownership.policy import DISABLED
from agent.state.root_file import root_path
from drivers.api import ComputeDriver, DriverContext, DriverNotReady, ReshapeNeeded
from reportclient.testing.fake_placement import FakePlacement
from tests.agents import NODE, ROOT, VERIFY, Small, child_uuid, devices
from tests.integration.provider_hosts import EVERY_ROOT, Host, entry

DEVICE = f"{NODE}_dev1"
CHILD = child_uuid(DEVICE)


class Older(ComputeDriver):
    """Says what it has by Nova's older methods."""

    def __init__(self) -> None:
        super().__init__(DriverContext(NODE, Path("/nonexistent")))
        self.inventory: dict[str, int] = {"VCPU": 8, "MEMORY_MB": 1024}
        self.traits = ["HW_CPU_X86_AVX", "CUSTOM_GOLD"]
        self.error: Exception | None = None

    def get_available_nodes(self) -> list[str]:
        return [NODE]

    def get_inventory(self, nodename: str) -> dict[str, dict[str, Any]]:
        if self.error is not None:
            raise self.error
        return {name: {"total": total} for name, total in self.inventory.items()}

    def get_traits(self, nodename: str) -> list[str]:
        return self.traits


@pytest.fixture
def any_host(any_placement: Any, tmp_path: Path) -> Host:
    return _started(any_placement, tmp_path)


@pytest.fixture
def host(fake_placement: FakePlacement, tmp_path: Path) -> Host:
    return _started(fake_placement, tmp_path)


def _started(placement: Any, directory: Path) -> Host:
    host = Host(placement, directory, Older(), Small(devices(DEVICE)))
    host.write(
        entry(EVERY_ROOT, "CUSTOM_RACK", CUSTOM_LICENCE=8),
        entry(f"name: {DEVICE}", "CUSTOM_FAST", CUSTOM_SLOT=2),
    )
    host.start()
    periods(host)
    return host


def periods(host: Host, count: int = 3) -> None:
    for _ in range(count):
        report = host.period(2 * VERIFY, disabled=True)
        assert report.ok, report.texts()
    assert not report.done


def writes(host: Host) -> list[str]:
    """Of one period; a GET for the verification is not counted."""
    calls = host.calls_of(lambda: host.period(2 * VERIFY, disabled=True))
    found = [call for call in calls if not call.startswith("GET")]
    assert writes_of_quiet(host) == []
    return found


def writes_of_quiet(host: Host) -> list[str]:
    return host.calls_of(lambda: host.period(1.0, disabled=True))


def picture(host: Host) -> Any:
    return [
        (host.totals(uuid), sorted(host.stranger.traits(uuid)), host.stranger.aggregates(uuid))
        for uuid in (ROOT, CHILD)
    ]


def test_a_quiet_period_of_all_asks_nothing_and_a_verification_one_get(any_host: Host) -> None:
    assert writes_of_quiet(any_host) == []
    calls = any_host.calls_of(lambda: any_host.period(2 * VERIFY, disabled=True))
    assert calls == [f"GET /resource_providers?in_tree={ROOT}"]


def test_one_change_of_any_of_them_is_one_write(any_host: Host) -> None:
    older = any_host.drivers[0]
    assert isinstance(older, Older)
    older.traits = ["HW_CPU_X86_AVX"]
    assert writes(any_host) == [f"PUT /resource_providers/{ROOT}/traits"]
    older.inventory = {"VCPU": 8}
    assert writes(any_host) == [f"PUT /resource_providers/{ROOT}/inventories"]
    any_host.write(entry(EVERY_ROOT, CUSTOM_LICENCE=8), entry(f"name: {DEVICE}", CUSTOM_SLOT=2))
    any_host.reload()
    both = {f"PUT /resource_providers/{uuid}/traits" for uuid in (ROOT, CHILD)}
    assert set(writes(any_host)) == both
    (report,) = any_host.nodes.switch(any_host.now, disabled=False)
    assert report.calls == 1
    assert DISABLED not in any_host.stranger.traits(ROOT)
    assert any_host.totals() == {"VCPU": 8, "CUSTOM_LICENCE": 8}


def test_a_restart_changes_nothing_even_without_the_file_of_parts(any_host: Host) -> None:
    before = picture(any_host)
    any_host.start()
    assert writes(any_host) == []
    root_path(any_host.state, ROOT).unlink()
    any_host.start()
    assert writes(any_host) == []
    assert picture(any_host) == before


def test_one_that_fails_keeps_its_part_and_what_files_add_to_it(host: Host) -> None:
    before = picture(host)
    older, tree_driver = host.drivers
    assert isinstance(older, Older) and isinstance(tree_driver, Small)
    older.error = DriverNotReady("no backend")
    for _ in range(3):
        report = host.period(2 * VERIFY, disabled=True)
        assert report.driver_errors.keys() == {"driver1"} and not report.done
    host.start()
    assert not host.period(2 * VERIFY, disabled=None).done, "disabled still, as it was"
    assert picture(host) == before


def test_who_is_taken_out_takes_its_own_along_and_nothing_else(any_host: Host) -> None:
    any_host.drivers = any_host.drivers[1:]
    name = next(iter(any_host.nodes.drivers)).name
    any_host.start()
    # Under its old name, as in a configuration from which the other one was struck out.
    any_host.nodes.drivers = [_renamed(any_host, "driver2")]
    periods(any_host)
    assert name == "driver1"
    assert any_host.totals() == {"CUSTOM_LICENCE": 8}
    assert any_host.custom() == {"CUSTOM_RACK"}
    traits = any_host.stranger.traits(ROOT)
    assert DISABLED in traits and "COMPUTE_NODE" in traits and "HW_CPU_X86_AVX" not in traits
    assert any_host.totals(CHILD)["CUSTOM_SLOT"] == 2
    assert any_host.custom(CHILD) >= {"CUSTOM_FAST"}


def _renamed(host: Host, name: str) -> Any:
    (loaded,) = host.nodes.drivers
    return type(loaded).from_driver(name, loaded.driver)


def test_a_reshape_of_one_moves_its_own_and_leaves_all_else_where_it_is(any_host: Host) -> None:
    older = any_host.drivers[0]
    assert isinstance(older, Older)
    guest = any_host.stranger.put_allocation(
        {ROOT: {"VCPU": 2, "CUSTOM_LICENCE": 3}, CHILD: {"CUSTOM_SLOT": 1}}
    )
    older.inventory, older.traits = {"MEMORY_MB": 1024}, ["HW_CPU_X86_AVX"]
    cell = child_uuid(f"{NODE}_cell")

    def cells(tree: Any, node: str, allocations: Any = None) -> None:
        if tree.exists(f"{node}_cell") and allocations is None:
            return
        if allocations is None:
            raise ReshapeNeeded
        tree.new_child(f"{node}_cell", node)
        tree.update_inventory(f"{node}_cell", {"VCPU": {"total": 8}})
        for one in allocations.values():
            held = one["allocations"][ROOT]["resources"]
            one["allocations"][cell] = {"resources": {"VCPU": held.pop("VCPU")}}
            if not held:
                del one["allocations"][ROOT]

    any_host.drivers = (*any_host.drivers, Small(cells))
    any_host.start()
    periods(any_host)
    found = any_host.stranger.allocation(guest)["allocations"]
    held = {uuid: one["resources"] for uuid, one in found.items()}
    assert held == {cell: {"VCPU": 2}, ROOT: {"CUSTOM_LICENCE": 3}, CHILD: {"CUSTOM_SLOT": 1}}
    assert any_host.totals() == {"MEMORY_MB": 1024, "CUSTOM_LICENCE": 8}
    assert any_host.totals(cell) == {"VCPU": 8}
    assert any_host.custom() == {"CUSTOM_RACK"}, (
        "also what was told no more goes, though asked twice"
    )
    assert DISABLED in any_host.stranger.traits(ROOT)
