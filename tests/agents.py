"""The one builder of an agent for tests: drivers around a Placement, period by period.

Time is told, not waited for.  What a test wants otherwise it gives by name; every name that
:class:`Agent` does not have is a rule (:class:`agent.period.rules.Rules`).
"""

import copy
import inspect
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from agent.nodes.identity import NodeTable
from agent.nodes.nodes import Nodes
from agent.period.rules import Rules
from agent.period.tracker import Tracker
from agent.provider_config.files import ProviderFiles
from agent.reporting.reports import Report
from drivers.api import ComputeDriver, DriverContext
from drivers.loader import LoadedDriver
from reportclient.errors import Unreachable
from reportclient.http import API, PlacementAPI, token_adapter
from reportclient.plan import DeleteProvider
from reportclient.provider_tree import ProviderTree
from reportclient.root import BulkWrites
from reportclient.snapshot import Snapshot
from tests.stranger import FakePlacement
from tests.waiting import no_pause

if TYPE_CHECKING:
    from tests.servers.placement import RealPlacement

ROOT = "c0ffee00-0000-4000-8000-000000000001"
NODE = "host1"
OWNER = "CUSTOM_OWNER_COMPUTE_AGENT"
VERIFY = 300.0

Body = Callable[..., None]
"""``(tree)``, ``(tree, allocations)`` or ``(tree, nodename, allocations)``: what a driver does."""


