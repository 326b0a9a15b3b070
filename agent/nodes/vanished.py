"""A node that its driver does not name any more: when its provider may go, and when not.

It is looked at when it has been gone for ``vanished_node_delay``, and again after the
same time while it can't go.  Its providers are removed only if

- its root still carries this service's mark: nobody else reports the node since;
- nothing was written to them since this agent knew them last;
- all of them are this agent's, and none has allocations.

Before the removal the marks are taken off, which Placement grants only if nobody else
wrote in between: a service that takes the node over at that moment is found out by it,
or makes the provider again.
"""

import logging
from dataclasses import dataclass, field, replace

from agent.period.mark import marks_of_others
from agent.period.tracker import Tracker
from agent.told.reports import Report
from reportclient.counting import Counting
from reportclient.plan import DeleteProvider, Plan, SetTraits
from reportclient.reader import Listed, consumers_of, members_of, traits_of

LOG = logging.getLogger(__name__)

SHOWN = 5
"""How many consumers are named."""


@dataclass(slots=True)
class Vanished:
    """One of them; ``due`` is when it is looked at next, ``over`` when there is no more to do."""

    tracker: Tracker
    due: float
    wait: float
    over: bool = False
    kept: str | None = field(default=None)
    """Why its provider can't go."""

    def look(self, now: float) -> Report:
        """See whether it may go, and let it.  Never raises: the report tells."""
        self.due = now + self.wait
        report = self.tracker.attempt(now, self._look)
        return replace(report, degraded=self.report().degraded)

    def report(self) -> Report:
        """What is to be told of it."""
        degraded = {} if self.kept is None else {"vanished": self.kept}
        return Report(self.tracker.node, degraded=degraded)

    def forget(self, why: str) -> None:
        """It is not this service's any more."""
        LOG.info("Node %s vanished here: %s", self.tracker.node, why)
        self.over, self.kept = True, None

    def _look(self, api: Counting) -> Report:
        tracker = self.tracker
        listed = members_of(tracker.uuid, api)
        if not any(item["uuid"] == tracker.uuid for item in listed):
            self.forget("its provider is gone already")
        elif self._was_written(listed):
            self._read_again(api)
        elif tracker.mark not in tracker.view.snapshot.providers[tracker.uuid].traits:
            self.forget("its provider carries no mark of this service and is left alone")
        else:
            self.kept = self._held_by(listed) or self._used_by(api)
            if self.kept is None:
                self._remove(api)
        return self.report()

    def _was_written(self, listed: list[Listed]) -> bool:
        view, root = self.tracker.view, self.tracker.uuid
        if root not in view.snapshot:
            return True
        known = {each.uuid: view.generations.get(each.uuid) for each in view.snapshot.walk(root)}
        return {item["uuid"]: item["generation"] for item in listed} != known

    def _read_again(self, api: Counting) -> None:
        """Somebody writes to it: another service, which has put its mark there, or a stranger."""
        tracker = self.tracker
        traits = traits_of(tracker.uuid, api)
        if tracker.mark not in traits:
            others = marks_of_others(traits, tracker.mark)
            self.forget("another service reports it now" if others else "its mark was taken off")
            return
        tracker.root.read(api)
        self.kept = "vanished, and somebody wrote to its providers meanwhile: looked at again later"

    def _held_by(self, listed: list[Listed]) -> str | None:
        root, ledger = self.tracker.uuid, self.tracker.ledger
        for item in listed:
            uuid, name = item["uuid"], item["name"]
            if uuid != root and not ledger.is_ours(uuid):
                return f"vanished, and is kept: {name} ({uuid}) below it is somebody else's"
        return None

    def _used_by(self, api: Counting) -> str | None:
        snapshot = self.tracker.view.snapshot
        stocked = [each.uuid for each in snapshot.walk(self.tracker.uuid) if each.inventory]
        users = sorted({user for uuid in stocked for user in consumers_of(uuid, api)})
        if not users:
            return None
        more = f" and {len(users) - SHOWN} more" if len(users) > SHOWN else ""
        return f"vanished, and is kept: in use by {', '.join(users[:SHOWN])}{more}"

    def _remove(self, api: Counting) -> None:
        tracker = self.tracker
        root = tracker.view.snapshot.providers[tracker.uuid]
        ours = {tracker.mark, *tracker.rules.owner_traits}
        below = [each.uuid for each in tracker.view.snapshot.walk(root.uuid)]
        deletes = (DeleteProvider(uuid) for uuid in reversed(below))
        plan = Plan((SetTraits(root.uuid, root.traits - ours), *deletes))
        outcome = tracker.root.send(plan, api)
        if root.uuid not in tracker.view.snapshot:
            self.forget("its provider is removed")
        elif outcome.done:
            tracker.root.send(Plan((SetTraits(root.uuid, root.traits),)), api)
            self.kept = "vanished, and is kept: it came to be used just now"
