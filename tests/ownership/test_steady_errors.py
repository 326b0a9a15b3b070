"""A Placement that fails steadily: one read and one write a try, at doubled gaps; then all is right."""

import itertools
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from reportclient import errors
from reportclient.client import Client
from reportclient.root import BulkWrites
from tests.agents import Body
from tests.ownership.world import (
    NODE,
    ROOT,
    VERIFY,
    Host,
    aggregates,
    both,
    child,
    inventory,
    own,
    removes,
    settled_host,
    traits,
)
from tests.stranger import FakePlacement

PERIOD = 60.0
CHILDREN = [f"child{n}" for n in range(6)]


@dataclass
class Steady(FakePlacement):
    """Answers each such request with the same error, while ``error`` is set.

    ``path`` is searched for in the path and the body.
    """

    method: str = ""
    path: str = ""
    error: errors.PlacementError | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        met = re.search(self.path, path) or re.search(self.path, str(more.get("json")))
        if self.error and re.search(self.method, method) and met:
            self.fail_next(method, re.escape(path), self.error)
        return super().request(method, path, **more)


EVERY_WRITE = ("PUT|POST|DELETE", "")
ERRORS: dict[str, tuple[tuple[str, str], Callable[[], errors.PlacementError]]] = {
    "500 on every write": (EVERY_WRITE, lambda: errors.ServerFault("500 made up")),
    "409 on every write": (EVERY_WRITE, lambda: errors.Conflict("409 made up")),
    "409 on every create": (("POST", "providers$"), lambda: errors.AlreadyThere("409 made up")),
    "404 on every create": (("POST", "providers$"), lambda: errors.NotFound("404 made up")),
    "404 on every write": (EVERY_WRITE, lambda: errors.NotFound("404 made up")),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_fails_steadily_costs_a_read_and_a_write_at_doubled_gaps(case: str, tmp_path) -> None:
    (method, path), error = ERRORS[case]
    placement = Steady(method, path)
    reports = both(inventory(VCPU=8), *(child(name, VGPU=1) for name in CHILDREN))
    host = Host(placement, {"d": reports}, state=tmp_path, period=PERIOD)
    placement.error = error()
    first = host.calls_of(lambda: host.period(PERIOD))
    assert len(first) <= 12, first
    tried = []
    for _ in range(60):
        calls = host.calls_of(lambda: host.period(PERIOD))
        reads = [one for one in calls if one.startswith("GET")]
        assert len(reads) <= 1 and len(calls) - len(reads) <= 1, calls
        if len(calls) > len(reads):
            tried.append(host.now)
    gaps = [after - before for before, after in itertools.pairwise(tried)]
    # A verification comes up to half its interval earlier or later.
    assert all(gap >= VERIFY / 2 - PERIOD for gap in gaps[4:]), gaps
    assert len(tried) < 20, "60 periods"
    placement.error = None
    for _ in range(12):
        host.period(PERIOD)
    assert host.settled().ok
    assert host.names() == {NODE, *CHILDREN}


@pytest.mark.parametrize("error", [errors.ServerFault("500"), errors.Conflict("409")])
@pytest.mark.parametrize("apart", [0, 3])
def test_changes_that_fail_cost_one_read_and_one_write_together(error, apart, tmp_path) -> None:
    """Whether they came in one period, or ``apart`` periods from each other."""
    placement = Steady(*EVERY_WRITE)
    rules = {"period": PERIOD, "verify_every": 600.0}
    host = settled_host(placement, {"d": SIX}, state=tmp_path, **rules)
    placement.error, changed, first = error, SIX, []
    for number, name in enumerate(CHILDREN):
        changed = both(changed, child(name, VGPU=3))
        host.says(d=changed)
        for _ in range(apart or number // 5):
            first += host.calls_of(lambda: host.period(PERIOD))
    written = [each for each in first if not each.startswith("GET")]
    assert apart or len(written) == (2 if isinstance(error, errors.Conflict) else 6)
    for _ in range(20):
        host.period(PERIOD)
    calls = [each for _ in range(60) for each in host.calls_of(lambda: host.period(PERIOD))]
    writes = [each for each in calls if not each.startswith("GET")]
    assert len(writes) <= 6 and len(calls) <= 2 * len(writes) + 1, "in an hour"
    placement.error = None
    for _ in range(20):
        host.period(PERIOD)
    assert all(host.totals(name) == {"VGPU": 3} for name in CHILDREN)


def test_each_of_many_that_fail_has_its_turn(tmp_path) -> None:
    placement = Steady("PUT", "|".join(own(name) for name in CHILDREN[:3]))
    host = settled_host(placement, {"d": SIX}, state=tmp_path, period=PERIOD)
    placement.error = errors.ServerFault("500 made up")
    placement.path, lasting = "", placement.path
    host.says(d=both(SIX, *(child(name, VGPU=3) for name in CHILDREN)))
    for _ in range(2):
        host.period(PERIOD)
    placement.path = lasting
    for _ in range(30):
        host.period(PERIOD)
    assert [host.totals(name)["VGPU"] for name in CHILDREN] == [2, 2, 2, 3, 3, 3]


def test_what_fails_at_one_provider_holds_up_no_other(tmp_path) -> None:
    placement = Steady()
    reports = both(inventory(VCPU=8), *(child(name, VGPU=1) for name in CHILDREN))
    host = settled_host(placement, {"d": reports}, state=tmp_path, period=PERIOD)
    placement.method, placement.path = "PUT", f"{host.uuid('child0')}/traits"
    placement.error = errors.ServerFault("500 made up")
    marks = [traits("CUSTOM_NEW", provider=name) for name in CHILDREN]
    host.says(d=both(reports, *marks))
    for _ in range(3):
        host.period(PERIOD)
    assert [host.custom(name) for name in CHILDREN] == [set(), *5 * [{"CUSTOM_NEW"}]]
    assert "500 made up" in host.complaints(PERIOD)
    writes = 0
    for _ in range(60):
        calls = host.calls_of(lambda: host.period(PERIOD))
        writes += sum(not one.startswith("GET") for one in calls)
    assert writes < 20
    placement.error = None
    for _ in range(12):
        host.period(PERIOD)
    assert host.custom("child0") == {"CUSTOM_NEW"}


FAULTS: dict[str, Callable[[], errors.PlacementError]] = {
    "500": lambda: errors.ServerFault("500 made up"),
    "409": lambda: errors.Conflict("409 made up"),
    "404": lambda: errors.NotFound("404 made up"),
    "403": lambda: errors.Forbidden("403 made up"),
    "503": lambda: errors.Unreachable("503 made up", unsent=True),
    "429": lambda: errors.Unreachable("429 made up", unsent=True, retry_after=20.0),
    "time-out": lambda: errors.Unreachable("no answer"),
}
SIX = both(inventory(VCPU=8), *(child(name, VGPU=2) for name in CHILDREN))
GPU = child("child0", VGPU=1, CUSTOM_GPU=1)
AT_FIRST = own("child0")
CHANGES: dict[str, tuple[str, str, Body]] = {
    "create": ("POST", "'name': 'new'", both(SIX, child("new", VGPU=1))),
    "rename": ("PUT", "'name': 'new'", both(SIX, lambda tree: tree.rename("child0", "new"))),
    "delete": ("DELETE", AT_FIRST, both(SIX, removes("child0"))),
    "drain": ("PUT", f"{AT_FIRST}/inventories", both(SIX, removes("child0"))),
    "look": ("GET", f"{AT_FIRST}/allocations", both(SIX, removes("child0"))),
    "look before": ("GET", f"{AT_FIRST}/allocations", both(SIX, GPU)),
    "trait": ("PUT", f"{AT_FIRST}/traits", both(SIX, traits("HW_NIC_SRIOV", provider="child0"))),
    "name": ("PUT", "/resource_classes/", both(SIX, GPU)),
    "inventory": ("PUT", f"{AT_FIRST}/inventories", both(SIX, GPU)),
    "aggregate": ("PUT", f"{AT_FIRST}/aggregates", both(SIX, aggregates(ROOT, provider="child0"))),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_lasting_fault_at_one_provider_delays_no_other(change: str, fault: str, tmp_path) -> None:
    """Whenever it began: what comes later at others is written in the next period or two."""
    placement, bulk = Steady(), BulkWrites(500 if change == "inventory" else 0)
    host = settled_host(placement, {"d": SIX}, state=tmp_path, period=PERIOD, bulk=bulk)
    guest = (
        host.stranger.put_allocation({AT_FIRST: {"VGPU": 1}}) if change in ("drain", "look") else ""
    )
    placement.method, placement.path, later = CHANGES[change]
    placement.error = FAULTS[fault]()
    host.says(d=later)
    cpus, shown = 8, 0
    for periods in (1, 3, 12):
        for _ in range(periods):
            host.period(PERIOD)
        cpus -= 1
        moved = traits("COMPUTE_NODE", "HW_CPU_X86_AVX", provider=f"child{cpus - 4}")
        host.says(d=both(later, inventory(VCPU=cpus), moved))
        shown = len(host.scripted["d"].trees)
        for _ in range(2):
            host.period(PERIOD)
        assert host.totals()["VCPU"] == cpus
        assert "HW_CPU_X86_AVX" in host.traits(f"child{cpus - 4}")
        assert len(host.scripted["d"].trees) > shown
    placement.error = None
    if guest:
        host.stranger.delete_allocation(guest)
    for _ in range(22):
        host.period(PERIOD)
    assert host.settled().ok


def test_verifications_that_fail_hold_up_no_write(tmp_path) -> None:
    """While the view is certain they are no faults of writes, which would have to wait."""
    for number in range(4):
        placement = Steady("GET", "")
        state = tmp_path / str(number)
        host = Host(placement, {"d": inventory(VCPU=8)}, state=state, period=PERIOD)
        host.settled()
        placement.error = errors.ServerFault("500 made up")
        for _ in range(40):
            host.period(PERIOD)
        host.says(d=inventory(VCPU=9)).period(PERIOD)
        assert host.totals()["VCPU"] == 9


def test_a_disabled_host_is_tried_while_the_root_rests(tmp_path) -> None:
    placement = Steady(*EVERY_WRITE)
    host = settled_host(placement, {"d": inventory(VCPU=8)}, state=tmp_path, period=PERIOD)
    placement.error = errors.ServerFault("500 made up")
    host.says(d=inventory(VCPU=9))
    for _ in range(5):
        host.period(PERIOD)
    placement.error = None
    assert host.switch(disabled=True).ok
    assert "COMPUTE_STATUS_DISABLED" in host.traits()


def test_a_caller_of_the_library_is_served_each_time() -> None:
    """Who calls has a pace of his own."""
    placement = Steady(*EVERY_WRITE)
    client = Client(placement)
    placement.stranger.create_provider(NODE, ROOT)
    client.edit(ROOT, lambda tree: None)
    placement.error = errors.ServerFault("500 made up")
    for _ in range(4):
        mark = placement.mark()
        with suppress(errors.PlacementError):
            client.edit(ROOT, lambda tree: tree.add_traits(ROOT, "HW_CPU_X86_AVX"))
        assert any(one.is_write for one in placement.since(mark))
    placement.error = None
    assert client.edit(ROOT, lambda tree: tree.add_traits(ROOT, "HW_CPU_X86_AVX")).done
