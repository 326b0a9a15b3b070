"""Nodes that vanished from this service: noted, waited for, and let go.

One GET tells of all of them, and verifies the roots of all others: a listing of what
carries this service's mark.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agent.nodes.vanished import Vanished
from agent.period.rules import Rules
from agent.period.tracker import Tracker
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.reader import Listed, providers_with

LOG = logging.getLogger(__name__)

WORTH_IT = 10
"""So many roots have to be due; fewer are asked for one by one."""


@dataclass(slots=True)
class Departures:
    """By the UUID of their root."""

    by_uuid: dict[str, Vanished] = field(default_factory=dict)
    left: list[Tracker] = field(default_factory=list)
    """Noted just now."""
    searched: bool = False
    """Whether the state directory was searched for those of an earlier life."""

    def note(self, trackers: Mapping[str, Tracker], found: Iterable[str]) -> None:
        """Compare the nodes that there were with those that there are."""
        there = set(found)
        self.left += [one for uuid, one in trackers.items() if uuid not in there]

    def begin(self, now: float, rules: Rules, mark: str) -> None:
        """Begin to wait for those that were noted; what never carried the mark is left alone."""
        noted, self.left = self.left, []
        for tracker in noted:
            root = tracker.view.snapshot.get(tracker.uuid)
            if root is not None and mark in root.traits:
                self._await(tracker, now, rules)

    def _await(self, tracker: Tracker, now: float, rules: Rules) -> None:
        wait = removal_wait(rules)
        if wait is None:
            LOG.info("Node %s vanished: its provider is left as it is", tracker.node)
            return
        LOG.info(
            "Node %s vanished: its provider is removed in %.0f s, unless it comes back or "
            "another service reports it",
            tracker.node,
            wait,
        )
        self.by_uuid[tracker.uuid] = Vanished(tracker, now + wait, wait)

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
        """With a listing of all providers that carry the mark.

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


def removal_wait(rules: Rules) -> float | None:
    """Seconds between vanishing and removal; ``None``: nothing is removed.

    Long enough for the service that took the node over to have put its mark there: at
    least two of its verifications, if it is configured as this one.  Where nothing is
    verified nobody would see that his mark was replaced.
    """
    if rules.remove_after is None or rules.verify_every is None:
        return None
    return max(rules.remove_after, 2.5 * rules.verify_every)


def roll_call(
    trackers: Sequence[Tracker], departures: Departures, mark: str, api: API, now: float
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
        listed = providers_with(mark, api)
    except PlacementError as err:
        LOG.debug("No roll call: %s", err)
        return None
    by_uuid = {item["uuid"]: item for item in listed}
    for tracker in alone:
        tracker.root.verified(by_uuid.get(tracker.uuid), now)
    return listed
