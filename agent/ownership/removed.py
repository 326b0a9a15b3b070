"""Claims that were removed, kept in case a restored Placement brings them back.  Pure.

Generations only grow.  What was removed by a provider's generation, and is there under an
earlier one, is in a state from before it was removed: it is this host's still, and is
released once more.  Under a later one somebody else has made it.  Of a provider that was
deleted the UUID says enough, below this host's root.
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
"""Providers of one root of which it is cache; then the first ones are forgotten."""


def with_restored(ledger: Ledger, view: View, root: str) -> Ledger:
    """With what is there again though it was removed, as nobody's who is configured."""
    for uuid, removed in ledger.removed.items():
        if uuid not in view.snapshot or view.snapshot.root_of(uuid) != root:
            continue
        if removed.generation is None or view.generations.get(uuid, 0) < removed.generation:
            back = removed.holding.within(view.snapshot.providers[uuid])
            back = back.without(joined(ledger.holdings_on(uuid).values()))
            ledger = ledger if back == NONE else ledger.adding(RESTORED, uuid, back)
    return ledger


def noting_removed(after: Ledger, before: Ledger, view: View, theirs: str | None = None) -> Ledger:
    """``after``, with what was held ``before`` and is held and there no more.

    Not of another service's root (``theirs``): who owns it may delete it and make it anew.
    """
    kept = {uuid: one for uuid, old in before.removed.items() if (one := _still(uuid, old, view))}
    for uuid in (one for one in after.changed_since(before) if one != theirs):
        held = joined(
            one for who, one in before.holdings_on(uuid).items() if who not in (AGENT, STATUS)
        )
        old = kept.pop(uuid, None)
        gone = held if old is None else held.joined(old.holding)
        gone = gone.without(gone.within(view.snapshot.get(uuid)))
        gone = gone.without(joined(after.holdings_on(uuid).values()))
        if gone != NONE:
            kept[uuid] = Removed(view.generations.get(uuid), gone)
    kept = dict(islice(kept.items(), max(0, len(kept) - MOST), None))
    return after if kept == after.removed else replace(after, removed=kept)


def _still(uuid: str, removed: Removed, view: View) -> Removed | None:
    """Return the removal as seen by now; none for a provider that was created or deleted since."""
    provider, now = view.snapshot.get(uuid), view.generations.get(uuid)
    if (provider is None) != (removed.generation is None):
        return None
    if now is None or removed.generation is None or now >= removed.generation:
        return removed
    absent: Holding = removed.holding.without(removed.holding.within(provider))
    return None if absent == NONE else Removed(now, absent)
