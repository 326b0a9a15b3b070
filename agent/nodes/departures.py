"""Remove the providers of vanished nodes: nodes that the driver does not name any more.

One GET of the providers with this service's tag finds them, and verifies the roots of the other
nodes.  A vanished node is checked after ``vanished_node_delay``, and again after the same time
while its providers can't be removed.  They are removed only if

- the root still has this service's tag: no other service reports the node;
- the providers have not changed since this agent read them;
- all providers are this agent's, and none has allocations.

First the tag is removed, with the generation that was read: a service that takes the node over at
this moment causes a conflict, or creates the provider again.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.period.rules import Rules
from agent.period.service_tag import tags_of_others
from agent.period.tracker import Tracker
from agent.reporting.reports import Report
from reportclient.calls import Counting
from reportclient.errors import PlacementError
from reportclient.explain import list_consumers
from reportclient.http import API
from reportclient.plan import DeleteProvider, Plan, SetTraits
from reportclient.reader import Listed, consumers_of, members_of, providers_with_trait, traits_of

LOG = logging.getLogger(__name__)

MIN_DUE_FOR_LISTING = 10
"""Number of due roots from which one listing is used; fewer are verified one by one."""


@dataclass(slots=True)
class Vanished:
    """A vanished node.

    ``due`` is the time of the next check (monotonic), ``wait`` the seconds between two checks,
    ``settled`` whether nothing is left to do.
    """

    tracker: Tracker
    due: float
    wait: float
    settled: bool = False
    blocked_by: str | None = field(default=None)
    """Why its provider was not removed."""

    def check(self, now: float) -> Report:
        """Remove the node's providers if that is safe (see above).  Errors are in the report."""
        self.due = now + self.wait
        report = self.tracker.attempt(now, self._check)
        return replace(report, degraded=self.report().degraded)

    def report(self) -> Report:
        """Return the report of a vanished node."""
        degraded = {} if self.blocked_by is None else {"vanished": self.blocked_by}
        return Report(self.tracker.node, degraded=degraded)

    def settle(self, why: str) -> None:
        """Mark the node as settled; ``why`` is logged."""
        LOG.info("Node %s vanished: %s", self.tracker.node, why)
        self.settled, self.blocked_by = True, None

    def _check(self, api: Counting) -> Report:
        tracker = self.tracker
        listed = members_of(tracker.uuid, api)
        if not any(item["uuid"] == tracker.uuid for item in listed):
            self.settle("its provider was deleted already")
        elif self._was_written(listed):
            self._read_again(api)
        elif tracker.service_tag not in tracker.view.snapshot.providers[tracker.uuid].traits:
            self.settle("its provider lacks this service's tag, so it is not removed")
        else:
            self.blocked_by = self._held_by(listed) or self._used_by(api)
            if self.blocked_by is None:
                self._remove(api)
        return self.report()

    def _was_written(self, listed: list[Listed]) -> bool:
        view, root = self.tracker.view, self.tracker.uuid
        if root not in view.snapshot:
            return True
        seen = {each.uuid: view.generations.get(each.uuid) for each in view.snapshot.walk(root)}
        return {item["uuid"]: item["generation"] for item in listed} != seen

    def _read_again(self, api: Counting) -> None:
        """Read the providers again; settle the node if its root lost this service's tag."""
        tracker = self.tracker
        traits = traits_of(tracker.uuid, api)
        if tracker.service_tag not in traits:
            others = tags_of_others(traits, tracker.service_tag)
            self.settle("another service reports it now" if others else "its tag was removed")
            return
        tracker.root.read(api)
        self.blocked_by = (
            "not removed yet: its providers may have been changed, and are checked again"
        )

    def _held_by(self, listed: list[Listed]) -> str | None:
        root, ledger = self.tracker.uuid, self.tracker.ledger
        for item in listed:
            uuid, name = item["uuid"], item["name"]
            if uuid != root and not ledger.is_ours(uuid):
                return f"not removed: {name} ({uuid}) below it is owned by another service"
        return None

    def _used_by(self, api: Counting) -> str | None:
        snapshot = self.tracker.view.snapshot
        stocked = [each.uuid for each in snapshot.walk(self.tracker.uuid) if each.inventory]
        consumers = sorted({user for uuid in stocked for user in consumers_of(uuid, api)})
        return f"not removed: in use by {list_consumers(consumers)}" if consumers else None

    def _remove(self, api: Counting) -> None:
        tracker = self.tracker
        root = tracker.view.snapshot.providers[tracker.uuid]
        ours = {tracker.service_tag, *tracker.rules.owner_traits}
        below = [each.uuid for each in tracker.view.snapshot.walk(root.uuid)]
        deletes = (DeleteProvider(uuid) for uuid in reversed(below))
        plan = Plan((SetTraits(root.uuid, root.traits - ours), *deletes))
        outcome = tracker.root.send(plan, api)
        if root.uuid not in tracker.view.snapshot:
            self.settle("its provider was removed")
        elif outcome.done:
            tracker.root.send(Plan((SetTraits(root.uuid, root.traits),)), api)
            self.blocked_by = "not removed: a guest has just begun to use it"


