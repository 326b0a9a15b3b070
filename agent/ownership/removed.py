"""Claims that were removed, kept in case a restored Placement brings them back.  Pure.

Generations only grow.  So a removed claim that Placement has again is compared by the provider's
generation.  If that is lower than at the removal, Placement was restored to an older state: the
claim is still this host's, and is removed again.  If it is not lower, another service has set it.
A deleted provider that is below this host's root again is recognized by its UUID alone.
"""

from dataclasses import replace
from itertools import islice

from agent.ownership.ledger import (
    AGENT,
    NONE,
    RESTORED,
    STATUS,
    Holding,
    Ledger,
    Removed,
    joined,
)
from reportclient.view import View

MOST = 256
"""Providers per root whose removed claims are remembered; beyond it the oldest are dropped."""


def with_restored(ledger: Ledger, view: View, root: str) -> Ledger:
    """Return the ledger with the removed claims that Placement has again, as RESTORED's."""
    for uuid, removed in ledger.removed.items():
        if uuid not in view.snapshot or view.snapshot.root_of(uuid) != root:
            continue
        if removed.generation is None or view.generations.get(uuid, 0) < removed.generation:
            back = removed.holding.within(view.snapshot.providers[uuid])
            back = back.without(joined(ledger.holdings_on(uuid).values()))
            ledger = ledger if back == NONE else ledger.adding(RESTORED, uuid, back)
    return ledger


def noting_removed(after: Ledger, before: Ledger, view: View, theirs: str | None = None) -> Ledger:
    """Return ``after`` with the removed claims: held ``before``, now neither held nor in Placement.

    Claims on ``theirs``, another service's root, are left out: that service may delete its root
    and create it again.
    """
    removed = {
        uuid: still for uuid, old in before.removed.items() if (still := _still(uuid, old, view))
    }
    for uuid in (uuid for uuid in after.changed_since(before) if uuid != theirs):
        held = joined(
            one for who, one in before.holdings_on(uuid).items() if who not in (AGENT, STATUS)
        )
        old = removed.pop(uuid, None)
        gone = held if old is None else held.joined(old.holding)
        gone = gone.without(gone.within(view.snapshot.get(uuid)))
        gone = gone.without(joined(after.holdings_on(uuid).values()))
        if gone != NONE:
            removed[uuid] = Removed(view.generations.get(uuid), gone)
    removed = dict(islice(removed.items(), max(0, len(removed) - MOST), None))
    return after if removed == after.removed else replace(after, removed=removed)


def _still(uuid: str, removed: Removed, view: View) -> Removed | None:
    """Return a removal, up to date with the view; none if the provider was created or deleted."""
    provider, now = view.snapshot.get(uuid), view.generations.get(uuid)
    if (provider is None) != (removed.generation is None):
        return None
    if now is None or removed.generation is None or now >= removed.generation:
        return removed
    absent: Holding = removed.holding.without(removed.holding.within(provider))
    return None if absent == NONE else Removed(now, absent)
