"""Runs a driver under test: period by period, against a Placement, as the agent does.

The periods are the agent's own (:class:`agent.period.tracker.Tracker`).  An exception of the
driver becomes a :class:`DriverRaised`; the judges decide which rule it breaks.
"""

import contextlib
import uuid as uuidlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from agent.ownership.ledger import DRIVER, Ledger
from agent.ownership.statement import Statement
from agent.period.rules import Rules
from agent.period.tracker import Decision, Tracker
from agent.reporting.reports import Report
from driverkit.broken import DriverRaised, Hung, NotJudged
from drivers.abilities import Lifecycle
from drivers.api import Allocations, ComputeDriver, DriverContext, ProviderTree
from drivers.deadline import WITHIN, Calls, DriverHangs
from drivers.loaded import LoadedDriver
from reportclient.client import Client
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.model import parse_uuid
from reportclient.reader import refresh
from reportclient.root import Root as ReportedRoot
from reportclient.snapshot import Snapshot
from reportclient.view import View

NAMESPACE = uuidlib.UUID("5b1e6f0c-6d0e-4f0a-9b1f-7d3c1a2e4f60")
"""Namespace for the UUID of a root whose driver gives none; it is derived from the name."""
RULES = Rules(
    owner_traits=("CUSTOM_OWNER_COMPUTE_AGENT",),
    verify_every=1.0,
    audit_every=1.0,
    reshape_when_running=True,
)
"""The agent's defaults, except that each period reads everything from Placement."""
PERIOD = 60.0

MakeDriver = Callable[[], ComputeDriver]
T = TypeVar("T")


@dataclass(slots=True)
class Stage:
    """A Placement and a driver under test; ``make`` returns a new driver at each call."""

    api: API
    context: DriverContext
    make: MakeDriver
    within: float = WITHIN
    """Deadline of each call of the driver, in seconds, as in the agent."""
    opened: list[LoadedDriver] = field(default_factory=list)
    back_within: float = 60.0
    """Seconds in which a driver has to notice that its backend works again."""

    def open(self, make: MakeDriver | None = None) -> LoadedDriver:
        """Create a driver and call ``init_host``.  :raises DriverRaised: either failed."""
        loaded = self.create(make)
        checked_call("init_host", lambda: loaded.call(Lifecycle.init_host, self.context.host))
        return loaded

    def create(self, make: MakeDriver | None = None) -> LoadedDriver:
        """Create a driver.  :raises DriverRaised: ``make`` failed."""
        calls = Calls(self.within)
        driver = checked_call("make_driver", lambda: calls("make_driver", make or self.make))
        if driver is None:
            raise NotJudged("make_driver returned None: a driver is needed")
        if any(driver is earlier.driver for earlier in self.opened):
            raise NotJudged("make_driver returned the same driver twice: a fresh one is needed")
        self.opened.append(LoadedDriver.from_driver(type(driver).__name__, driver, self.within))
        return self.opened[-1]

    def nodes(self, loaded: LoadedDriver) -> list[str]:
        """Return the driver's nodes.  :raises DriverRaised: it failed, or its result is wrong."""
        return checked_call("get_available_nodes", loaded.nodes)

    def roots(self, loaded: LoadedDriver) -> "list[Root]":
        """Return a root for each node of the driver, reported or not."""
        nodes = self.nodes(loaded)
        uuids = checked_call("get_nodenames_by_uuid", loaded.node_uuids)
        return [self.root(node, uuids.get(node)) for node in nodes]

    def reported(self) -> "tuple[LoadedDriver, list[Root]]":
        """Create a driver and run a period of each node; return it and the roots, read again."""
        loaded = self.open()
        roots = self.roots(loaded)
        for root in roots:
            root.report(loaded)
            root.read()
        return loaded, roots

    def root(self, node: str, uuid: str | None = None) -> "Root":
        """Return the root of this node, as Placement has it."""
        uuid = uuid or parse_uuid(node) or str(uuidlib.uuid5(NAMESPACE, node))
        return Root(self, node, ReportedRoot(uuid, self.api, RULES)).read()

    def clean_up(self, loaded: LoadedDriver) -> None:
        """Call ``cleanup_host`` if the driver has it.  :raises DriverRaised: it failed."""
        checked_call("cleanup_host", lambda: loaded.call(Lifecycle.cleanup_host, self.context.host))

    def close(self) -> None:
        """Call ``cleanup_host`` of all drivers; ignore their errors."""
        for loaded in self.opened:
            with contextlib.suppress(DriverRaised, Hung):  # judged by the rule closes
                self.clean_up(loaded)
        self.opened.clear()