class Idle(ComputeDriver):
    """A driver that reports nothing: of these nodes, unless it can't name them."""

    def __init__(self, nodes: Any = (), error: BaseException | None = None) -> None:
        super().__init__(DriverContext(NODE, Path("/nonexistent")))
        self.nodes, self.error = nodes, error

    def get_available_nodes(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.nodes

    def update_provider_tree(
        self, provider_tree: ProviderTree, nodename: str, allocations: Any = None
    ) -> None:
        """Nothing."""


class Small(Idle):
    """A driver whose ``update_provider_tree`` is a function; it keeps what it was shown."""

    def __init__(self, body: Body, nodes: list[str] | None = None, **capabilities: bool) -> None:
        super().__init__(nodes or [NODE])
        self.body = body
        self.capabilities: Mapping[str, bool] = capabilities  # type: ignore[misc]
        self.trees: list[ProviderTree] = []

    def update_provider_tree(
        self, provider_tree: ProviderTree, nodename: str, allocations: Any = None
    ) -> None:
        self.trees.append(copy.deepcopy(provider_tree))
        wants = len(inspect.signature(self.body).parameters)
        about = {1: (), 2: (allocations,), 3: (nodename, allocations)}[wants]
        self.body(provider_tree, *about)

    @property
    def shown(self) -> list[dict[str, Any]]:
        """Each tree that it was shown: the providers by UUID."""
        return [{u: tree.data(u) for u in tree.get_provider_uuids()} for tree in self.trees]


class Away:
    """A Placement that answers nobody, and counts its requests."""

    asked = 0

    def request(self, *_: Any, **__: Any) -> dict[str, Any]:
        self.asked += 1
        raise Unreachable("away")


Placement: TypeAlias = "FakePlacement | RealPlacement | API | str"
"""``str``: the URL of a real one."""


def door_to(placement: Placement) -> API:
    """The API that an agent has of this Placement."""
    url = placement if isinstance(placement, str) else getattr(placement, "url", None)
    return placement if url is None else PlacementAPI(token_adapter(url, "admin"))  # type: ignore[return-value]


class Agent:
    """Nodes of one service against one Placement.

    Drivers are called ``driver1``, ``driver2``, … in this order, or as ``named`` has them.
    ``state`` is the state directory: without one nothing is kept over a :meth:`restart`.
    ``files`` is the directory of provider files.
    """

    def __init__(
        self,
        placement: Placement,
        *drivers: ComputeDriver,
        named: Mapping[str, ComputeDriver] | None = None,
        root: str = ROOT,
        state: Path | None = None,
        files: Path | None = None,
        bulk: BulkWrites | None = None,
        keeps_names: bool = False,
        writing: bool = True,
        rules: Rules | None = None,
        **some_rules: Any,
    ) -> None:
        self.placement: Any = placement
        self.api = door_to(placement)
        self.now = 0.0
        self.drivers, self.named = drivers, dict(named or {})
        wanted = {"owner_traits": (OWNER,), "verify_every": VERIFY, "pause": no_pause}
        self.rules = rules or Rules(**{**wanted, **some_rules})
        self.root, self.state, self.files, self.writing = root, state, files, writing
        self.bulk = bulk or BulkWrites()
        self.keeps_names = keeps_names
        self.restart()

    def restart(self) -> Self:
        """A new process: all that is not in the state directory is gone."""
        if self.state is not None:
            self.state.mkdir(parents=True, exist_ok=True)  # as the lock does
        numbered = {f"driver{n}": driver for n, driver in enumerate(self.drivers, 1)}
        named = {**numbered, **self.named}
        loaded = [LoadedDriver.from_driver(name, driver) for name, driver in named.items()]
        additions = ProviderFiles()
        if self.files is not None:
            assert self.state is not None, "files need a place for what was added"
            self.files.mkdir(exist_ok=True)
            additions = ProviderFiles.from_location(self.files, self.state)
            additions.load_files()
        keeps = self.keeps_names and self.state is not None
        self.nodes = Nodes(
            self.root,
            loaded,
            self.api,
            self.rules,
            self.bulk,
            self.state,
            table=NodeTable.in_directory(self.state) if keeps and self.state else NodeTable(),
            provider_files=additions,
            writing=self.writing,
        )
        return self

    def period(self, after: float = 2 * VERIFY, **options: Any) -> Report:
        """By default so much later that Placement is verified."""
        (report,) = self.periods(after, **options)
        return report

    def periods(self, after: float = 2 * VERIFY, **options: Any) -> list[Report]:
        """Of every node."""
        self.now += after
        return self.nodes.period(self.now, **options)

    def settle(self) -> Self:
        """Until a verification has nothing more to write."""
        for _ in range(3):
            reports = self.periods(2 * VERIFY)
            assert all(report.ok for report in reports), [one.texts() for one in reports]
        assert not any(report.done for report in reports)
        return self

    def settled(self, **options: Any) -> Report:
        """Periods in which all is well, until one finds nothing to do.

        The second at the latest, or the third if the second deletes what the first has emptied.
        """
        first = self.period(**options)
        assert first.ok, first.texts()
        report = self.period(**options)
        if report.done and all(isinstance(each, DeleteProvider) for each in report.done):
            report = self.period(**options)
        assert report.ok and not report.done, (report.texts(), report.done)
        return report

    def switch(self, *, disabled: bool) -> Report:
        (report,) = self.nodes.switch(self.now, disabled=disabled)
        return report

    def reload(self) -> None:
        """What SIGHUP does."""
        self.nodes.provider_files.read()

    def calls_of(self, action: Callable[[], object]) -> list[str]:
        mark = self.placement.mark()
        action()
        return [f"{r.method} {r.path}" for r in self.placement.since(mark)]

    @property
    def tracker(self) -> Tracker:
        (tracker,) = self.nodes.trackers.values()
        return tracker

    @property
    def view(self) -> Snapshot:
        """What the agent knows of Placement."""
        return self.tracker.view.snapshot


def child_uuid(name: str, root: str = ROOT) -> str:
    """What an unnumbered child of :data:`NODE` gets."""
    return str(uuid.uuid5(uuid.UUID(root), name.lower().removeprefix(f"{NODE}_")))


def both(*bodies: Body) -> Body:
    def body(tree: Any) -> None:
        for each in bodies:
            each(tree)

    return body


def inventory(total: int = 8) -> Body:
    """Everything on the root."""

    def body(tree: ProviderTree, nodename: str, allocations: Any = None) -> None:
        tree.update_inventory(nodename, {"VCPU": {"total": total}})

    return body


def whole_root(**totals: int) -> Body:
    """Sets the root's whole inventory, as a driver does that knows of no other."""

    def body(tree: Any) -> None:
        tree.update_inventory(NODE, {name: {"total": total} for name, total in totals.items()})

    return body


def devices(*names: str, total: int = 1) -> Body:
    """A child for each name; those of ours that are not named are removed."""

    def body(tree: ProviderTree, nodename: str, allocations: Any = None) -> None:
        for uuid_ in tree.get_provider_uuids_in_tree(nodename):
            name = tree.data(uuid_).name
            if name.startswith(f"{nodename}_dev") and name not in names:
                tree.remove(uuid_)
        for name in names:
            if not tree.exists(name):
                tree.new_child(name, nodename)
            tree.update_inventory(name, {"CUSTOM_DEVICE": {"total": total}})

    return body


def fails(error: BaseException) -> Body:
    def body(tree: ProviderTree, nodename: str, allocations: Any = None) -> None:
        tree.update_inventory(nodename, {"VCPU": {"total": 666}})
        tree.add_traits(nodename, "CUSTOM_HALF_DONE")
        raise error

    return body
