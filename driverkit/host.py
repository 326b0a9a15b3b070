"""A host for ``DriverContract``: one driver, reported to a Placement as the agent does it."""

import contextlib
import inspect
import time
import uuid as uuidlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from oslo_config import cfg

from agent.ownership.answers import owner_of
from agent.ownership.ledger import DRIVER, Ledger
from agent.period.rules import Rules
from agent.period.tracker import Tracker
from agent.reporting.condition import Severity
from agent.reporting.reports import Report
from drivers.abilities import Configurable, Lifecycle
from drivers.api import Allocations, ComputeDriver, DriverContext, DriverNotReady, ProviderTree
from drivers.deadline import Calls, DriverHangs
from drivers.loaded import LoadedDriver
from drivers.loader import call_timeout
from drivers.opts import register
from reportclient.client import Client
from reportclient.http import API
from reportclient.model import SHARES_VIA_AGGREGATE, parse_uuid
from reportclient.provider_tree import Claims, own_uuid
from reportclient.root import Root
from reportclient.snapshot import Snapshot

NAMESPACE = uuidlib.UUID("5b1e6f0c-6d0e-4f0a-9b1f-7d3c1a2e4f60")
"""Namespace for the UUID of a root whose driver gives none; it is derived from the name."""
RULES = Rules(owner_traits=("CUSTOM_OWNER_COMPUTE_AGENT",))
STATUS = "COMPUTE_STATUS_DISABLED"
FOREIGN = "CUSTOM_OF_ANOTHER_SERVICE"
"""A trait and a resource class of another service."""
AGGREGATE = "7d0f5f52-3f0e-4d5b-8a38-1f6d4c1e9a01"

WELL_WITHIN = 60.0
"""Seconds in which a driver has to notice that its backend works, as at the start."""

T = TypeVar("T")
MakeDriver = Callable[[], ComputeDriver]
Options = Sequence[tuple[str, Sequence[Any]]]
Edit = Callable[[ProviderTree, str], object]
"""Edits a tree; the second argument is the UUID of its root."""


@dataclass(slots=True)
class Host:
    """A driver, and what the agent remembers of its nodes; a restarted agent remembers it too."""

    driver: LoadedDriver
    placement: API
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    """What has been reported of each node."""
    roots: dict[str, str] = field(default_factory=dict)
    """UUIDs of root providers by node, of those whose UUID is not derived."""
    well_within: float = WELL_WITHIN
    late: set[type] = field(default_factory=set)
    """Classes of drivers that were not ready in this time; no other rule waits for them."""
    ready: bool = False
    """Whether the driver has edited a tree."""

    def nodes(self) -> list[str]:
        """Return the names of the driver's nodes, and note the UUIDs that it gives them."""
        nodes, uuids = self._when_ready(lambda: (self.driver.nodes(), self.driver.node_uuids()))
        assert nodes, "get_available_nodes() returned no node; the tests need a backend with one"
        others = sorted(uuids.keys() - set(nodes))
        assert not others, f"get_nodenames_by_uuid() names {others}, get_available_nodes() does not"
        self.roots.update(uuids)
        return nodes

    def root(self, node: str) -> str:
        """Return the UUID of a node's root provider."""
        derived = str(uuidlib.uuid5(NAMESPACE, node))
        return self.roots.get(node) or parse_uuid(node) or derived

    def period(self, *, backwards: bool = False) -> list[Report]:
        """Run the agent's period of each node.

        :raises drivers.errors.DriverError: the driver failed.
        :raises AssertionError: Placement or the agent refused a part of the report.
        """
        nodes = sorted(self.nodes(), reverse=backwards)
        return [self._when_ready(partial(self._period, node)) for node in nodes]

    def _when_ready(self, call: Callable[[], T]) -> T:
        """Return the result of ``call``; try again as the agent does, until the driver is ready."""
        kind, end = type(self.driver.driver), time.monotonic() + self.well_within
        while not (self.ready or kind in self.late):
            try:
                return call()
            except DriverHangs:
                raise
            except DriverNotReady:
                if time.monotonic() > end:
                    self.late.add(kind)
            time.sleep(0.1)
        return call()

    def _period(self, node: str) -> Report:
        root, ledger = Root(self.root(node), self.placement, RULES), self.ledgers.get(node)
        tracker = Tracker(root, node, [self.driver], RULES, ledger=ledger or Ledger())
        report = tracker.period(0.0)
        self.ledgers[node] = tracker.ledger
        for err in report.driver_errors.values():
            raise err
        self.ready = True
        assert report.ok, f"node {node}: " + "\n".join(report.texts(Severity.ERROR))
        return report

    def tree(self, node: str, base: Snapshot | None = None) -> ProviderTree:
        """Return a node's whole tree as Placement has it, or ``base`` as such a tree."""
        ledger, root = self.ledgers.get(node, Ledger()), self.root(node)
        base = base or Client(self.placement).tree(root, name=node).freeze()

        driver = DRIVER + self.driver.name

        def last_claims(source: str) -> Mapping[str, Claims]:
            return ledger.claims_by(owner_of(driver, source))

        return ProviderTree(base, last_claims=last_claims, root=root)

    def edited(
        self, node: str, tree: ProviderTree | None = None, allocations: Allocations | None = None
    ) -> Snapshot:
        """Let the driver edit ``tree``, or Placement's; return the result.

        :raises drivers.errors.DriverError: the driver failed.
        """
        if tree is None:
            return self._when_ready(lambda: self.edited(node, self.tree(node), allocations))
        self.driver.update_provider_tree(tree, node, allocations)
        self.ready = True
        return tree.freeze()

    def observed(self) -> Snapshot:
        """Return what Placement has of all nodes."""
        trees = (self.tree(node).freeze() for node in self.nodes())
        return Snapshot.build({it.uuid: it for tree in trees for it in tree.walk()}.values())

    def edit_as_another(self, edit: Edit) -> None:
        """Apply ``edit`` to Placement's tree of each node, as another service does."""
        for node in self.nodes():
            client = Client(self.placement, strict=True)
            tree = client.tree(self.root(node), name=node)
            edit(tree, self.root(node))
            client.update(tree)


