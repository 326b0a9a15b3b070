"""Operations in words, for log, status and plan, and the names of their kinds.  Pure."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import assert_never

from reportclient import plan as ops
from reportclient.plain_text import first_few

_NAMED = 3
"""Number of providers of a group that are named."""
_VERBS = {
    "create": ("create", "created"),
    "delete": ("delete", "deleted"),
    "move": ("move", "moved"),
    "rename": ("rename", "renamed"),
    "reshape": ("reshape", "reshaped"),
    "set": ("set", "set"),
    "define": ("create", "created"),
}
"""Verbs of planned and of finished changes, in the order of the line: what matters first."""
_PLURALS = {
    "provider": "providers",
    "inventory": "inventories",
    "traits": "traits",
    "aggregates": "aggregates",
    "resource class": "resource classes",
    "trait": "traits",
}
"""Nouns, in the order of a group."""
_WHOLE = ("traits", "aggregates")
"""Parts that a provider has once: ``the traits of 2 providers``."""
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def snake_case(name: str) -> str:
    """Return the name of a class in snake case: ``set_inventory``."""
    return _WORDS.sub("_", name).lower()


def kind(operation: ops.Operation) -> str:
    """Return an operation's kind for programs: ``create_provider``, ``set_traits`` …"""
    return snake_case(type(operation).__name__)


def summary(
    operations: Collection[ops.Operation], names: Mapping[str, str], *, planned: bool = False
) -> str:
    """Return what the operations did, or will do if ``planned``; empty if there are none.

    Names up to three providers of each group, and created providers once.

    :param names: of the providers, by UUID.

    >>> names = {"u1": "gpu0", "u2": "gpu1", "u3": "host1"}
    >>> created = [ops.CreateProvider(uuid, names[uuid], "u3") for uuid in ("u1", "u2")]
    >>> traits = [ops.SetTraits(uuid, frozenset()) for uuid in names]
    >>> summary([*created, *traits], names)
    'created 2 providers (gpu0, gpu1), set the traits of 3 (host1 and 2 new)'
    """
    groups: dict[str, dict[str, dict[str, None]]] = {}
    for operation in operations:
        for verb, noun, subject in _steps(operation):
            groups.setdefault(verb, {}).setdefault(noun, {})[subject] = None
    created = groups.get("create", {}).get("provider", {})
    parts: list[str] = []
    for verb in filter(groups.__contains__, _VERBS):
        group, counts = groups[verb], list[str]()
        for noun in filter(group.__contains__, _PLURALS):
            counts.append(_counted(noun, len(group[noun]), alone=not parts and not counts))
        concerned = dict.fromkeys(each for subjects in group.values() for each in subjects)
        known = created if verb in ("reshape", "set") else {}
        named = [names.get(each, each) for each in concerned if each not in known]
        new = f" and {len(concerned) - len(named)} new" if concerned.keys() & known else ""
        few = f" ({first_few(named, _NAMED)}{new})" if named and verb != "define" else ""
        what = " and ".join(filter(None, (", ".join(counts[:-1]), counts[-1])))
        parts.append(f"{_VERBS[verb][not planned]} {what}{few}")
    return ", ".join(parts)


def _counted(noun: str, number: int, *, alone: bool) -> str:
    """Return ``2 inventories``, ``the traits of 2``; ``alone``: ``the traits of 2 providers``."""
    if noun in _WHOLE:
        return f"the {noun} of " + (
            _counted("provider", number, alone=True) if alone else f"{number}"
        )
    return f"{number} {noun if number == 1 else _PLURALS[noun]}"


def _steps(operation: ops.Operation) -> Iterator[tuple[str, str, str]]:  # noqa: C901  a case a kind
    """Yield verb, noun and subject of each change of an operation."""
    match operation:
        case ops.CreateProvider(uuid):
            yield "create", "provider", uuid
        case ops.DeleteProvider(uuid):
            yield "delete", "provider", uuid
        case ops.UpdateProvider(uuid, moved=moved):
            yield "move" if moved else "rename", "provider", uuid
        case ops.Reshape(inventories):
            yield from (("reshape", "provider", uuid) for uuid in inventories)
        case ops.SetInventories(inventories):
            yield from (("set", "inventory", uuid) for uuid in inventories)
        case ops.SetInventory(uuid):
            yield "set", "inventory", uuid
        case ops.SetTraits(uuid):
            yield "set", "traits", uuid
        case ops.SetAggregates(uuid):
            yield "set", "aggregates", uuid
        case ops.EnsureClass(name):
            yield "define", "resource class", name
        case ops.EnsureTrait(name):
            yield "define", "trait", name
        case _:
            assert_never(operation)