def checked_call(method: str, function: Callable[[], T]) -> T:
    """Return the result of ``function``, a call of the driver's ``method``.

    :raises Hung: the call did not return in time.
    :raises DriverRaised: the driver raised an exception.
    """
    try:
        return function()
    except DriverHangs as err:
        raise Hung(str(err)) from None
    except (Exception, SystemExit) as err:
        raise DriverRaised(method, err) from err


@dataclass(slots=True)
class Root:
    """A node's tree in Placement, and periods in which a driver edits it."""

    stage: Stage
    node: str
    reported: ReportedRoot
    ledger: Ledger = field(default_factory=Ledger)
    statements: Sequence[Statement] = ()
    """What the driver has said in the last period, one for each of its sources."""
    now: float = 0.0

    @property
    def uuid(self) -> str:
        """The UUID of the root provider."""
        return self.reported.uuid

    @property
    def view(self) -> View:
        """The acknowledged view."""
        return self.reported.view

    def read(self) -> "Root":
        """Read everything from Placement again, except which names it does not know."""
        before = self.view.names
        ours = self.ledger.holders.keys()
        view = refresh(self.view, self.uuid, self.stage.api, everything=True, ours=ours)
        names = replace(
            view.names, absent_traits=before.absent_traits, absent_classes=before.absent_classes
        )
        self.reported.view = replace(view, names=names)
        return self

    def fresh(self) -> ProviderTree:
        """Return the whole tree for a driver to edit; nothing of other managers is hidden."""

        def reported_by(source: str) -> frozenset[str]:
            managers = (it for it in self.ledger.managers() if it.startswith(DRIVER))
            of_source = (it for it in managers if it.partition("/")[2] == source)
            reported = (self.ledger.reported_by(it, self.uuid) for it in of_source)
            return frozenset().union(*reported)

        view = self.view
        tree = ProviderTree(view.snapshot, view.generations, reported_by=reported_by)
        if not tree.exists(self.uuid):
            tree.new_root(self.node, self.uuid)
        return tree

    def update_provider_tree(
        self, loaded: LoadedDriver, tree: ProviderTree, allocations: Allocations | None = None
    ) -> None:
        """Let the driver edit ``tree``.  :raises DriverRaised: the driver raised an exception."""
        function = lambda: loaded.update_provider_tree(tree, self.node, allocations)  # noqa: E731
        checked_call(f"update_provider_tree for node {self.node}", function)

    def desired(self, loaded: LoadedDriver) -> Snapshot:
        """Return the tree as the driver edits it.  :raises NotJudged: its root is gone."""
        tree = self.fresh()
        self.update_provider_tree(loaded, tree)
        if not tree.exists(self.node) or tree.data(self.node).uuid != self.uuid:
            raise NotJudged(f"the root provider {self.node} is gone or renamed: see root-stays")
        return tree.freeze()

    def decided(self, loaded: LoadedDriver) -> Decision:
        """Return the decision of a period.  :raises DriverRaised: the driver raised an error."""
        self.now += PERIOD
        decision = self._tracker(loaded).forecast(self.now)
        self._raise_any(decision.answer.errors.values())
        return decision

    def report(self, loaded: LoadedDriver) -> Report:
        """Run a period of the agent.  :raises DriverRaised: the driver raised an exception."""
        report = self.period(loaded)
        self._raise_any(report.driver_errors.values())
        return report

    def period(self, loaded: LoadedDriver) -> Report:
        """Run a period of the agent; the report has the driver's exception."""
        self.now += PERIOD
        tracker = self._tracker(loaded)
        report = tracker.period(self.now)
        self.ledger = tracker.ledger
        answer = tracker.last.statements.get(DRIVER + loaded.name)
        self.statements = () if answer is None else answer.statements
        return report

    def edited_by_another(
        self, edit: Callable[[ProviderTree], object], what: str = "an edit of another service"
    ) -> None:
        """Apply ``edit`` in Placement as another service; read the view again."""
        client = Client(self.stage.api, strict=True)
        tree = client.tree(self.uuid, name=self.node)
        edit(tree)
        try:
            client.update(tree)
        except (PlacementError, ValueError) as err:
            raise NotJudged(f"node {self.node}: Placement refuses {what}: {err}") from None
        self.read()

    def _tracker(self, loaded: LoadedDriver) -> Tracker:
        started = frozenset({loaded.name})
        return Tracker(
            self.reported, self.node, [loaded], RULES, ledger=self.ledger, started=started
        )

    def _raise_any(self, errors: Iterable[BaseException]) -> None:
        for err in errors:
            if isinstance(err, DriverHangs):
                raise Hung(str(err)) from None
            raise DriverRaised(f"update_provider_tree for node {self.node}", err) from err
