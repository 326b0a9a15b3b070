"""All roots of this service: their trackers, and one period of each."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agent.attach.foreign_roots import ForeignRoots
from agent.nodes.breaker import Breaker
from agent.nodes.departures import Departures, verify_by_listing
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

ALL_NODES = "all nodes"
"""Node name of a report if the driver could not name its nodes."""


@dataclass(slots=True)
class Nodes:
    """The trackers of this service, by the UUID of their root."""

    compute_id: str
    """Empty in attach mode without a ``compute_id`` file."""
    drivers: Sequence[LoadedDriver]
    api: API
    rules: Rules
    bulk: BulkWrites = field(default_factory=BulkWrites)
    state_path: Path | None = None
    """Directory of each root's saved view and ledger; ``None``: in memory only."""
    trackers: dict[str, Tracker] = field(default_factory=dict)
    table: NodeTable = field(default_factory=NodeTable)
    provider_files: ProviderFiles = field(default_factory=ProviderFiles)
    workers: Workers = field(default_factory=Workers)
    departures: Departures = field(default_factory=Departures)
    saved_trackers: dict[str, Tracker] = field(default_factory=dict)
    """Trackers of roots of earlier runs by UUID, until the driver has named its nodes."""
    foreign_roots: ForeignRoots = field(default_factory=ForeignRoots)
    """In attach mode: the other service's roots."""
    writing: bool = True
    """False for read-only commands: then saved views are not used, except for drained classes."""
    _breaker: Breaker | None = None
    _store: RootStore | None = None

    def __post_init__(self) -> None:
        if self.state_path is not None:
            self._store = RootStore.in_directory(self.state_path, writing=self.writing)

    def period(
        self, now: float, *, disabled: bool | None = None, stop: Callable[[], bool] = lambda: False
    ) -> list[Report]:
        """Run a period of every root.  Errors are in the reports.

        A node whose period hangs is reported as not finished.
        """
        try:
            trackers = self.current()
        except (Exception, SystemExit) as err:  # noqa: BLE001  a driver's, reported
            return [self._failed(err)]
        if not trackers:
            no_node = {f"driver {self.drivers[0].name}": "reported no node"}
            return self._awaited() or [Report(ALL_NODES, degraded=no_node)]
        self.breaker().close()
        self._watch_departures(now)
        if trackers[0].service_tag or self.departures.by_uuid:
            self._verify_by_listing(trackers, now)
        if len(trackers) > 1 and not self.rules.attached:
            self._free_names(trackers)
        reports = self._each(
            trackers, lambda tracker: tracker.period(now, disabled=disabled, stop=stop)
        )
        self.provider_files.warn_unmatched(self.trackers, reports)
        return reports + self._departed(now) + self._awaited()

    def switch(self, now: float, *, disabled: bool, again: bool = False) -> list[Report]:
        """Set or remove COMPUTE_STATUS_DISABLED on every root.  Errors are in the reports.

        ``again`` is true for a retry, for which no caller waits.  Before the driver has named its
        nodes, the trait is set on the roots of earlier runs, so that a host can be disabled while
        its hypervisor is down.
        """
        try:
            trackers = list(self.trackers.values()) or self._load_saved_trackers() or self.current()
        except (Exception, SystemExit) as err:  # noqa: BLE001  a driver's, reported
            return [self._failed(err)]
        self.breaker().close()
        return self._each(
            trackers, lambda tracker: tracker.switch(now, disabled=disabled, again=again)
        )

    def _free_names(self, trackers: Sequence[Tracker]) -> None:
        """Rename roots whose name another node needs, as after two nodes swapped their names."""
        wanted = {tracker.node for tracker in trackers}
        for tracker in trackers:
            root = tracker.view.snapshot.get(tracker.uuid)
            is_in_the_way = root is not None and root.name != tracker.node and root.name in wanted
            if is_in_the_way:
                tracker.free_name()

    def _load_saved_trackers(self) -> list[Tracker]:
        if self.state_path is not None and not self.saved_trackers and not self.rules.attached:
            self.saved_trackers = {
                uuid: self._tracker_from_saved(uuid) for uuid in saved_roots(self.state_path)
            }
        return list(self.saved_trackers.values())

    def roots(self) -> list[str]:
        """Return the UUIDs of the roots, or of those of earlier runs.  Any thread may call it."""
        return list(self.trackers) or (saved_roots(self.state_path) if self.state_path else [])

    def problems(self) -> list[str]:
        """Return why files of the state directory could not be written."""
        store = "" if self._store is None else self._store.problem
        return [text for text in (store, self.table.problem, self.provider_files.problem) if text]

    def any_disabled(self) -> bool | None:
        """Return whether a root has COMPUTE_STATUS_DISABLED.

        ``None`` before Placement was read, and in attach mode.
        """
        if self.rules.attached:
            return None
        roots = [tracker.view.snapshot.get(uuid) for uuid, tracker in self.trackers.items()]
        if not roots or any(root is None for root in roots):
            return None
        return any(root is not None and DISABLED in root.traits for root in roots)

    def _awaited(self) -> list[Report]:
        return [Report(name, error=err) for name, err in self.foreign_roots.awaited.items()]

    def _failed(self, err: BaseException) -> Report:
        """Return the report if the nodes can't be named."""
        if isinstance(err, IdentityError):
            return Report(ALL_NODES, error=err)
        return Report(ALL_NODES, driver_errors={self.drivers[0].name: err})

    def current(self) -> list[Tracker]:
        """Return the trackers of the nodes that the first driver names now.

        :raises DriverError: the names or UUIDs that the driver returned can't be used.
        :raises IdentityError: the file with the UUIDs of the nodes can't be used.
        :raises BaseException: whatever the driver raises.
        """
        first = self.drivers[0]
        if self.rules.attached:
            return self._attached(first.nodes(), first.node_uuids())
        uuids = self.table.uuids(first.nodes(), self.compute_id, first.node_uuids())
        if uuids:
            self.departures.note(self.trackers, uuids.values())
        self.trackers = {uuid: self._tracker(uuid, name) for name, uuid in uuids.items()}
        many = self.table.has_many or any(uuid != self.compute_id for uuid in self.trackers)
        for tracker in self.trackers.values():
            tracker.service_tag = tag_of(self.compute_id) if many else ""
        return list(self.trackers.values())

    def _attached(self, nodes: list[str], from_driver: Mapping[str, str]) -> list[Tracker]:
        """Return the trackers of the roots that their owner has created."""
        for tracker in self.trackers.values():
            if tracker.view.certain and tracker.uuid not in tracker.view.snapshot:
                self.foreign_roots.forget(tracker.node)
        self.foreign_roots.compute_id = self.compute_id
        uuids = self.foreign_roots.resolve_uuids(nodes, from_driver, self.breaker())
        self.trackers = {uuid: self._tracker(uuid, name) for name, uuid in uuids.items()}
        return list(self.trackers.values())

    def _tracker(self, uuid: str, name: str) -> Tracker:
        earlier = self.trackers.get(uuid) or self.saved_trackers.pop(uuid, None)
        tracker = earlier or self.departures.take_back(uuid) or self._create_tracker(uuid, name)
        tracker.node = name
        return tracker

    def _create_tracker(self, uuid: str, name: str) -> Tracker:
        saved = None if self._store is None else SavedRoot(self._store, uuid)
        root = Root(uuid, self.breaker(), self.rules, self.bulk, saved)
        root.load_saved_view()
        tracker = Tracker(root, name, self.drivers, self.rules, self.provider_files, saved)
        tracker.new_state = self._store is None or self._store.is_new
        tracker.ledger = saved.ledger if saved is not None else tracker.ledger
        tracker.ledger = self._ledger_of_mode(tracker)
        if not self.writing:
            tracker.view = View(drained=tracker.view.drained)
        return tracker

    def _ledger_of_mode(self, tracker: Tracker) -> Ledger:
        """Return the ledger for the current [compute] root_provider; warn if that was changed.

        If the root was this agent's and is attached now, only the owner traits stay in its ledger,
        so that they are removed.
        """
        ledger, uuid = tracker.ledger, tracker.uuid
        if not self.rules.attached and ledger.begun and not ledger.is_ours(uuid):
            LOG.warning(
                "Node %s: [compute] root_provider was changed from attach to own: this agent now "
                "reports the root provider. Stop nova-compute on this host; inventory and traits "
                "that only nova-compute reported stay until you remove them",
                tracker.node,
            )
        if not self.rules.attached or not ledger.is_ours(uuid):
            return ledger
        LOG.warning(
            "Node %s: [compute] root_provider was changed from own to attach: nova-compute now "
            "reports the root provider, this agent only children of it. To hand back the whole "
            "host to nova-compute, run computectl retire --hand-back",
            tracker.node,
        )
        owners = Holding(traits=identifying_traits(self.rules.owner_traits))
        return replace(ledger, holders={**ledger.holders, uuid: {ADOPTED: owners}})

    def breaker(self) -> Breaker:
        """Return the breaker that all roots share, created at the first call."""
        if self._breaker is None:
            self._breaker = Breaker(self.api, self.rules.nodes_at_once)
        return self._breaker

    def _each(self, trackers: Sequence[Tracker], job: Callable[[Tracker], Report]) -> list[Report]:
        self.workers.at_once = self.rules.nodes_at_once
        return self.workers.each(trackers, job)

    def _verify_by_listing(self, trackers: Sequence[Tracker], now: float) -> None:
        idle = [tracker for tracker in trackers if self.workers.busy(tracker.uuid) is None]
        tag = tag_of(self.compute_id)
        listed = verify_by_listing(idle, self.departures, tag, self.breaker(), now)
        if listed is not None:
            self.departures.compare(listed, self.trackers, self._vanished_tracker, now)

    # -- vanished nodes

    def _watch_departures(self, now: float) -> None:
        """Schedule checks of vanished nodes, once also of those that vanished before this start."""
        if self.rules.attached:
            return
        if not self.departures.searched and self.state_path is not None:
            for uuid in saved_roots(self.state_path):
                if uuid not in self.trackers and uuid not in self.departures.by_uuid:
                    self.departures.newly_vanished.append(self._vanished_tracker(uuid, uuid))
        self.departures.searched = True
        self.departures.begin(now, self.rules, tag_of(self.compute_id))

    def _vanished_tracker(self, uuid: str, name: str) -> Tracker:
        """Return a tracker of a root whose node no driver names."""
        tracker = self._tracker_from_saved(uuid, name)
        tracker.service_tag = tag_of(self.compute_id)
        return tracker

    def _tracker_from_saved(self, uuid: str, name: str = "") -> Tracker:
        """Return a tracker of a root, named as in its saved view, else ``name`` or its UUID."""
        tracker = self._create_tracker(uuid, name or uuid)
        root = tracker.view.snapshot.get(uuid)
        tracker.node = tracker.node if root is None else root.name
        return tracker

    def _departed(self, now: float) -> list[Report]:
        jobs: dict[str, Job] = {
            f"gone {key}": partial(node.check, now)
            for key, node in self.departures.due(now)
            if self.workers.busy(key) is None  # its last period may still be running
        }
        checked = self.workers.run(jobs) if jobs else {}
        reports = [
            checked.get(f"gone {key}") or node.report()
            for key, node in self.departures.by_uuid.items()
        ]
        for uuid in self.departures.finished():
            self.table.forget(uuid)
        return [report for report in reports if report.done or report.conditions()]
