"""The rules for drivers as one pytest class; docs/driver-kit.rst.

::

    from driverkit.contract import DriverContract

    class TestMyDriver(DriverContract):
        @pytest.fixture
        def make_driver(self, driver_context):
            return lambda: MyDriver(driver_context)

The docstring of each test is a rule: what a driver has to do, why, and how to mend one that does
not.  pytest shows it above the failure.
"""

import contextlib
import copy
import gc
import tracemalloc
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest

from driverkit.evidence import (
    assert_quiet,
    assert_same,
    changed,
    differences,
    facts,
    is_constant,
    is_unique,
    quiet_seconds,
    traced,
    without_handlers,
)
from driverkit.host import (
    STATUS,
    WELL_WITHIN,
    Host,
    MakeDriver,
    Options,
    Start,
    add_children,
    add_foreign,
    context,
    damage,
    options_of,
    starting,
)
from drivers.abilities import Lifecycle, Timed, Watched
from drivers.api import (
    ComputeDriver,
    DriverContext,
    DriverNotReady,
    ProviderTree,
    ReshapeFailed,
    ReshapeNeeded,
)
from drivers.deadline import DriverHangs
from drivers.loaded import LoadedDriver
from drivers.loader import call_timeout
from reportclient.http import API
from reportclient.reshape import Affected, moved_allocations
from reportclient.snapshot import Snapshot
from reportclient.testing.fake_placement import FakePlacement

LATE = pytest.StashKey[set[type]]()
"""The classes of drivers for which the rules wait no more, in this test run."""
NOWHERE = "a-node-that-does-not-exist"
DEVICES, FEWER = 1000, 100
PROCESSOR_SECONDS = 10.0
"""For a period of 1,000 devices: a sixth of the agent's period."""
GROWTH = 40.0
"""The most by which the time may grow from 100 to 1,000 devices: 10 is linear, 100 quadratic."""
BYTES_PER_DEVICE = 64 * 1024
QUIET_PERIODS = 12
BYTES_THAT_STAY = 12 * 1024
"""The most that these periods may leave; a copy of a small tree in each is more."""

LoseBackend = Callable[[], Callable[[], Any] | None]
MakeBigDriver = Callable[[int], ComputeDriver]
ReshapeCase = tuple[ProviderTree, Mapping[str, Any]]


class _Allocations(dict[str, dict[str, Any]]):
    """A dict that can be referred to by a weakref."""


