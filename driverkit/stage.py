"""A driver at work: a Placement, and its roots in it, period by period as the agent has them.

What the driver does wrong on the way is a :class:`DriverRaised`; which rule that breaks
is for the judges to say.
"""

from __future__ import annotations

import contextlib
import uuid as uuidlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from driverkit.broken import BadFixture, DriverRaised, NotJudged
from driverkit.caller import Caller
from drivers.api import Allocations, ComputeDriver, DriverContext, ProviderTree
from drivers.loaded import LoadedDriver
from reportclient.apply import Outcome, apply
from reportclient.diff import diff
from reportclient.errors import AlreadyThere
from reportclient.http import API
from reportclient.plan import CreateProvider, Plan
from reportclient.reader import found_with, refresh
from reportclient.snapshot import Snapshot
from reportclient.view import View

NAMESPACE = uuidlib.UUID("5b1e6f0c-6d0e-4f0a-9b1f-7d3c1a2e4f60")
"""From it and a node's name comes the UUID of a root whose driver tells none."""
ATTEMPTS = 5
"""How often a period plans anew, as in the agent."""

MakeDriver = Callable[[], ComputeDriver]
T = TypeVar("T")


@dataclass(slots=True)
class Stage:
    """``make`` gives a fresh driver of the same backend at each call."""

    api: API
    context: DriverContext
    make: MakeDriver
    caller: Caller = field(default_factory=Caller)
    opened: list[LoadedDriver] = field(default_factory=list)
    back_within: float = 60.0
    """Seconds in which a driver has to notice that its backend is back."""

    def open(self, make: MakeDriver | None = None) -> LoadedDriver:
        """A fresh driver after its ``init_host``.  :raises DriverRaised: it failed at that."""
        loaded = self.made(make)
        lifecycle = loaded.lifecycle
        if lifecycle is not None:
            self.said("init_host", lambda: lifecycle.init_host(self.context.host))
        return loaded

    def made(self, make: MakeDriver | None = None) -> LoadedDriver:
        """A fresh driver that was not opened.  :raises DriverRaised: it can't be made."""
        loaded = self.said("make_driver", lambda: _loaded((make or self.make)()))
        if any(loaded.driver is known.driver for known in self.opened):
            raise BadFixture("make_driver gave the same driver twice: a fresh one is needed")
        self.opened.append(loaded)
        return loaded

    def nodes(self, loaded: LoadedDriver) -> list[str]:
        """The names of its nodes.  :raises DriverRaised: it can't say, or not properly."""
        return self.said("get_available_nodes", loaded.nodes)

    def roots(self, loaded: LoadedDriver) -> list[Root]:
        """A root for each of its nodes; Placement knows none of them before it is reported."""
        nodes = self.nodes(loaded)
        told = self.said("get_nodenames_by_uuid", loaded.uuids_told)
        return [self.root(node, told.get(node)) for node in nodes]

    def root(self, node: str, uuid: str | None = None) -> Root:
        """The root of this name, read from Placement."""
        return Root(self, node, uuid or _uuid_of(node)).read()

    def said(self, method: str, question: Callable[[], T], caller: Caller | None = None) -> T:
        """The driver's answer, from the thread of ``caller``.

        :raises DriverRaised: whatever it raised, or that it takes too long.
        """
        try:
            return (caller or self.caller).call(question)
        except (Exception, SystemExit) as err:
            raise DriverRaised(method, err) from err

    def clean_up(self, loaded: LoadedDriver) -> None:
        """Its ``cleanup_host``, if it has one.  :raises DriverRaised: it failed at that."""
        lifecycle = loaded.lifecycle
        if lifecycle is not None:
            self.said("cleanup_host", lambda: lifecycle.cleanup_host(self.context.host))

    def close(self) -> None:
        """Close all drivers that were opened, as far as they let themselves be closed."""
        for loaded in self.opened:
            with contextlib.suppress(DriverRaised):  # the rule closes is about that
                self.clean_up(loaded)
        self.opened.clear()
        self.caller.close()


