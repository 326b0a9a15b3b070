"""A driver at work: a Placement, and its roots in it, period by period as the agent has them.

A period is the agent's own (:class:`agent.period.tracker.Tracker`).  What the driver does
wrong on the way is a :class:`DriverRaised`; which rule that breaks is for the judges to say.
"""

import contextlib
import uuid as uuidlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from agent.ownership.ledger import Ledger
from agent.period.decide import Decision
from agent.period.rules import Rules
from agent.period.tracker import Tracker
from agent.reporting.reports import Report
from driverkit.broken import BadFixture, DriverRaised, Hung, NotJudged
from drivers.api import Allocations, ComputeDriver, DriverContext, ProviderTree
from drivers.deadline import WITHIN, Calls, DriverHangs
from drivers.loaded import LoadedDriver
from reportclient.client import Client
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.reader import refresh
from reportclient.root import Root as ReportedRoot
from reportclient.snapshot import Snapshot
from reportclient.view import View

NAMESPACE = uuidlib.UUID("5b1e6f0c-6d0e-4f0a-9b1f-7d3c1a2e4f60")
"""From it and a node's name comes the UUID of a root whose driver tells none."""
RULES = Rules(
    owner_traits=("CUSTOM_OWNER_COMPUTE_AGENT",),
    verify_every=1.0,
    audit_every=1.0,
    reshape_when_running=True,
)
"""The agent's defaults, but that each period reads all that Placement has."""
PERIOD = 60.0

MakeDriver = Callable[[], ComputeDriver]
T = TypeVar("T")


@dataclass(slots=True)
class Stage:
    """``make`` gives a fresh driver of the same backend at each call."""

    api: API
    context: DriverContext
    make: MakeDriver
    within: float = WITHIN
    """Seconds for each call of the driver, as in the agent."""
    opened: list[LoadedDriver] = field(default_factory=list)
    back_within: float = 60.0
    """Seconds in which a driver has to notice that its backend is back."""

    def open(self, make: MakeDriver | None = None) -> LoadedDriver:
        """A fresh driver after its ``init_host``.  :raises DriverRaised: it failed at that."""
        loaded = self.made(make)
        said("init_host", lambda: loaded.init_host(self.context.host))
        return loaded

    def made(self, make: MakeDriver | None = None) -> LoadedDriver:
        """A fresh driver that was not opened.  :raises DriverRaised: it can't be made."""
        making = Calls(self.within)
        driver = said("make_driver", lambda: making("make_driver", make or self.make))
        if driver is None:
            raise BadFixture("make_driver returned None: a driver is needed")
        if any(driver is earlier.driver for earlier in self.opened):
            raise BadFixture("make_driver gave the same driver twice: a fresh one is needed")
        self.opened.append(LoadedDriver.from_driver(type(driver).__name__, driver, self.within))
        return self.opened[-1]

    def nodes(self, loaded: LoadedDriver) -> list[str]:
        """The names of its nodes.  :raises DriverRaised: it can't say, or not properly."""
        return said("get_available_nodes", loaded.nodes)

    def roots(self, loaded: LoadedDriver) -> "list[Root]":
        """A root for each of its nodes; Placement knows none of them before it is reported."""
        nodes = self.nodes(loaded)
        told = said("get_nodenames_by_uuid", loaded.node_uuids)
        return [self.root(node, told.get(node)) for node in nodes]

    def root(self, node: str, uuid: str | None = None) -> "Root":
        """The root of this name, read from Placement."""
        return Root(self, node, ReportedRoot(uuid or _uuid_of(node), self.api, RULES)).read()

    def clean_up(self, loaded: LoadedDriver) -> None:
        """Its ``cleanup_host``, if it has one.  :raises DriverRaised: it failed at that."""
        said("cleanup_host", lambda: loaded.cleanup_host(self.context.host))

    def close(self) -> None:
        """Close all drivers that were opened, as far as they let themselves be closed."""
        for loaded in self.opened:
            with contextlib.suppress(DriverRaised, Hung):  # the rule closes is about that
                self.clean_up(loaded)
        self.opened.clear()


def said(method: str, question: Callable[[], T]) -> T:
    """The driver's answer.

    :raises Hung: it has none in time.
    :raises DriverRaised: whatever it raised.
    """
    try:
        return question()
    except DriverHangs as err:
        raise Hung(str(err)) from None
    except (Exception, SystemExit) as err:
        raise DriverRaised(method, err) from err


def _uuid_of(node: str) -> str:
    try:
        return str(uuidlib.UUID(node))
    except ValueError:
        return str(uuidlib.uuid5(NAMESPACE, node))


@dataclass(slots=True)
class Root:
    """A node's tree in Placement, and a driver's changes to it."""

    stage: Stage
    node: str
    reported: ReportedRoot
    ledger: Ledger = field(default_factory=Ledger)
    now: float = 0.0

    @property
    def uuid(self) -> str:
        """The root provider's."""
        return self.reported.uuid

    @property
    def view(self) -> View:
        """The acknowledged view."""
        return self.reported.view

    def read(self) -> "Root":
        """Everything anew, as Placement has it; which names it lacks is not asked again."""
        absent = self.view.names.absent
        ours = self.ledger.holders.keys()
        view = refresh(self.view, self.uuid, self.stage.api, everything=True, ours=ours)
        self.reported.view = replace(view, names=replace(view.names, absent=absent))
        return self

    def fresh(self) -> ProviderTree:
        """All that there is, for a driver to edit; the agent hides what others own."""
        tree = self.view.edit()
        if not tree.exists(self.uuid):
            tree.new_root(self.node, self.uuid)
        return tree

    def ask(
        self, loaded: LoadedDriver, tree: ProviderTree, allocations: Allocations | None = None
    ) -> None:
        """Let the driver edit ``tree``.  :raises DriverRaised: whatever it raised."""
        question = lambda: loaded.update_provider_tree(tree, self.node, allocations)  # noqa: E731
        said(f"update_provider_tree for node {self.node}", question)

    def desired(self, loaded: LoadedDriver) -> Snapshot:
        """The driver's answer to what Placement has.  :raises NotJudged: it is of no use."""
        tree = self.fresh()
        self.ask(loaded, tree)
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
        """A whole period of the agent's.  :raises DriverRaised: the driver raised something."""
        self.now += PERIOD
        tracker = self._tracker(loaded)
        report = tracker.period(self.now)
        self.ledger = tracker.ledger
        self._raise_any(report.driver_errors.values())
        return report

    def edited_by_another(self, edit: Callable[[ProviderTree], object]) -> None:
        """Somebody else changes the tree in Placement; the view is read anew."""
        client = Client(self.stage.api, strict=True)
        tree = client.tree(self.uuid)
        edit(tree)
        try:
            client.update(tree)
        except (PlacementError, ValueError) as err:
            raise NotJudged(f"node {self.node}: Placement refuses another's edit: {err}") from None
        self.read()

    def _tracker(self, loaded: LoadedDriver) -> Tracker:
        return Tracker(self.reported, self.node, [loaded], RULES, ledger=self.ledger, started=True)

    def _raise_any(self, errors: Iterable[BaseException]) -> None:
        for err in errors:
            if isinstance(err, DriverHangs):
                raise Hung(str(err)) from None
            raise DriverRaised(f"update_provider_tree for node {self.node}", err) from err
