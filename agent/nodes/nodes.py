"""All roots of this service: their trackers, and one period of each."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from pathlib import Path

from agent.nodes.foreign_roots import ForeignRoots
from agent.nodes.identity import COPIED, IdentityError, NodeTable, RootTaken, saved_compute_id
from agent.nodes.identity import compute_id as own_compute_id
from agent.nodes.vanished import Vanished
from agent.opts import Settings
from agent.ownership.policy import DISABLED
from agent.period.rules import Rules
from agent.period.tracker import Tracker
from agent.period.traits import tag_of
from agent.placement import Breaker
from agent.provider_config.files import ProviderFiles
from agent.reporting.condition import PART, Condition, of_disk, of_driver, of_part
from agent.reporting.reports import Report
from agent.state.saved_root import SavedRoot, is_new, saved_roots
from drivers.errors import ReshapeFailed
from drivers.loader import LoadedDriver
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.reader import providers_with_trait
from reportclient.root import BulkWrites, Root
from reportclient.view import View

LOG = logging.getLogger("compute_agent.placement")

ALL_NODES = "all nodes"
"""Node name of a report if the driver could not name its nodes."""
BULK_PAYS_FROM = 8
"""Number of inventories from which one bulk write costs Placement less than a PUT for each."""
MIN_DUE_FOR_LISTING = 10
"""Number of due roots from which one listing is used; fewer are verified one by one."""


@dataclass(slots=True)
class Nodes:
    """The trackers of this service, by the UUID of their root."""

    compute_id: str
    """Empty in attach mode without a ``compute_id`` file."""
    drivers: Sequence[LoadedDriver]
    api: InitVar[API]
    rules: Rules
    bulk: BulkWrites = field(default_factory=BulkWrites)
    state_path: Path | None = None
    """Directory of each root's saved view and ledger; ``None``: in memory only."""
    trackers: dict[str, Tracker] = field(default_factory=dict)
    table: NodeTable = field(default_factory=NodeTable)
    provider_files: ProviderFiles = field(default_factory=ProviderFiles)
    on_ended: Callable[[], object] = lambda: None
    """Called when a node's period has ended."""
    vanished: dict[str, Vanished] = field(default_factory=dict)
    """Vanished nodes that are checked until they are ended; by UUID of their root."""
    saved_trackers: dict[str, Tracker] = field(default_factory=dict)
    """Trackers of roots of earlier runs by UUID, until the driver has named its nodes."""
    lost: dict[str, str] = field(default_factory=dict)
    """Why a driver has lost single nodes, by name: they take no new guests."""
    writing: bool = True
    """False for read-only commands: then saved views are not used, except for drained classes."""
    denied_of: Callable[[Collection[str]], Mapping[str, str] | None] = lambda _: None
    """Returns why this host may not write to roots, by UUID; ``None`` if no registry says it."""
    breaker: Breaker = field(init=False)
    """Placement's API for all roots."""
    _new_state: bool = True
    """Whether the agent had no file in the state directory when it started."""
    _searched: bool = False
    """Whether the state directory was searched for nodes that vanished before this start."""

    def __post_init__(self, api: API) -> None:
        self.breaker = Breaker(api, self.rules.nodes_at_once)
        if self.rules.attached:
            self.table = ForeignRoots(api=self.breaker)
        if self.state_path is not None:
            self._new_state = is_new(self.state_path)

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        drivers: Sequence[LoadedDriver],
        api: API,
        compute_id: str | None = None,
        *,
        writing: bool = True,
    ) -> "Nodes":
        """Return the nodes of the drivers; provider files are not read yet.

        ``compute_id``: by default that of the state directory, which is created there if this agent
        owns its roots.
        """
        path = settings.state_path
        if compute_id is None:
            compute_id = (saved_compute_id if settings.rules.attached else own_compute_id)(path)
        files = ProviderFiles.from_location(settings.provider_config, path, writing=writing)
        return cls(
            compute_id,
            drivers,
            api,
            settings.rules,
            BulkWrites(settings.bulk_chunk, BULK_PAYS_FROM),
            path,
            table=NodeTable.in_directory(path, writing=writing),
            provider_files=files,
            writing=writing,
        )

    def period(
        self, now: float, *, disabled: bool | None = None, stop: Callable[[], bool] = lambda: False
    ) -> list[Report]:
        """Run a period of every root.  Errors are in the reports."""
        before = self.trackers
        try:
            named = self.current()
            trackers, taken = self._writable(named)
        except (Exception, SystemExit) as err:  # noqa: BLE001  a driver's, reported
            return [self._failed(err)]
        for uuid in before.keys() - self.trackers.keys():  # named again, it is there
            self.lost.pop(before[uuid].node, None)
        awaited = [Report(name).with_error(err) for name, err in self.table.awaited.items()]
        if not named:
            text, driver = "reported no node: nothing is written", f"driver {self.drivers[0].name}"
            no_node = Condition(text, "correct what the driver reads", driver, kind=PART)
            return awaited or [Report(ALL_NODES, conditions=(no_node,))]
        self.breaker.close()
        if self.table.owns_roots and not taken:
            if not self._searched or before.keys() - self.trackers.keys():
                self._note_vanished(before, now)
            if trackers[0].service_tag or self.vanished:
                self._verify_by_listing(now)
            self._free_names(now)
        starting = not any(tracker.started for tracker in trackers)

        def period(tracker: Tracker) -> Report:
            why = self.lost.get(tracker.node)
            report = tracker.period(now, disabled=disabled if why is None else True, stop=stop)
            lost = () if why is None else (of_part("hypervisor", why),)
            return replace(report, conditions=(*report.conditions, *lost))

        reports = self._each(trackers, period)
        if starting:
            reports = [_with_failed_reshape(report) for report in reports]
        self.provider_files.warn_unmatched(self.trackers, [*reports, *taken])
        return reports + (taken or self._check_vanished(now)) + awaited

    def switch(self, now: float, *, disabled: bool, retry: bool = False) -> list[Report]:
        """Set or remove COMPUTE_STATUS_DISABLED on every root.  Errors are in the reports.

        ``retry`` is true for one, for which no caller waits.  Before the driver has named its
        nodes, the trait is set on the roots of earlier runs, so that a host can be disabled while
        its hypervisor is down.
        """
        try:
            if self.table.owns_roots and not (self.trackers or self.saved_trackers):
                self.saved_trackers = {uuid: self._create_tracker(uuid) for uuid in self.roots()}
            trackers = [*(self.trackers or self.saved_trackers).values()] or self.current()
            trackers, taken = self._writable(trackers)
        except (Exception, SystemExit) as err:  # noqa: BLE001  a driver's, reported
            return [self._failed(err)]
        self.breaker.close()

        def switch(tracker: Tracker) -> Report:
            return tracker.switch(now, disabled=disabled or tracker.node in self.lost, retry=retry)

        return taken + self._each(trackers, switch)

    def _writable(self, trackers: Sequence[Tracker]) -> tuple[list[Tracker], list[Report]]:
        """Return the trackers whose roots this host may write to, and the reports of the others.

        Without an answer of a registry it is this host's own state that decides.
        """
        roots = [tracker.uuid for tracker in trackers]
        denied = self.denied_of(roots) if roots else {}
        if denied is None:
            denied = {root: why for root in roots if (why := self._copied(root))}
        taken = [tracker for tracker in trackers if tracker.uuid in denied]
        reports = [Report(it.node).with_error(RootTaken(denied[it.uuid])) for it in taken]
        return [tracker for tracker in trackers if tracker.uuid not in denied], reports

    def _copied(self, root: str) -> str:
        """Return why nothing is written to a root whose saved state is another machine's."""
        saved = self.trackers[root].saved if root in self.trackers else None
        is_copied = self.table.is_copied(None if saved is None else saved.document)
        return COPIED.format(root=root, path=self.state_path) if is_copied else ""

    def roots(self) -> list[str]:
        """Return the UUIDs of the roots, or of those of earlier runs.  Any thread may call it."""
        return list(self.trackers) or (saved_roots(self.state_path) if self.state_path else [])

    def conditions(self) -> list[Condition]:
        """Return why files of the state directory that are of no root could not be written."""
        documents = (self.table.document, self.provider_files.saved)
        return [of_disk(each.problem) for each in documents if each.problem]

    def any_disabled(self) -> bool | None:
        """Return whether a root has COMPUTE_STATUS_DISABLED that the driver has not lost.

        ``None`` before Placement was read, and in attach mode.
        """
        roots = [tracker.view.snapshot.get(uuid) for uuid, tracker in self.trackers.items()]
        known = [root for root in roots if root is not None]
        if not self.table.owns_roots or not roots or known != roots:
            return None
        return any(DISABLED in root.traits and root.name not in self.lost for root in known)

    def _failed(self, err: BaseException) -> Report:
        """Return the report if the nodes can't be named."""
        if isinstance(err, IdentityError):
            return Report(ALL_NODES).with_error(err)
        name = self.drivers[0].name
        return Report(ALL_NODES, driver_errors={name: err}, conditions=(of_driver(name, err),))

    def current(self) -> list[Tracker]:
        """Return the trackers of the nodes that the first driver names now.

        In attach mode they are those whose root another service has created.

        :raises DriverError: the names or UUIDs that the driver returned can't be used.
        :raises IdentityError: the file with the UUIDs of the nodes can't be used.
        :raises BaseException: whatever the driver raises.
        """
        names, from_driver = self.drivers[0].nodes(), self.drivers[0].node_uuids()
        for tracker in self.trackers.values():
            if tracker.view.certain and tracker.uuid not in tracker.view.snapshot:
                self.table.note_deleted(tracker.node)
        uuids = self.table.uuids(names, self.compute_id, from_driver)
        tag = tag_of(self.compute_id) if self.table.has_many else ""
        if not names:
            return []  # the trackers stay: which nodes vanished is known once some are named
        self.trackers = {uuid: self._tracker(uuid, name, tag) for name, uuid in uuids.items()}
        return list(self.trackers.values())

    def _tracker(self, uuid: str, name: str, tag: str) -> Tracker:
        """Return the tracker of a node, the one that it had before if there is one."""
        tracker, vanished = self.trackers.get(uuid), self.vanished.pop(uuid, None)
        if vanished is not None:
            tracker = vanished.tracker
            tracker.released, tracker.root.schedule.verify_at = False, 0.0
        tracker = tracker or self.saved_trackers.pop(uuid, None) or self._create_tracker(uuid, name)
        tracker.node, tracker.service_tag = name, tag
        saved = tracker.saved
        if saved is not None and saved.reload():
            tracker.root.view = saved.view
            tracker.load_ledger(saved.ledger)
        return tracker

    def _create_tracker(self, uuid: str, name: str = "") -> Tracker:
        """Return a new tracker with the saved state of its root.

        Without ``name`` the node has the name of the saved root, else its UUID.
        """
        path = self.state_path
        saved = None if path is None else SavedRoot.in_directory(path, uuid, writing=self.writing)
        root = Root(uuid, self.breaker, self.rules, self.bulk, saved)
        root.load_saved_view()
        provider = root.view.snapshot.get(uuid)
        node = name or (uuid if provider is None else provider.name)
        if not self.writing:
            root.view = View(drained=root.view.drained, drained_since=root.view.drained_since)
        tracker = Tracker(root, node, self.drivers, self.rules, self.provider_files, saved)
        if saved is not None:
            tracker.load_ledger(saved.ledger)
        tracker.new_state = self._new_state
        tag = tag_of(self.compute_id)
        tracker.service_tag = tag if provider is not None and tag in provider.traits else ""
        return tracker

    def _free_names(self, now: float) -> None:
        """Rename each root to its UUID whose name another node needs, as after a swap of names."""
        wanted = {tracker.node.casefold() for tracker in self.trackers.values()}
        to_rename = []
        for uuid, tracker in self.trackers.items():
            root = tracker.view.snapshot.get(uuid)
            name = None if root is None else root.name.casefold()
            if name != tracker.node.casefold() and name in wanted:
                to_rename.append(tracker)
        self._each(to_rename, lambda tracker: tracker.free_name(now))

    def _each(self, trackers: Sequence[Tracker], job: Callable[[Tracker], Report]) -> list[Report]:
        """Run the job for each tracker, at most ``nodes_at_once`` at the same time.

        New roots get the names of traits and classes that Placement knows from the view of another
        root, or of the first new one, whose job runs for that before the others.
        """
        run = partial(self._run, job)
        new = [tracker for tracker in trackers if not tracker.view.generations]
        first = trackers[:1] if len(new) == len(trackers) else []
        reports = [run(tracker) for tracker in first]
        source = next((each for each in trackers if each.view.generations), None)
        if source is not None:
            for tracker in new[len(first) :]:
                tracker.root.view = replace(View(), names=source.view.names)
        others = trackers[len(first) :]
        if len(others) < 2:
            return reports + [run(tracker) for tracker in others]
        with ThreadPoolExecutor(self.rules.nodes_at_once, "node") as pool:
            return reports + list(pool.map(run, others))

    def _run(self, job: Callable[[Tracker], Report], tracker: Tracker) -> Report:
        """Return the job's report; an exception of any kind is in it."""
        began = time.monotonic()
        try:
            report = job(tracker)
        except (Exception, SystemExit) as err:  # noqa: BLE001  other nodes go on
            report = tracker.failed(err)
        self.on_ended()
        return replace(report, seconds=time.monotonic() - began)

    def _verify_by_listing(self, now: float) -> None:
        """Verify all roots without children by one listing of the service tag, if enough are due.

        Roots that changed or have children are verified one by one, and so are all if the request
        fails.  A vanished node that is not listed is ended: another service reports it, or it is
        gone.  A listed provider that is no node of this host was left by an earlier run, and
        vanished, too.
        """
        childless = [tracker for tracker in self.trackers.values() if tracker.is_alone()]
        due = sum(tracker.root.is_due(now) for tracker in childless)
        vanished = [node for node in self.vanished.values() if now >= node.due]
        if due < MIN_DUE_FOR_LISTING and len(vanished) < MIN_DUE_FOR_LISTING:
            return
        try:
            tagged = providers_with_trait(tag_of(self.compute_id), self.breaker)
        except PlacementError as err:
            LOG.debug("The roots of this service could not be listed: %s", err)
            return
        listed = {item["uuid"]: item for item in tagged}
        for tracker in childless:
            tracker.root.verified(listed.get(tracker.uuid), now)
        for node in vanished:
            if node.tracker.uuid not in listed:
                node.end("another service reports it now, or its provider is gone")
        for uuid, item in listed.items():
            if uuid not in self.trackers and uuid not in self.vanished:
                self._remove_later(self._create_tracker(uuid, item["name"]), now)

    # -- vanished nodes

    def _note_vanished(self, before: Mapping[str, Tracker], now: float) -> None:
        """Schedule the checks of vanished nodes, at first also of those that vanished before.

        Roots that lack the service's tag are left alone.  A root that is not in its tracker's view
        is read before anything is removed.
        """
        vanished = [tracker for uuid, tracker in before.items() if uuid not in self.trackers]
        if not self._searched and self.state_path is not None:
            tracked_uuids = {*before, *self.trackers, *self.vanished}
            saved = [uuid for uuid in saved_roots(self.state_path) if uuid not in tracked_uuids]
            vanished += (self.saved_trackers.get(it) or self._create_tracker(it) for it in saved)
            self.saved_trackers = {}
        self._searched = True
        for tracker in vanished:
            root = tracker.view.snapshot.get(tracker.uuid)
            if root is None or tag_of(self.compute_id) in root.traits:
                self._remove_later(tracker, now)

    def _remove_later(self, tracker: Tracker, now: float) -> None:
        """Schedule the removal of a vanished node's providers.

        A root that is not in the tracker's view, such as one that was never created, is looked at
        now: usually nothing is left to remove.
        """
        wait = self.rules.node_wait
        if wait is None:
            LOG.info("Node %s vanished: its provider is not removed", tracker.node)
            return
        tracker.service_tag, tracker.released = tag_of(self.compute_id), True
        node = Vanished(tracker, now, wait, Report(tracker.node))
        if tracker.uuid in tracker.view.snapshot:
            node.announce(now)
        self.vanished[tracker.uuid] = node
        tracker.save_ledger()  # an earlier write may have failed, as on a full disk

    def _check_vanished(self, now: float) -> list[Report]:
        """Check the vanished nodes that are due; return what there is to report of all of them."""
        trackers = [node.tracker for node in self.vanished.values() if now >= node.due]
        due, taken = self._writable(trackers)
        reports = self._each(due, lambda tracker: self.vanished[tracker.uuid].check(now))
        checked = dict(zip((tracker.uuid for tracker in due), reports, strict=True))
        reports = [checked.get(uuid, node.last) for uuid, node in self.vanished.items()]
        for uuid, node in list(self.vanished.items()):
            if node.ended:
                del self.vanished[uuid]
                node.tracker.root.forget_saved_view()
                self.table.forget(uuid)
        if not self.vanished:
            self.table.take_over()
        return taken + [report for report in reports if report.done or report.conditions]


def _with_failed_reshape(report: Report) -> Report:
    """Return the report of a start, which a driver's failed reshape ends."""
    for name, err in report.driver_errors.items():
        if isinstance(err, ReshapeFailed):
            failed = ReshapeFailed(f"driver {name} could not move the allocations: {err}")
            return report.with_error(failed, fatal=True)
    return report
