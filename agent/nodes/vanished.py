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
from dataclasses import dataclass, replace

from agent.period.tracker import Tracker
from agent.period.traits import tags_of_others
from agent.reporting.reports import Report
from reportclient.allocations import LazyAllocations
from reportclient.calls import Counting
from reportclient.plain_text import first_few
from reportclient.plan import DeleteProvider, Plan, SetTraits
from reportclient.reader import Listed, members_of, read_part

LOG = logging.getLogger("compute_agent.placement")


@dataclass(slots=True)
class Vanished:
    """A vanished node.

    ``tag`` is this service's.  ``due`` is the time of the next check (monotonic), ``wait`` the
    seconds between two checks, ``settled`` whether nothing is left to do.
    """

    tracker: Tracker
    tag: str
    due: float
    wait: float
    settled: bool = False
    blocked_by: str | None = None
    """Why its provider was not removed."""

    def announce(self, now: float) -> None:
        """Log when the node's provider will be removed, and wait until then."""
        self.due = now + self.wait
        LOG.info(
            "Node %s vanished: its provider will be removed in %.0f s, unless the node comes back "
            "or another service reports it",
            self.tracker.node,
            self.wait,
        )

    def check(self, now: float) -> Report:
        """Remove the node's providers if that is safe (see above).  Errors are in the report."""
        self.due, self.tracker.service_tag = now + self.wait, self.tag
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
        tracker, view, uuid = self.tracker, self.tracker.view, self.tracker.uuid
        root = view.snapshot.get(uuid)
        below = [] if root is None else [each.uuid for each in view.snapshot.walk(uuid)]
        seen = {each: view.generations.get(each) for each in below}
        listed = members_of(uuid, api)
        if not any(item["uuid"] == uuid for item in listed):
            self.settle("Placement has no provider of it")
        elif root is None or {item["uuid"]: item["generation"] for item in listed} != seen:
            self._read_again(api)
        elif tracker.service_tag not in root.traits:
            self.settle("its provider lacks this service's tag, so it is not removed")
        else:
            self.blocked_by = self._why_not_removed(listed, api)
            if self.blocked_by is None:
                self._remove(api)
        return self.report()

    def _read_again(self, api: Counting) -> None:
        """Read the providers again; settle the node if its root lost this service's tag."""
        tracker = self.tracker
        traits, _ = read_part(tracker.uuid, "traits", api)
        if tracker.service_tag not in traits:
            others = tags_of_others(traits, tracker.service_tag)
            self.settle("another service reports it now" if others else "its tag was removed")
            return
        was_known = tracker.uuid in tracker.view.snapshot
        tracker.root.read(api)
        if was_known:
            self.blocked_by = (
                "not removed yet: its providers may have been changed, and are checked again"
            )
        else:
            self.announce(self.due - self.wait)

    def _why_not_removed(self, listed: list[Listed], api: Counting) -> str | None:
        root, tracker = self.tracker.uuid, self.tracker
        for item in listed:
            uuid, name = item["uuid"], item["name"]
            if uuid != root and not tracker.ledger.is_ours(uuid):
                return f"not removed: {name} ({uuid}) below it is owned by another service"
        consumers = sorted(LazyAllocations(tracker.view, api))
        return f"not removed: in use by {first_few(consumers)}" if consumers else None

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
