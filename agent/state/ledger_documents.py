"""A ledger as documents, one for each provider, and back.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.ownership.ledger import Holders, Ledger, row_as_json, row_from_json
from agent.state.records import Key
from reportclient.model import canonical_uuid

KIND = "ledger"
SEEN = "seen"
"""The key of what is no provider's; it is there once a ledger was begun."""


def ledger_changes(before: Ledger, after: Ledger) -> tuple[dict[Key, Any], list[Key]]:
    """Documents that are new or others, and those that are gone; none of one not begun."""
    if after is before or not after.begun:
        return {}, []
    changed: dict[Key, Any] = {
        (KIND, uuid): row_as_json(row)
        for uuid, row in after.holders.items()
        if row is not before.holders.get(uuid) and row != before.holders.get(uuid)
    }
    if after.seen != before.seen or not before.begun:
        changed[KIND, SEEN] = sorted(after.seen)
    return changed, [(KIND, uuid) for uuid in before.holders if uuid not in after.holders]


def ledger_from(documents: Mapping[str, Any]) -> Ledger:
    """:raises ValueError: (or LookupError, TypeError, AttributeError) it is something else."""
    holders: dict[str, Holders] = {
        canonical_uuid(uuid, "provider"): row_from_json(row)
        for uuid, row in documents.items()
        if uuid != SEEN
    }
    return Ledger(holders, frozenset(map(str, documents[SEEN])), begun=True)
