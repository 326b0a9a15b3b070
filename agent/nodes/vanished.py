"""Vanished nodes, those that their driver does not name any more: remove their providers.

One GET, which lists the providers with this service's tag, shows all of them and verifies the roots
of the other nodes.  A node is checked when it has been gone for ``vanished_node_delay``, and after
the same time again while its providers can't be removed.  They are removed only if

- its root still carries this service's tag, so that no other service reports the node;
- nothing was written to them since this agent read them last;
- all of them are this agent's, and none has allocations.

The tag is removed before the providers, with the generation that was read.  A service that takes
the node over at that moment causes a conflict, or creates the provider again.
"""

import logging
from dataclasses import dataclass, replace

from agent.period.tracker import Tracker
from agent.period.traits import tags_of_others
from agent.reporting.reports import Report
from reportclient.calls import Counting
from reportclient.explain import list_consumers
from reportclient.plan import DeleteProvider, Plan, SetTraits
from reportclient.reader import Listed, consumers_of, members_of, traits_of

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Vanished:
    """A vanished node.

    ``due`` is the time of the next check (monotonic), ``wait`` the seconds between two checks,
    ``over`` whether the node is settled.
    """

    tracker: Tracker
    due: float
    wait: float
    over: bool = False
    blocked_by: str | None = None
    """Why its provider was not removed."""

    def check(self, now: float) -> Report:
        """Remove the node's providers if that is safe.  Errors are in the report."""
        self.due = now + self.wait
        report = self.tracker.attempt(now, self._check)
        return replace(report, degraded=self.report().degraded)

    def report(self) -> Report:
        """Return the report of a vanished node."""
        degraded = {} if self.blocked_by is None else {"vanished": self.blocked_by}
        return Report(self.tracker.node, degraded=degraded)

    def forget(self, why: str) -> None:
        """Settle the node: nothing of it is left to do here.  ``why`` is logged."""
        LOG.info("Node %s vanished: %s", self.tracker.node, why)
        self.over, self.blocked_by = True, None

    def _check(self, api: Counting) -> Report:
        tracker, view, uuid = self.tracker, self.tracker.view, self.tracker.uuid
        root = view.snapshot.get(uuid)
        below = [] if root is None else [each.uuid for each in view.snapshot.walk(uuid)]
        seen = {each: view.generations.get(each) for each in below}
        listed = members_of(uuid, api)
        if not any(item["uuid"] == uuid for item in listed):
            self.forget("its provider is gone already")
        elif root is None or {item["uuid"]: item["generation"] for item in listed} != seen:
            self._read_again(api)
        elif tracker.service_tag not in root.traits:
            self.forget("its provider lacks this service's tag, so it is not removed")
        else:
            self.blocked_by = self._why_not_removed(listed, api)
            if self.blocked_by is None:
                self._remove(api)
        return self.report()

    def _read_again(self, api: Counting) -> None:
        """Read the providers again; settle the node if its root lost this service's tag."""
        tracker = self.tracker
        traits = traits_of(tracker.uuid, api)
        if tracker.service_tag not in traits:
            others = tags_of_others(traits, tracker.service_tag)
            self.forget("another service reports it now" if others else "its tag was removed")
            return
        tracker.root.read(api)
        self.blocked_by = "not removed yet: its providers were read again and may have been changed"

    def _why_not_removed(self, listed: list[Listed], api: Counting) -> str | None:
        root, tracker = self.tracker.uuid, self.tracker
        for item in listed:
            uuid, name = item["uuid"], item["name"]
            if uuid != root and not tracker.ledger.is_ours(uuid):
                return f"not removed: {name} ({uuid}) below it is owned by another service"
        stocked = [each.uuid for each in tracker.view.snapshot.walk(root) if each.inventory]
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
            self.blocked_by = "not removed: a guest has just begun to use it"