class DriverContract:
    """Base of an author's test class ``Test…``, which has to define the fixture ``make_driver``."""

    well_within: ClassVar[float] = WELL_WITHIN
    """Seconds in which the driver has to notice that its backend works, as at the start."""

    @pytest.fixture
    def make_driver(self) -> MakeDriver:
        """Return a callable that creates a new driver of the same backend at each call."""
        pytest.fail(
            f"{type(self).__name__} needs a fixture make_driver that returns a callable: "
            "`def make_driver(self, driver_context): return lambda: MyDriver(driver_context)`",
            pytrace=False,
        )

    # A test is skipped without the fixture that it needs.

    @pytest.fixture
    def lose_backend(self) -> LoseBackend:
        """Return a callable that breaks the backend; it may return a callable that repairs it."""
        pytest.skip("add the fixture lose_backend: a callable that breaks the backend")

    @pytest.fixture
    def lose_device(self) -> Callable[[], Any]:
        """Return a callable that removes a device from the backend."""
        pytest.skip("add the fixture lose_device: a callable that makes a device vanish")

    @pytest.fixture
    def make_big_driver(self) -> MakeBigDriver:
        """Return a callable that creates a driver with the given number of devices."""
        pytest.skip("add the fixture make_big_driver: it creates a driver of as many devices")

    @pytest.fixture
    def reshape_case(self) -> ReshapeCase:
        """Return a tree in a shape that the driver once reported, and allocations on it.

        Allocations are ``{consumer: {"allocations": {provider: {"resources": {class: amount}}}}}``,
        a provider by its UUID or its name.
        """
        pytest.skip("add the fixture reshape_case: a tree as an earlier release reported it")

    @pytest.fixture
    def driver_config(self) -> str:
        """Return the text of the configuration file that the driver reads."""
        return ""

    @pytest.fixture
    def driver_options(self, request: pytest.FixtureRequest) -> Options:
        """Return ``[(group, [options])]`` to register: of all drivers in the test's module."""
        return options_of(vars(request.module).values())

    @pytest.fixture
    def driver_context(
        self, tmp_path: Path, driver_options: Options, driver_config: str
    ) -> DriverContext:
        """Return a context for the driver: the host ``host1``, a state path, and ``conf``."""
        return context(tmp_path, driver_options, driver_config)

    @pytest.fixture
    def driver_placement(self) -> API:
        """Return an empty Placement; this one is in memory, and answers like the real one."""
        return FakePlacement()

    @pytest.fixture
    def start(
        self,
        make_driver: MakeDriver,
        driver_context: DriverContext,
        driver_placement: API,
        pytestconfig: pytest.Config,
    ) -> Iterator[Start]:
        """Yield a callable that starts a new driver; all are closed at the end."""
        about = make_driver, driver_context, driver_placement
        late = pytestconfig.stash.setdefault(LATE, set())
        with starting(*about, self.well_within, late) as start:
            yield start

    # The rules.

    def test_nodes_have_resources_that_placement_takes(self, start: Start) -> None:
        """A driver names its nodes, and Placement takes what it reports of each.

        Why: what Placement refuses is left out, and nothing is scheduled to a host without
        resources.

        Mend: names of providers have at most 200 characters.  Traits and resource classes come from
        os-traits and os-resource-classes, or begin with ``CUSTOM_`` and have A-Z, 0-9 and ``_``.
        ``total`` is at least 1 (leave out what the host has not), ``reserved`` at most ``total``.
        """
        host = start()
        reported = [provider for node in host.nodes() for provider in host.edited(node).walk()]
        assert any(it.inventory or it.traits for it in reported), "nothing was reported"
        host.period()

    def test_nodes_keep_their_names_and_uuids(self, start: Start) -> None:
        """Nodes have the same names and UUIDs at each call, also after a restart.

        Why: a name is a root provider.  With another name it would be another host, and the guests'
        allocations would stay on the old one.

        Mend: make the name from what identifies the node (host name, UUID), not from an order or a
        counter.
        """
        host = start()
        first = sorted(host.nodes()), dict(host.roots)
        for started in (host, start()):
            second = sorted(started.nodes()), started.roots
            assert second == first, f"names and UUIDs were {first}, then {second}"

    def test_the_root_is_left_to_the_agent(self, start: Start) -> None:
        """The root keeps its name, UUID and place, and COMPUTE_STATUS_DISABLED is not set.

        Why: the agent creates the root and disables the host; the driver is asked what is on it.

        Mend: use the root in the tree, which is named ``nodename``.  New devices are children:
        ``provider_tree.new_child(name, nodename)``; a second root has to share
        (MISC_SHARES_VIA_AGGREGATE).  Reserve inventory that can't be used for a while.
        """
        host = start()
        for node in host.nodes():
            tree = host.edited(node)
            root = tree.get(host.root(node))
            assert root is not None, f"the root provider {node} was removed"
            text = f"the root provider {node} was renamed to {root.name}, or put below another"
            assert (root.name, root.parent_uuid) == (node, None), text
            beside = [it for it in tree.walk() if it.parent_uuid is None and not it.shares]
            others = [it.name for it in beside if it is not root]
            assert not others, f"{others} are roots beside {node}, and share nothing"
            assert not any(STATUS in it.traits for it in tree.walk()), f"{STATUS} was set"

    def test_names_of_children_are_unique_in_the_cloud(
        self, start: Start, driver_context: DriverContext
    ) -> None:
        """No other node, and no other host, reports a provider of the same name or UUID.

        Why: names and UUIDs are unique in all of Placement: if two hosts have a gpu0, the second
        host's is refused.

        Mend: begin the name with the node's, as in ``f"{nodename}_{address}"``, or use a serial
        number or a UUID.  Leave the UUID to the tree, or take the hardware's.
        """
        host, taken = start(), dict[str, str]()
        for node in host.nodes():
            owners = (node, host.root(node), driver_context.host)
            for it in host.edited(node).walk():
                unique = it.parent_uuid is None or is_unique(it.name, owners)
                assert unique, f"provider {it.name}: another host may have such a device, too"
                other = taken.setdefault(it.name, it.uuid)
                assert other == it.uuid, f"provider {it.name}: another node has one, too"
                if it.parent_uuid is not None:
                    same = taken.setdefault(it.uuid, it.name)
                    assert same == it.name, f"provider {it.name}: {same} has its UUID {it.uuid}"
                    text = f"provider {it.name} has the UUID {it.uuid} on each host"
                    assert not is_constant(it.uuid, it.name, node, type(host.driver.driver)), text

    def test_a_driver_can_be_closed_at_any_time(
        self, make_driver: MakeDriver, driver_context: DriverContext
    ) -> None:
        """``cleanup_host`` never fails, also if ``init_host`` was not called or failed.

        Why: the agent closes every driver at its end, also after an error.

        Mend: set all attributes that ``cleanup_host`` reads in the constructor, and close only what
        was opened.
        """
        for opened in (False, True):
            within = call_timeout(driver_context.conf)
            loaded = LoadedDriver.from_driver("driver", make_driver(), within)
            if opened:
                loaded.call(Lifecycle.init_host, "host1")
            loaded.call(Lifecycle.cleanup_host, "host1")

    def test_nothing_is_written_while_nothing_happens(self, start: Start) -> None:
        """A second period writes nothing, and neither does that of a restarted agent.

        Why: each difference is a write to Placement, on every host, in every period.  A driver that
        reports something else after a restart removes what guests use.

        Mend: report the same for the same hardware: no clock, no counter, no free amounts
        (allocations show what guests use), nothing random (``uuid5``, never ``uuid4``).  Check
        ``provider_tree.exists`` before adding a provider, and keep nothing in memory that can be
        read from the tree or the backend.
        """
        host = start()
        host.period()
        for _ in range(3):
            assert_quiet(host, "nothing has changed since the period before")
        assert_quiet(start(host), "a new driver, as after a restart")
        first, other = (start(placement=FakePlacement()) for _ in range(2))
        nodes, other.roots = first.nodes(), first.roots
        for node in nodes:
            assert_same(
                first.edited(node), other.edited(node), "two drivers, on an empty Placement"
            )

    def test_order_and_thread_make_no_difference(self, start: Start) -> None:
        """Nodes and providers may come in any order, and calls from any thread.

        Why: Placement lists providers in any order, and threads are the agent's.

        Mend: find providers by name or UUID, never by position, and sort what you number.  Keep
        nothing that is bound to a thread: sqlite3 connections, event loops, ``threading.local``.
        """
        host = start()
        host.period()
        assert_quiet(host, "called for the nodes in reverse order", backwards=True)
        for node in host.nodes():
            turned = Snapshot.build(reversed([*host.tree(node).freeze().walk()]))
            after = host.edited(node, host.tree(node, turned))
            assert_same(host.edited(node), after, "then with the providers in another order")
        it = host.driver
        host.driver = LoadedDriver.from_driver(it.name, it.driver, it.calls.within)
        assert_quiet(host, "called in another thread")

    def test_a_thread_safe_driver_reports_nodes_at_once(self, start: Start) -> None:
        """With ``thread_safe = True`` calls for several nodes at once report what single ones do.

        Why: the agent then calls the driver for several nodes at the same time.

        Mend: guard what the nodes share with a lock, or set ``thread_safe = False``.
        """
        host = start()
        nodes = host.nodes()
        if not host.driver.driver.thread_safe or len(nodes) < 2:
            pytest.skip("for drivers with thread_safe = True and two nodes or more")
        alone = [host.edited(node) for node in nodes]
        with ThreadPoolExecutor(8) as pool:
            for _ in range(3):
                for one, together in zip(alone, pool.map(host.edited, nodes), strict=True):
                    assert_same(one, together, "called for one node, then for all at once")

    def test_data_of_other_services_stays(self, start: Start) -> None:
        """Providers, traits and aggregates that others have set stay in the driver's tree.

        Why: they are what other services report, and what host aggregates, tenant isolation and
        shared storage are made of.

        Mend: derive the driver from DeviceDriver, or use ``set_own_children``, ``set_own_traits``
        and ``set_own_aggregates`` of the tree.  ``update_traits`` and ``update_aggregates`` say
        what all are; remove only children that you know to be yours, by their names.
        """
        host = start()
        host.period()
        before = facts(host.observed())
        host.edit_as_another(add_foreign)
        foreign = changed(before, facts(host.observed()))
        for each, who in ((host, "the driver"), (start(host), "a restarted driver")):
            reported = [facts(each.edited(node)) for node in each.nodes()]
            now = {it: text for each in reported for it, text in each.items() if it in foreign}
            lost = differences(foreign, now)
            assert not lost, f"{who} has removed or changed what others have set:\n{lost}"

    def test_lost_data_is_reported_again(self, start: Start) -> None:
        """Data that another service has changed or deleted is restored in the next period.

        Why: Placement can be edited by hand, restored from a backup, or lose a write; only the
        driver knows the host.

        Mend: set everything in every period, on the tree that is passed.  Recognize a renamed child
        as your own by its UUID.
        """
        host = start()
        host.period()
        host.period()
        before = host.observed()
        host.edit_as_another(damage)
        host.period()
        assert_same(before, host.observed(), "a period after another service has damaged the tree")

    def test_tree_and_allocations_are_not_kept(self, start: Start) -> None:
        """The driver keeps neither the tree nor the allocations after it has returned.

        Why: a later edit of the tree raises ValueError; one of the allocations may be sent.

        Mend: keep a copy of what you need: ``provider_tree.data(name)`` returns one.
        """
        host = start()
        node = host.nodes()[0]
        host.edited(node)  # once it is ready: the trees below are edited once
        first, second, allocations = host.tree(node), host.tree(node), _Allocations()
        host.edited(node, first)
        host.edited(node, second, allocations)
        kept = [weakref.ref(each) for each in (first, second, allocations)]
        del first, second, allocations
        gc.collect()
        reachable = [type(ref()).__name__ for ref in kept if ref() is not None]
        assert not reachable, f"the driver keeps {', '.join(reachable)}"

    def test_errors_are_the_documented_ones(self, start: Start) -> None:
        """For a node that vanished between two calls the driver raises DriverNotReady.

        Why: DriverNotReady, ReshapeNeeded and ReshapeFailed are handled; any other exception is
        reported to the operator as a defect.

        Mend: turn errors of the backend into ``DriverNotReady(str(err))``.
        """
        host = start()
        host.edited(host.nodes()[0])  # from here on DriverNotReady is about the node
        with contextlib.suppress(DriverNotReady, ReshapeNeeded, ReshapeFailed):
            host.edited(NOWHERE)

    def test_optional_methods_return_what_is_documented(self, start: Start) -> None:
        """``watch``, ``degraded``, ``guests``, ``took`` and UUIDs of nodes work if there are any.

        Why: the agent does without what one of them fails to return: sick parts are not shown, and
        guests do not get back the allocations that a restored Placement lacks.

        Mend: take the arguments of docs/driver-api.rst, and return ``{part: reason}``, UUIDs as
        texts, ``{source: seconds}`` and ``{uuid: nodename}``.  Raise nothing after a good period.
        """
        host = start()
        driver = host.driver
        driver.call(Watched.watch, _notify)
        host.period()
        for node in host.nodes():
            failure = driver.degraded(node).get(f"driver {driver.name}")
            assert failure is None, failure
            driver.guests(node)
        if driver.can(Timed):
            took: object = driver.call(Timed.took)
            valid = isinstance(took, Mapping) and len(driver.took()) >= len(took)
            assert valid, f"took() returned {took!r}, not {{source: seconds}}"

    def test_nothing_moves_while_nothing_has_to(self, start: Start) -> None:
        """ReshapeNeeded is raised, and allocations are edited, only if inventory has to move.

        Why: a reshape reads all allocations and rewrites them; they are also passed to a driver
        when another one reshapes.

        Mend: look at the tree: there is something to move only if a provider still has the
        inventory in the old place.
        """
        host = start()
        for node in host.nodes():
            host.edited(node)  # Placement has nothing of it
        host.period()
        for node in host.nodes():
            host.edited(node)
            stocked = [it for it in host.tree(node).freeze().walk() if it.inventory]
            allocations = {
                it.uuid: {"allocations": {it.uuid: {"resources": dict.fromkeys(it.inventory, 1)}}}
                for it in stocked  # the consumer of a provider has its UUID
            }
            before = copy.deepcopy(allocations)
            host.edited(node, allocations=allocations)
            assert allocations == before, f"changed {before} to {allocations}: nothing has to move"

    def test_a_reshape_keeps_what_consumers_have(
        self, start: Start, reshape_case: ReshapeCase
    ) -> None:
        """A driver that finds its inventory in an old shape asks first, then moves the allocations.

        Why: a guest that loses an allocation loses its device: another guest gets it.

        Mend: if a class is to move to another provider and ``allocations`` is None, raise
        ReshapeNeeded before any edit.  Else move each consumer's amounts inside
        ``allocations[consumer]["allocations"]``, no more to a provider than fits, and leave the
        other entries alone.
        """
        shape, guests = reshape_case
        old, host = shape.freeze(), start()
        node = next(filter(shape.exists, host.nodes()))
        host.edited(node)
        host.roots[node] = shape.data(node).uuid
        before = {
            consumer: {
                "allocations": {
                    shape.data(it).uuid: {"resources": dict(part["resources"])}
                    for it, part in held["allocations"].items()
                }
            }
            for consumer, held in guests.items()
        }
        before[NOWHERE] = {"allocations": {host.root(NOWHERE): {"resources": {"VGPU": 1}}}}
        with pytest.raises(ReshapeNeeded):
            host.edited(node, host.tree(node, old))
        after = copy.deepcopy(before)
        new = host.edited(node, host.tree(node, old), after)
        moved_allocations(before, after, Affected.between(old, new))
        for it in new.walk():
            for name, record in it.inventory.items():
                parts = [held["allocations"].get(it.uuid, {}) for held in after.values()]
                used = sum(part.get("resources", {}).get(name, 0) for part in parts)
                text = f"{it.name}: {used} of {name} moved to it, its capacity is {record.capacity}"
                assert used <= record.capacity, text
        host.edited(node, host.tree(node, new))  # no reshape is needed again

    def test_a_lost_backend_is_not_ready(self, start: Start, lose_backend: LoseBackend) -> None:
        """With the backend lost the driver soon raises DriverNotReady, and edits nothing.

        Why: a wrong report is worse than none: an empty tree would remove what guests use, and a
        driver that hangs delays the others.

        Mend: read everything first, then edit the tree; give every call of the backend a timeout,
        and turn its errors into DriverNotReady.  A driver that goes on with what it has read before
        names the problem in ``degraded()``.
        """
        host = start()
        host.period()
        with _lost(lose_backend):
            _names_nodes_or_is_not_ready(host)
            for node in host.ledgers:
                tree = host.tree(node)
                before, ready = tree.freeze(), True
                try:
                    host.edited(node, tree)
                except DriverHangs:
                    raise
                except DriverNotReady:
                    ready = False
                assert_same(before, tree.freeze(), "with the backend lost the tree was edited")
                silent = ready and not host.driver.degraded(node)
                assert not silent, "neither DriverNotReady nor an entry in degraded()"

    def test_a_driver_starts_without_its_backend(
        self, start: Start, lose_backend: LoseBackend
    ) -> None:
        """A driver can be created while its backend is down, and works once the backend is up.

        Why: services start in any order; an agent that does not start can't report what is wrong.

        Mend: connect when the backend is first needed, not in the constructor or ``init_host``, and
        try again at each call while there is no connection.
        """
        with _lost(lose_backend) as repair:
            host = start()
            _names_nodes_or_is_not_ready(host)
        if repair is not None:
            host.period()

    def test_a_lost_device_is_gone(self, start: Start, lose_device: Callable[[], Any]) -> None:
        """A removed device is removed from the tree, also if it went while the agent was down.

        Why: guests would be scheduled to a device that does not exist.

        Mend: derive the driver from DeviceDriver, or call ``provider_tree.set_own_children`` with
        all of your children: both remove the others.  Without them compare with the tree, not with
        your memory, and remove children first (``reversed(get_provider_uuids(...))``).
        """
        host, lost = start(), dict[str, str]()
        host.period()
        host.edit_as_another(add_children)
        before = {node: facts(host.edited(node)) for node in host.nodes()}
        lose_device()
        restarted = start(host)
        for node in host.nodes():
            after = host.edited(node)
            assert_same(after, restarted.edited(node), "the running driver, then a restarted one")
            lost |= changed(facts(after), before[node])
        assert lost, "with a device gone the tree has everything that it had before"

    def test_a_thousand_devices_take_bounded_time_and_memory(
        self, start: Start, make_big_driver: MakeBigDriver
    ) -> None:
        """1,000 devices are reported in seconds, in time that grows with their number.

        Why: a period is a minute, other nodes and drivers wait for this one, and the memory is the
        guests'.

        Mend: read all devices at once; don't walk the tree for each: one ``get_provider_uuids`` and
        a dict.  Keep the values that the tree needs, not the documents that they came from.
        """
        few = quiet_seconds(start(make=lambda: make_big_driver(FEWER)))
        host = start(make=lambda: make_big_driver(DEVICES))
        many = quiet_seconds(host)
        limit = min(PROCESSOR_SECONDS, GROWTH * max(few, 0.01))
        text = f"{many:.2f} s of processor time for {DEVICES} devices, {few:.3f} s for {FEWER}"
        assert many < limit, text
        for node in host.nodes():
            tree = host.tree(node)
            with traced():
                host.edited(node, tree)
                peak = tracemalloc.get_traced_memory()[1]
            text = f"{peak / 2**20:.0f} MiB for a period of {DEVICES} devices"
            assert peak < DEVICES * BYTES_PER_DEVICE, text

    def test_quiet_periods_leave_no_memory(self, start: Start) -> None:
        """Periods in which nothing happens do not increase memory use.

        Why: the agent runs for months.

        Mend: don't add to lists or dicts in every period; replace what you keep.
        """
        host, sizes = start(), list[int]()
        host.period()
        node = host.nodes()[0]
        tree = host.tree(node).freeze()
        with without_handlers(), traced():
            for _ in range(3):
                for _ in range(QUIET_PERIODS):
                    host.edited(node, host.tree(node, tree))
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        growth = [after - before for before, after in pairwise(sizes)]
        assert min(growth) < BYTES_THAT_STAY, f"{QUIET_PERIODS} quiet periods left {growth} bytes"


@contextlib.contextmanager
def _lost(lose_backend: LoseBackend) -> Iterator[Callable[[], Any] | None]:
    """Lose the backend for the block; yield what repairs it, if there is such a callable."""
    repair = lose_backend()
    try:
        yield repair
    finally:
        if repair is not None:
            repair()


def _notify(reason: str | None, node: str | None = None, /) -> None:
    """Ignore what a driver reports by ``watch``."""


def _names_nodes_or_is_not_ready(host: Host) -> None:
    with contextlib.suppress(DriverNotReady):
        host.driver.nodes()
