"""The requests of each situation, to the call: the table in README and docs.

N providers, C consumers with allocations on the tree.  With a real Placement small trees always,
the large one in ``tools/test.sh --faults``.
"""

import pytest

from drivers.api import ReshapeNeeded
from reportclient.testing.fake_store import Store
from tests.cost.trees import NODE, ROOT, VERIFY, Agent, leaf_uuid, tree_driver
from tests.servers.placement import RealPlacement

AGGREGATE = "aaaaaaaa-0000-4000-8000-000000000001"
ROOTS = [("fake", 1, 0), ("fake", 1, 50), ("real", 1, 0)]
TREES = [
    *(("fake", size, consumers) for size in (3, 11, 131) for consumers in (0, 50)),
    ("real", 3, 50),
    pytest.param("real", 131, 0, marks=pytest.mark.faults),
    pytest.param("real", 131, 50, marks=pytest.mark.faults),
]
each_case = pytest.mark.parametrize(
    ("any_placement", "size", "consumers"), [*ROOTS, *TREES], indirect=["any_placement"]
)
each_tree = pytest.mark.parametrize(
    ("any_placement", "size", "consumers"), TREES, indirect=["any_placement"]
)
each_size = pytest.mark.parametrize(
    ("any_placement", "size"),
    [
        *(("fake", size) for size in (1, 3, 11, 131)),
        ("real", 3),
        pytest.param("real", 131, marks=pytest.mark.faults),
    ],
    indirect=["any_placement"],
)


class Log:
    """The requests that one step caused."""

    def __init__(self, placement):
        self.placement, self.start = placement, placement.mark()

    def take(self):
        requests = self.placement.since(self.start)
        self.start = self.placement.mark()
        return requests


def allocate(any_placement, consumers: int) -> None:
    """Give each consumer a little of the root."""
    for _ in range(consumers):
        any_placement.stranger.put_allocation({ROOT: {"VCPU": 1}})


def settled(any_placement, size, consumers=0, *, aggregate=None, state=None, **rules):
    """An agent whose tree is in Placement and in use, and whose view is up to date."""
    driver = tree_driver(size, aggregate=aggregate)
    driver.inventories[NODE] = {"VCPU": {"total": 100, "max_unit": 100}}
    agent = Agent(any_placement, driver, state, **rules)
    assert agent.period().ok
    allocate(any_placement, consumers)
    assert agent.period(2 * VERIFY).ok
    return agent, driver, Log(any_placement)


def emptied(any_placement) -> None:
    """Take away all that Placement has."""
    if isinstance(any_placement, RealPlacement):
        any_placement.empty()
    else:
        any_placement.store = Store()


def kinds(requests):
    return [request.method for request in requests]


@each_size
@pytest.mark.parametrize("aggregate", [None, AGGREGATE], ids=["", "with an aggregate"])
def test_cold_start(any_placement, size, aggregate):
    log = Log(any_placement)
    agent = Agent(any_placement, tree_driver(size, aggregate=aggregate))
    report = agent.period()
    assert report.ok
    requests = log.take()
    new_names = 1 + (1 if size > 1 else 0)  # the owner trait; the leaves' class
    aggregates = 0 if aggregate is None else 1  # sharing providers: at the next verification
    assert len(requests) == 1 + size + size + 1 + aggregates + new_names, "traits on the root only"
    assert report.calls == len(requests)


