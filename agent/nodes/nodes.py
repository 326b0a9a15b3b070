"""All roots of this service: which there are, and one period of each."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agent.attach.foreign_roots import ForeignRoots
from agent.nodes.breaker import Breaker
from agent.nodes.departures import Departures, roll_call
from agent.nodes.identity import IdentityError, NodeTable
from agent.nodes.workers import Job, Workers
from agent.ownership.ledger import ADOPTED, Holding, Ledger
from agent.period.rules import Rules
from agent.period.service_tag import tag_of
from agent.period.tracker import Tracker
from agent.period.traits import DISABLED, identifying_traits
from agent.provider_config.files import ProviderFiles
from agent.reporting.reports import Report
from agent.state.roots import RootStore
from agent.state.saved_root import SavedRoot, saved_roots
from drivers.loader import LoadedDriver
from reportclient.http import API
from reportclient.root import BulkWrites, Root
from reportclient.view import View

LOG = logging.getLogger(__name__)

NOBODY = "all nodes"
"""Stands for the node where it is not known which there are."""


@dataclass(slots=True)
class Nodes:
    """The trackers of this service, by the UUID of their root."""

    own_uuid: str
    drivers: Sequence[LoadedDriver]
    api: API
    rules: Rules
    bulk: BulkWrites = field(default_factory=BulkWrites)
    state_path: Path | None = None
    """Where what is known of each root is kept; ``None``: nowhere."""
    trackers: dict[str, Tracker] = field(default_factory=dict)
    table: NodeTable = field(default_factory=NodeTable)
    additions: ProviderFiles = field(default_factory=ProviderFiles)
    """What provider files add to them."""
    workers: Workers = field(default_factory=Workers)
    departures: Departures = field(default_factory=Departures)
    before: dict[str, Tracker] = field(default_factory=dict)
    """Of roots that were reported before this start, until the driver has named its nodes."""
    foreign_roots: ForeignRoots = field(default_factory=ForeignRoots)
    """Roots that belong to somebody else."""
    writing: bool = True
    """False: read only; of the saved state only what Placement can't tell is used."""
    _breaker: Breaker | None = None
    _store: RootStore | None = None

    def __post_init__(self) -> None:
        if self.state_path is not None:
            self._store = RootStore.in_directory(self.state_path, writing=self.writing)

    def period(
        self, now: float, *, disabled: bool | None = None, stop: Callable[[], bool] = lambda: False
    ) -> list[Report]:
        """Run a period of every root.  Never raises: errors are in the reports.

        A node that hangs is waited for only a short while, and told as not done.
        """
        try:
            trackers = self.current()
        except (Exception, SystemExit) as err:  # noqa: BLE001  a driver's; the agent lives on
            return [self._nobody(err)]
        if not trackers:
            no_node = {f"driver {self.drivers[0].name}": "reported no node"}
            return self._awaited() or [Report(NOBODY, degraded=no_node)]
        self.breaker().close()
        self._watch_departures(now)
        if trackers[0].service_tag or self.departures.by_uuid:
            self._call_roll(trackers, now)
        if len(trackers) > 1 and not self.rules.attached:
            self._free_names(trackers)
        reports = self._each(trackers, lambda one: one.period(now, disabled=disabled, stop=stop))
        self.additions.tell_absent(self.trackers, reports)
        return reports + self._departed(now) + self._awaited()

    def switch(self, now: float, *, disabled: bool, again: bool = False) -> list[Report]:
        """Make COMPUTE_STATUS_DISABLED right on every root.  Never raises: the reports tell.

        ``again``: nobody asks for it, it could not be done before.

        Before the driver has named its nodes these are the roots of earlier runs: a host that
        starts without its hypervisor is disabled all the same.
        """
        try:
            trackers = list(self.trackers.values()) or self._from_before() or self.current()
        except (Exception, SystemExit) as err:  # noqa: BLE001  as above
            return [self._nobody(err)]
        self.breaker().close()
        return self._each(trackers, lambda one: one.switch(now, disabled=disabled, again=again))

    def _free_names(self, trackers: Sequence[Tracker]) -> None:
        """Nodes can have each other's names, in a circle even: nobody could begin."""
        wanted = {tracker.node for tracker in trackers}
        for tracker in trackers:
            root = tracker.view.snapshot.get(tracker.uuid)
            is_in_the_way = root is not None and root.name != tracker.node and root.name in wanted
            if is_in_the_way:
                tracker.free_name()

    def _from_before(self) -> list[Tracker]:
        if self.state_path is not None and not self.before and not self.rules.attached:
            self.before = {
                uuid: self._called_as_then(uuid) for uuid in saved_roots(self.state_path)
            }
        return list(self.before.values())

    def roots(self) -> list[str]:
        """UUIDs of the roots, or of those of earlier runs; any thread may call it."""
        return list(self.trackers) or (saved_roots(self.state_path) if self.state_path else [])

    def problems(self) -> list[str]:
        """Why files of the state directory can't be written, of those that can't."""
        store = "" if self._store is None else self._store.problem
        return [one for one in (store, self.table.problem, self.additions.problem) if one]

    def any_disabled(self) -> bool | None:
        """Whether a root carries COMPUTE_STATUS_DISABLED; ``None`` before Placement was read."""
        if self.rules.attached:
            return None
        seen = {uuid: one.view.snapshot.get(uuid) for uuid, one in self.trackers.items()}
        if not seen or any(root is None for root in seen.values()):
            return None
        return any(root is not None and DISABLED in root.traits for root in seen.values())

    def _awaited(self) -> list[Report]:
        return [Report(name, error=err) for name, err in self.foreign_roots.awaited.items()]

    def _nobody(self, err: BaseException) -> Report:
        if isinstance(err, IdentityError):
            return Report(NOBODY, error=err)
        return Report(NOBODY, driver_errors={self.drivers[0].name: err})

    def current(self) -> list[Tracker]:
        """Trackers of the nodes that there are now.

        The first driver names the nodes; the others add to them.

        :raises DriverError: what it said can't be used.
        :raises IdentityError: which UUIDs the nodes have is kept in a file that is damaged.
        :raises BaseException: whatever the driver raises.
        """
        first = self.drivers[0]
        if self.rules.attached:
            return self._attached(first.nodes(), first.uuids_told())
        uuids = self.table.uuids(first.nodes(), self.own_uuid, first.uuids_told())
        if uuids:
            self.departures.note(self.trackers, uuids.values())
        self.trackers = {uuid: self._tracker(uuid, name) for name, uuid in uuids.items()}
        many = self.table.has_many or any(uuid != self.own_uuid for uuid in self.trackers)
        for tracker in self.trackers.values():
            tracker.service_tag = tag_of(self.own_uuid) if many else ""
        return list(self.trackers.values())

    def _attached(self, nodes: list[str], told: Mapping[str, str]) -> list[Tracker]:
        """Return the trackers of the roots that their owner has created."""
        for tracker in self.trackers.values():
            if tracker.view.certain and tracker.uuid not in tracker.view.snapshot:
                self.foreign_roots.forget(tracker.node)
        self.foreign_roots.compute_id = self.own_uuid
        uuids = self.foreign_roots.resolve_uuids(nodes, told, self.breaker())
        self.trackers = {uuid: self._tracker(uuid, name) for name, uuid in uuids.items()}
        return list(self.trackers.values())

    def _tracker(self, uuid: str, name: str) -> Tracker:
        earlier = self.trackers.get(uuid) or self.before.pop(uuid, None)
        tracker = earlier or self.departures.back(uuid) or self._made(uuid, name)
        tracker.node = name
        return tracker

    def _made(self, uuid: str, name: str) -> Tracker:
        kept = None if self._store is None else SavedRoot(self._store, uuid)
        root = Root(uuid, self.breaker(), self.rules, self.bulk, kept)
        root.load_saved_view()
        made = Tracker(root, name, self.drivers, self.rules, self.additions, kept)
        made.new_state = self._store is None or self._store.is_new
        made.ledger = kept.ledger if kept is not None else made.ledger
        made.ledger = self._of_this_mode(made)
        if not self.writing:
            made.view = View(drained=made.view.drained)
        return made

    def _of_this_mode(self, made: Tracker) -> Ledger:
        """The ledger, without what this agent held of a root that is nova-compute's by now.

        The option alone decides whose a root is.  Of one that was this agent's only the traits
        that say so are still its own, to be taken away.
        """
        ledger, uuid = made.ledger, made.uuid
        if not self.rules.attached and ledger.begun and not ledger.is_ours(uuid):
            LOG.warning(
                "Node %s: [compute] root_provider was attach and is own now: this agent reports "
                "the root. Stop nova-compute on this host; what it reported and no driver here "
                "reports stays until you remove it",
                made.node,
            )
        if not self.rules.attached or not ledger.is_ours(uuid):
            return ledger
        LOG.warning(
            "Node %s: [compute] root_provider was own and is attach now: nova-compute reports the "
            "root's inventory and traits, this agent its children. To give back the whole host, "
            "run computectl retire --hand-back",
            made.node,
        )
        owners = Holding(traits=identifying_traits(self.rules.owner_traits))
        return replace(ledger, holders={**ledger.holders, uuid: {ADOPTED: owners}})

    def breaker(self) -> Breaker:
        """Return the way to Placement that all roots share, made at the first call."""
        if self._breaker is None:
            self._breaker = Breaker(self.api, self.rules.nodes_at_once)
        return self._breaker

    def _each(self, trackers: Sequence[Tracker], job: Callable[[Tracker], Report]) -> list[Report]:
        self.workers.at_once = self.rules.nodes_at_once
        return self.workers.each(trackers, job)

    def _call_roll(self, trackers: Sequence[Tracker], now: float) -> None:
        free = [one for one in trackers if self.workers.busy(one.uuid) is None]
        listed = roll_call(free, self.departures, tag_of(self.own_uuid), self.breaker(), now)
        if listed is not None:
            self.departures.compare(listed, self.trackers, self._made_for, now)

    # -- nodes that are not there any more

    def _watch_departures(self, now: float) -> None:
        """Also those that vanished while nobody looked."""
        if self.rules.attached:
            return
        if not self.departures.searched and self.state_path is not None:
            for uuid in saved_roots(self.state_path):
                if uuid not in self.trackers and uuid not in self.departures.by_uuid:
                    self.departures.left.append(self._made_for(uuid, uuid))
        self.departures.searched = True
        self.departures.begin(now, self.rules, tag_of(self.own_uuid))

    def _made_for(self, uuid: str, name: str) -> Tracker:
        """A tracker of a node that no driver names."""
        made = self._called_as_then(uuid, name)
        made.service_tag = tag_of(self.own_uuid)
        return made

    def _called_as_then(self, uuid: str, name: str = "") -> Tracker:
        """A tracker of a root that is known by its UUID; called as it was in Placement."""
        made = self._made(uuid, name or uuid)
        root = made.view.snapshot.get(uuid)
        made.node = made.node if root is None else root.name
        return made

    def _departed(self, now: float) -> list[Report]:
        jobs: dict[str, Job] = {
            f"gone {key}": partial(one.check, now)
            for key, one in self.departures.due(now)
            if self.workers.busy(key) is None  # a last period of theirs may still be under way
        }
        checked = self.workers.run(jobs) if jobs else {}
        reports = [
            checked.get(f"gone {key}") or one.report()
            for key, one in self.departures.by_uuid.items()
        ]
        for uuid in self.departures.finished():
            self.table.forget(uuid)
        return [report for report in reports if report.done or report.conditions()]