@dataclass(slots=True)
class Departures:
    """Vanished nodes, by UUID of their root."""

    by_uuid: dict[str, Vanished] = field(default_factory=dict)
    newly_vanished: list[Tracker] = field(default_factory=list)
    """Trackers of nodes that vanished in this period."""
    searched: bool = False
    """Whether the state directory was searched for nodes that vanished before this start."""

    def note(self, trackers: Mapping[str, Tracker], current: Iterable[str]) -> None:
        """Record the nodes whose root (UUID) is not in ``current`` as vanished."""
        present = set(current)
        self.newly_vanished += [
            tracker for uuid, tracker in trackers.items() if uuid not in present
        ]

    def begin(self, now: float, rules: Rules, tag: str) -> None:
        """Schedule the checks of newly vanished nodes, unless their root lacks the tag.

        A root that is not in its tracker's view is read before anything is removed.
        """
        vanished, self.newly_vanished = self.newly_vanished, []
        for tracker in vanished:
            root = tracker.view.snapshot.get(tracker.uuid)
            if root is None or tag in root.traits:
                self._schedule_check(tracker, now, rules)

    def _schedule_check(self, tracker: Tracker, now: float, rules: Rules) -> None:
        wait = rules.node_wait
        if wait is None:
            LOG.info("Node %s vanished: its provider is not removed", tracker.node)
            return
        LOG.info(
            "Node %s vanished: its provider will be removed in %.0f s, unless the node comes back "
            "or another service reports it",
            tracker.node,
            wait,
        )
        self.by_uuid[tracker.uuid] = Vanished(tracker, now + wait, wait)
        tracker.save_ledger()  # an earlier write may have failed, as on a full disk

    def take_back(self, uuid: str) -> Tracker | None:
        """Return the tracker of a vanished node that the driver names again, or ``None``."""
        vanished = self.by_uuid.pop(uuid, None)
        if vanished is None:
            return None
        vanished.tracker.view = vanished.tracker.view.stale()
        return vanished.tracker

    def due(self, now: float) -> list[tuple[str, Vanished]]:
        """Return the vanished nodes whose check is due, with the UUIDs of their roots."""
        return [(uuid, node) for uuid, node in self.by_uuid.items() if now >= node.due]

    def compare(
        self,
        listed: Sequence[Listed],
        trackers: Mapping[str, Tracker],
        create_tracker: Callable[[str, str], Tracker],
        now: float,
    ) -> None:
        """Compare the vanished nodes with ``listed``, all providers that carry the tag.

        A due node that is not listed is settled: another service reports it, or its provider is
        gone.  A listed provider that is no node of this host is from an earlier run, and becomes a
        vanished node; ``create_tracker`` gets its UUID and name.
        """
        by_uuid = {item["uuid"]: item for item in listed}
        for uuid, node in self.due(now):
            if uuid not in by_uuid:
                node.settle("another service reports it now, or its provider is gone")
        for uuid, item in by_uuid.items():
            if uuid not in trackers and uuid not in self.by_uuid:
                tracker = create_tracker(uuid, item["name"])
                self._schedule_check(tracker, now, tracker.rules)

    def finished(self) -> Iterator[str]:
        """Remove the settled nodes and their saved state; yield the UUIDs of their roots."""
        for uuid, node in list(self.by_uuid.items()):
            if node.settled:
                del self.by_uuid[uuid]
                node.tracker.forget()
                yield uuid


def verify_by_listing(
    trackers: Sequence[Tracker], departures: Departures, tag: str, api: API, now: float
) -> list[Listed] | None:
    """Verify all roots without children by one listing of ``tag``; return the listing.

    Return ``None`` if fewer than ``MIN_DUE_FOR_LISTING`` roots or vanished nodes are due, or the
    request failed.  Other roots, and changed ones, are verified one by one.
    """
    alone = [tracker for tracker in trackers if tracker.is_alone()]
    due = sum(tracker.root.is_due(now) for tracker in alone)
    if due < MIN_DUE_FOR_LISTING and len(departures.due(now)) < MIN_DUE_FOR_LISTING:
        return None
    try:
        listed = providers_with_trait(tag, api)
    except PlacementError as err:
        LOG.debug("The roots of this service could not be listed: %s", err)
        return None
    by_uuid = {item["uuid"]: item for item in listed}
    for tracker in alone:
        tracker.root.verified(by_uuid.get(tracker.uuid), now)
    return listed
