"""A view as documents, one for each provider, and back.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.state.records import Key
from reportclient.saved_view import besides_providers, provider_row, view_of
from reportclient.view import View

KIND = "view"


def view_changes(before: View, after: View) -> tuple[dict[Key, Any], list[Key]]:
    """Documents that are new or others, and those that are gone."""
    changed: dict[Key, Any] = {}
    if not _same_besides(before, after):
        rest = _rest(before)
        changed = {(KIND, key): one for key, one in _rest(after).items() if one != rest[key]}
    if after.snapshot is before.snapshot and after.generations == before.generations:
        return changed, []
    known, generations = before.snapshot.providers, before.generations
    for uuid, provider in after.snapshot.providers.items():
        was, generation = known.get(uuid), after.generations.get(uuid)
        same = was is provider or was == provider
        if not same or generations.get(uuid) != generation:
            changed[KIND, uuid] = [provider_row(provider), generation]
    return changed, [(KIND, uuid) for uuid in known if uuid not in after.snapshot.providers]


def view_from(documents: Mapping[str, Any]) -> View:
    """The view; it still has to be verified: it is not ``certain``.

    :raises ValueError: (or LookupError, TypeError, AttributeError) it is something else.
    """
    rest = _rest(View())
    rows = {uuid: row for uuid, row in documents.items() if uuid not in rest}
    found = {name: documents.get(name, value) for name, value in rest.items()}
    generations = {uuid: row[1] for uuid, row in rows.items() if row[1] is not None}
    providers = [row[0] for row in rows.values()]
    return view_of({**found, "generations": generations, "providers": providers})


def _rest(view: View) -> dict[str, Any]:
    return {name: one for name, one in besides_providers(view).items() if name != "generations"}


def _same_besides(one: View, other: View) -> bool:
    return (
        one.known == other.known
        and one.strangers == other.strangers
        and one.made == other.made
        and one.drained == other.drained
    )
