"""Nodes that their driver does not name any more: noted, waited for, and let go.

One GET tells of all of them, and verifies the roots of all others: a listing of what
carries this service's tag.  A node is looked at when it has been gone for
``vanished_node_delay``, and again after the same time while it can't go.  Its providers are
removed only if

- its root still carries this service's tag: nobody else reports the node since;
- nothing was written to them since this agent saw them last;
- all of them are this agent's, and none has allocations.

Before the removal the tag is taken off, which Placement grants only if nobody else wrote in
between: a service that takes the node over at that moment is found out by it, or makes the
provider again.
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

WORTH_IT = 10
"""So many roots have to be due; fewer are asked for one by one."""


@dataclass(slots=True)
class Vanished:
    """A vanished node; ``due`` is the time of the next check, ``over`` whether it is done."""

    tracker: Tracker
    due: float
    wait: float
    over: bool = False
    kept: str | None = field(default=None)
    """Why its provider can't go."""

    def check(self, now: float) -> Report:
        """See whether it may go, and let it.  Never raises: the report tells."""
        self.due = now + self.wait
        report = self.tracker.attempt(now, self._check)
        return replace(report, degraded=self.report().degraded)

    def report(self) -> Report:
        """Return the report of a vanished node."""
        degraded = {} if self.kept is None else {"vanished": self.kept}
        return Report(self.tracker.node, degraded=degraded)

    def forget(self, why: str) -> None:
        """Forget the node, and log why."""
        LOG.info("Node %s vanished: %s", self.tracker.node, why)
        self.over, self.kept = True, None

    def _check(self, api: Counting) -> Report:
        tracker = self.tracker
        listed = members_of(tracker.uuid, api)
        if not any(item["uuid"] == tracker.uuid for item in listed):
            self.forget("its provider is gone already")
        elif self._was_written(listed):
            self._read_again(api)
        elif tracker.service_tag not in tracker.view.snapshot.providers[tracker.uuid].traits:
            self.forget("its provider lacks this service's tag, so it is not removed")
        else:
            self.kept = self._held_by(listed) or self._used_by(api)
            if self.kept is None:
                self._remove(api)
        return self.report()

    def _was_written(self, listed: list[Listed]) -> bool:
        view, root = self.tracker.view, self.tracker.uuid
        if root not in view.snapshot:
            return True
        seen = {each.uuid: view.generations.get(each.uuid) for each in view.snapshot.walk(root)}
        return {item["uuid"]: item["generation"] for item in listed} != seen

    def _read_again(self, api: Counting) -> None:
        """Somebody writes to it: another service, which has put its tag there, or anybody else."""
        tracker = self.tracker
        traits = traits_of(tracker.uuid, api)
        if tracker.service_tag not in traits:
            others = tags_of_others(traits, tracker.service_tag)
            self.forget("another service reports it now" if others else "its tag was removed")
            return
        tracker.root.read(api)
        self.kept = "not removed yet: its providers were read again, and may have been changed"

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
            self.forget("its provider was removed")
        elif outcome.done:
            tracker.root.send(Plan((SetTraits(root.uuid, root.traits),)), api)
            self.kept = "not removed: a guest has just begun to use it"


@dataclass(slots=True)
class Departures:
    """Vanished nodes, by UUID of their root."""

    by_uuid: dict[str, Vanished] = field(default_factory=dict)
    left: list[Tracker] = field(default_factory=list)
    """Noted just now."""
    searched: bool = False
    """Whether the state directory was searched for those of an earlier life."""

    def note(self, trackers: Mapping[str, Tracker], current: Iterable[str]) -> None:
        """Compare the nodes that there were with those that there are."""
        there = set(current)
        self.left += [one for uuid, one in trackers.items() if uuid not in there]

    def begin(self, now: float, rules: Rules, tag: str) -> None:
        """Begin to wait for those that were noted; what never carried the tag is left alone.

        Where nothing is known of a root, it is read before anything is removed.
        """
        noted, self.left = self.left, []
        for tracker in noted:
            root = tracker.view.snapshot.get(tracker.uuid)
            if root is None or tag in root.traits:
                self._await(tracker, now, rules)

    def _await(self, tracker: Tracker, now: float, rules: Rules) -> None:
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
        tracker.save_ledger()  # a full disk may not have taken it while the node was there

    def back(self, uuid: str) -> Tracker | None:
        """The tracker of a node that came back."""
        vanished = self.by_uuid.pop(uuid, None)
        if vanished is None:
            return None
        vanished.tracker.view = vanished.tracker.view.stale()
        return vanished.tracker

    def due(self, now: float) -> list[tuple[str, Vanished]]:
        """Those to be looked at now."""
        return [(uuid, one) for uuid, one in self.by_uuid.items() if now >= one.due]

    def compare(
        self,
        listed: Sequence[Listed],
        trackers: Mapping[str, Tracker],
        made: Callable[[str, str], Tracker],
        now: float,
    ) -> None:
        """With a listing of all providers that carry the tag.

        One that vanished and is not among them belongs to another service by now; one
        that nobody knows here was left behind by an earlier life of this one.
        """
        by_uuid = {item["uuid"]: item for item in listed}
        for uuid, one in self.due(now):
            if uuid not in by_uuid:
                one.forget("another service reports it now, or its provider is gone")
        for uuid, item in by_uuid.items():
            if uuid not in trackers and uuid not in self.by_uuid:
                tracker = made(uuid, item["name"])
                self._await(tracker, now, tracker.rules)

    def finished(self) -> Iterator[str]:
        """UUIDs of those that are settled; nothing of them is kept."""
        for uuid, one in list(self.by_uuid.items()):
            if one.over:
                del self.by_uuid[uuid]
                one.tracker.forget()
                yield uuid


def roll_call(
    trackers: Sequence[Tracker], departures: Departures, tag: str, api: API, now: float
) -> list[Listed] | None:
    """Verify all roots that have nothing below them, if enough are due; the listing.

    ``None`` if it was not worth it, or got no answer: the roots are then verified one by
    one, as those are that have changed or have children.
    """
    alone = [one for one in trackers if one.is_alone()]
    due = sum(one.root.is_due(now) for one in alone)
    if due < WORTH_IT and len(departures.due(now)) < WORTH_IT:
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
