"""Remove the providers of vanished nodes: nodes that the driver does not name any more.

A vanished node is checked after ``vanished_node_delay``, and again after the same time while it has
providers.  A check is a period in which nothing is claimed, so that what is the node's leaves as
everything else does (:mod:`agent.ownership.reconcile`): its inventory goes in one period, what
nobody else uses in the next one.

The root keeps this service's tag until it is deleted.  Without the tag, another service reports the
node: it is ended.  A service that takes the node over while its inventory goes causes a conflict;
one that does so later creates the provider again.
"""

import logging
from dataclasses import dataclass, replace

from agent.period.tracker import Tracker
from agent.reporting.reports import Report
from reportclient.reader import provider_by_uuid
from reportclient.root import Counting

LOG = logging.getLogger("compute_agent.placement")


@dataclass(slots=True)
class Vanished:
    """A vanished node.

    ``due`` is the time of the next check (monotonic), ``wait`` the seconds between two checks,
    ``last`` the last one, ``ended`` whether nothing is left to do.
    """

    tracker: Tracker
    due: float
    wait: float
    last: Report
    ended: bool = False

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
        """Take the next step of removing the node's providers.  Errors are in the report."""
        self.due, tracker = now + self.wait, self.tracker
        tracker.root.schedule.verify_at = 0.0  # read first: another service may report it
        report = tracker.attempt(now, self._check)
        if report.done:
            self.due = now
        if tracker.view.certain and tracker.uuid not in tracker.view.snapshot and report.done:
            self.end("its provider was removed")
        self.last = replace(report, calls=0, done=())
        return report

    def end(self, why: str) -> None:
        """Mark the node as ended; ``why`` is logged."""
        LOG.info("Node %s vanished: %s", self.tracker.node, why)
        self.ended = True

    def _check(self, api: Counting) -> Report:
        tracker = self.tracker
        was_known = tracker.uuid in tracker.view.snapshot
        tracker.root.refresh(api, api.now)
        root = tracker.view.snapshot.get(tracker.uuid)
        if root is None:
            if provider_by_uuid(tracker.uuid, api) is None:  # else a listing without it was wrong
                self.end("Placement has no provider of it")
        elif tracker.service_tag not in root.traits:
            self.end("its provider has this service's tag no more: another one reports it")
        elif was_known:
            return tracker.once(api)
        else:
            self.announce(api.now)
        return Report(tracker.node)