Start = Callable[..., Host]
"""Starts a driver: ``start(earlier=None, make=None, placement=None)``.

``earlier`` is the host before a restart, whose ledgers the new one has; ``make`` creates another
driver than that of the fixture, and ``placement`` is another one.
"""


@contextlib.contextmanager
def starting(
    make: MakeDriver,
    context: DriverContext,
    placement: API,
    well_within: float = WELL_WITHIN,
    late: set[type] | None = None,
) -> Iterator[Start]:
    """Yield a callable that starts drivers; all are closed at the end."""
    started: list[LoadedDriver] = []
    late = set() if late is None else late
    within, default = call_timeout(context.conf), make

    def start(
        earlier: Host | None = None, make: MakeDriver = default, placement: API = placement
    ) -> Host:
        driver = Calls(within)("make_driver", make)
        new = all(driver is not it.driver for it in started)
        assert new, "make_driver returned the same driver twice: it has to be a new one each time"
        loaded = LoadedDriver.from_driver(type(driver).__name__, driver, within)
        started.append(loaded)
        loaded.call(Lifecycle.init_host, context.host)
        host = Host(loaded, placement, well_within=well_within, late=late)
        if earlier is not None:
            host.ledgers, host.roots = dict(earlier.ledgers), dict(earlier.roots)
        return host

    try:
        yield start
    finally:
        for loaded in started:
            with contextlib.suppress(Exception):  # a test of its own calls cleanup_host
                loaded.call(Lifecycle.cleanup_host, context.host)


# -- what other services do to a tree; both arguments are those of an Edit


def add_children(tree: ProviderTree, root: str) -> None:
    """Add two children to the root, and to each provider below it; one is without inventory."""
    for uuid in tree.get_provider_uuids(root):
        name = tree.data(uuid).name[:170]
        child = tree.new_child(f"{name}_of_another_service", uuid)
        tree.update_inventory(child, {FOREIGN: {"total": 2}})
        tree.new_child(f"{name}_empty_of_another_service", uuid)


def add_foreign(tree: ProviderTree, root: str) -> None:
    """Add traits and an aggregate to all providers, children below them, and a sharing provider."""
    for uuid in tree.get_provider_uuids(root):
        tree.add_traits(uuid, FOREIGN, STATUS)
        tree.add_aggregates(uuid, AGGREGATE)
    add_children(tree, root)
    name = f"{tree.data(root).name}_share_of_another_service"
    shared = tree.new_root(name, own_uuid(AGGREGATE, name))
    tree.update_inventory(shared, {FOREIGN: {"total": 100}})
    tree.update_traits(shared, [SHARES_VIA_AGGREGATE])
    tree.update_aggregates(shared, [AGGREGATE])


def damage(tree: ProviderTree, root: str) -> None:
    """Remove all inventories and traits, delete the last child, and rename the first one."""
    below = tree.get_provider_uuids(root)[1:]
    for uuid in (root, *below):
        tree.update_inventory(uuid, {})
        tree.update_traits(uuid, [])
    for uuid in below[1:][-1:]:
        tree.remove(uuid)
    for uuid in below[:1]:
        tree.rename(uuid, f"{tree.data(uuid).name[:190]}_renamed")


# -- the driver's context


def context(directory: Path, options: Options = (), config: str = "") -> DriverContext:
    """Return a driver's context: the host ``host1``, a state path in ``directory``, and ``conf``.

    :raises oslo_config.cfg.Error: ``config`` is invalid; DriverError: ``options`` are.
    """
    state_path, file = directory / "state", directory / "agent.conf"
    state_path.mkdir(parents=True, exist_ok=True)
    file.write_text(config, encoding="utf-8")
    conf = configuration([str(file)])
    register(conf, options)
    return DriverContext("host1", state_path, conf)


def configuration(files: Iterable[str], directories: Iterable[str] = ()) -> Any:
    """Return the configuration of these files only; no default files are read."""
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[*files], default_config_dirs=[*directories])
    return conf


def options_of(namespace: Iterable[Any]) -> Options:
    """Return the options of all driver classes among the values of a module's namespace."""
    classes = dict.fromkeys(value for value in namespace if inspect.isclass(value))
    drivers = (it for it in classes if issubclass(it, ComputeDriver))
    return [each for it in drivers if issubclass(it, Configurable) for each in it.list_opts()]