def _loaded(driver: ComputeDriver) -> LoadedDriver:
    if driver is None:
        raise TypeError("it returned None, not a driver")
    return LoadedDriver.of(type(driver).__name__, driver)


def _uuid_of(node: str) -> str:
    try:
        return str(uuidlib.UUID(node))
    except ValueError:
        return str(uuidlib.uuid5(NAMESPACE, node))


@dataclass(slots=True)
class Root:
    """One node's tree: what Placement has of it, and what a driver makes of that."""

    stage: Stage
    node: str
    uuid: str
    view: View = field(default_factory=View)

    def read(self) -> Root:
        """Everything anew, as Placement has it; which names it lacks is not asked again."""
        absent = self.view.known.absent
        view = refresh(self.view, self.uuid, self.stage.api, everything=True)
        self.view = replace(view, known=replace(view.known, absent=absent))
        return self

    def fresh(self) -> ProviderTree:
        """The tree that a driver is handed."""
        tree = self.view.edit()
        if not tree.exists(self.uuid):
            tree.new_root(self.node, self.uuid)
        return tree

    def ask(
        self,
        loaded: LoadedDriver,
        tree: ProviderTree,
        allocations: Allocations | None = None,
        caller: Caller | None = None,
    ) -> None:
        """Let the driver edit ``tree``.  :raises DriverRaised: whatever it raised."""
        question = lambda: loaded.ask(tree, self.node, allocations)  # noqa: E731
        self.stage.said(f"update_provider_tree for node {self.node}", question, caller)

    def wish(self, loaded: LoadedDriver, caller: Caller | None = None) -> Snapshot:
        """The driver's answer to what Placement has.  :raises NotJudged: it is of no use."""
        tree = self.fresh()
        self.ask(loaded, tree, caller=caller)
        if not tree.exists(self.node) or tree.data(self.node).uuid != self.uuid:
            raise NotJudged(f"the root provider {self.node} is gone or renamed: see root-stays")
        return tree.freeze()

    def plan(self, wish: Snapshot, allocations: Allocations | None = None) -> Plan:
        """What the agent would send for it; strangers' sharing providers are never written."""
        known, strangers = self.view.known, self.view.strangers - self.view.made
        before = self.view.snapshot
        return diff(before, wish, allocations, known=known, strangers=strangers)

    def report(self, loaded: LoadedDriver) -> Outcome:
        """A whole period: ask, plan and write, anew where Placement asks for that."""
        for _ in range(ATTEMPTS):
            outcome = self.send(self.plan(self.wish(loaded)))
            if outcome.stopped_by is None:
                break
            self.read()
            self._look_at(outcome)
        return outcome

    def send(self, plan: Plan) -> Outcome:
        """Write it; the view is then what was acknowledged."""
        outcome = apply(plan, self.view, self.stage.api)
        self.view = outcome.view
        return outcome

    def edited_by_stranger(self, edit: Callable[[ProviderTree], None]) -> None:
        """Somebody else changes the tree in Placement; the view is read anew."""
        self.read()
        tree = self.view.edit()
        edit(tree)
        plan = diff(self.view.snapshot, tree.freeze(), known=self.view.known)
        outcome = apply(plan, self.view, self.stage.api)
        for err in (*outcome.failed.values(), outcome.stopped_by):
            if err is not None:
                raise NotJudged(f"node {self.node}: Placement refuses a stranger's edit: {err}")
        self.view = View(made=self.view.made)
        self.read()

    def _look_at(self, outcome: Outcome) -> None:
        """A provider that the driver makes is there already, beside the tree."""
        made = outcome.stopped_at
        if isinstance(outcome.stopped_by, AlreadyThere) and isinstance(made, CreateProvider):
            self.view = found_with(self.view, made.uuid, self.stage.api) or self.view