@pytest.mark.parametrize(("size", "chunk"), [(3, 50), (11, 4), (131, 50)])
def test_cold_start_with_bulk_writes(any_placement, size, chunk):
    log = Log(any_placement)
    agent = Agent(any_placement, tree_driver(size), bulk_chunk=chunk)
    assert agent.period().ok
    requests = log.take()
    bulk = -(-size // chunk)
    assert sum(request.path == "/reshaper" for request in requests) == bulk
    assert len(requests) == 1 + size + bulk + 1 + 2
    assert agent.period(2 * VERIFY).ok
    assert kinds(log.take()) == ["GET"], "the generations after a bulk write are known"


@each_case
def test_restart_with_a_saved_view(any_placement, tmp_path, size, consumers):
    _, driver, log = settled(any_placement, size, consumers, state=tmp_path)
    assert Agent(any_placement, driver, tmp_path).period().ok
    assert kinds(log.take()) == ["GET"]


def test_restart_and_quiet_verification_with_an_aggregate(any_placement, tmp_path):
    _, driver, log = settled(any_placement, 11, aggregate=AGGREGATE, state=tmp_path)
    agent = Agent(any_placement, driver, tmp_path)
    assert agent.period().ok
    assert kinds(log.take()) == ["GET", "GET"]
    agent.period(2 * VERIFY)
    assert kinds(log.take()) == ["GET", "GET"]


@each_case
def test_restart_when_the_saved_view_is_lost(any_placement, size, consumers):
    _, driver, log = settled(any_placement, size, consumers, aggregate=AGGREGATE)
    assert Agent(any_placement, driver).period().ok
    assert kinds(log.take()) == ["GET"] * (3 * size + 2)


@each_size
def test_after_placement_lost_its_database_costs_are_a_cold_starts(any_placement, size):
    agent, _, log = settled(any_placement, size)
    emptied(any_placement)
    log.take()
    report = agent.period(2 * VERIFY)
    assert report.ok and len(log.take()) == 1 + size + size + 1 + 1 + (size > 1)


@each_case
def test_quiet_periods(any_placement, size, consumers):
    agent, _, log = settled(any_placement, size, consumers)
    for _ in range(3):
        assert agent.period(1.0).calls == 0
    assert log.take() == []
    agent.period(2 * VERIFY)
    assert kinds(log.take()) == ["GET"]


@each_case
def test_one_inventory_changed(any_placement, size, consumers):
    agent, driver, log = settled(any_placement, size, consumers)
    changed = NODE if size == 1 else f"{NODE}_leaf1"
    driver.inventories[changed] = {"VCPU": {"total": 200}} if size == 1 else {"VGPU": {"total": 2}}
    assert agent.period(1.0).ok
    assert kinds(log.take()) == ["PUT"]


@each_case
def test_disabling_a_known_root(any_placement, size, consumers):
    agent, _, log = settled(any_placement, size, consumers)
    assert agent.period(1.0, disabled=True).ok
    (request,) = log.take()
    assert (request.method, request.path) == ("PUT", f"/resource_providers/{ROOT}/traits")


@each_size
def test_a_strangers_trait_on_the_root(any_placement, size):
    agent, _, log = settled(any_placement, size)
    any_placement.stranger.add_trait(ROOT, "HW_CPU_X86_AVX")
    log.take()
    assert agent.period(1.0).calls == 0
    assert agent.period(2 * VERIFY).ok
    assert kinds(log.take()) == ["GET"] * 4
    assert "HW_CPU_X86_AVX" in agent.tracker.view.snapshot.providers[ROOT].traits


@each_tree
def test_a_conflict_on_one_leaf(any_placement, size, consumers):
    agent, driver, log = settled(any_placement, size, consumers)
    any_placement.stranger.add_trait(leaf_uuid(1), "HW_CPU_X86_AVX")
    log.take()
    driver.inventories[f"{NODE}_leaf1"] = {"VGPU": {"total": 2}}
    assert agent.period(1.0).ok
    requests = log.take()
    assert kinds(requests) == ["PUT", "GET", "GET", "GET", "GET", "PUT"]
    if isinstance(any_placement, RealPlacement):
        assert [r.status for r in requests] == [409, 200, 200, 200, 200, 200]


@each_case
def test_reshape_at_start_from_the_root_to_eight_children(any_placement, tmp_path, size, consumers):
    """VGPU was on the root; now each of eight new children has some."""
    agent, driver, log = settled(any_placement, size, consumers, state=tmp_path)
    names = [f"{NODE}_gpu{number}" for number in range(8)]

    def split_gpus(tree, allocations):
        new = not tree.exists(names[0])
        if new and allocations is None:
            raise ReshapeNeeded
        for name in names if new else ():
            tree.new_child(name, NODE)
            tree.update_inventory(name, {"VCPU": {"total": 10}})
        tree.update_inventory(NODE, {"MEMORY_MB": {"total": 1024}})
        for number, held in enumerate((allocations or {}).values()):
            parts = held["allocations"]
            child = tree.data(names[number % 8]).uuid
            parts[child] = {"resources": parts.pop(ROOT)["resources"]}

    driver.edit = split_gpus
    again = Agent(any_placement, driver, tmp_path)
    report = again.period()
    assert report.ok, report.texts()
    requests = log.take()
    assert sum(request.path == "/reshaper" for request in requests) == 1
    assert len(requests) <= size + consumers + 12
    assert again.period(2 * VERIFY).ok
    after = log.take()
    assert kinds(after) == ["GET"], "the generations after a reshape are known"
