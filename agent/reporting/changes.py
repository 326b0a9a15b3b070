"""Operations in words, for log and status, and the differences of two providers.  Pure."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, assert_never

from agent.reporting.trait_groups import folded
from reportclient import plan as ops
from reportclient.errors import PlacementError
from reportclient.model import MAX_INT, Inventory, Provider
from reportclient.plain_text import first_few, plain
from reportclient.snapshot import Snapshot

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
_DEFAULTS = Inventory(0).with_defaults(None).as_dict()


def kind(thing: ops.Operation | PlacementError) -> str:
    """Return the kind of an operation or error for programs: ``set_traits``, ``in_use`` …"""
    return _WORDS.sub("_", type(thing).__name__).lower()


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
        for verb, noun, subject in _subjects(operation):
            groups.setdefault(verb, {}).setdefault(noun, {})[subject] = None
    created = groups.get("create", {}).get("provider", {})
    labels = dict(names)
    for each in reversed([*operations]):  # of several renames the first has the old name
        if isinstance(each, ops.UpdateProvider) and each.old_name:
            new = names.get(each.uuid, each.name)
            labels[each.uuid] = new if new == each.old_name else f"{each.old_name} → {new}"
    parts: list[str] = []
    for verb in filter(groups.__contains__, _VERBS):
        group, counts = groups[verb], list[str]()
        for noun in filter(group.__contains__, _PLURALS):
            counts.append(_counted(noun, len(group[noun]), alone=not parts and not counts))
        concerned = dict.fromkeys(each for subjects in group.values() for each in subjects)
        known = created if verb in ("reshape", "set") else {}
        shown = labels if verb in ("move", "rename") else names
        named = [shown.get(each, each) for each in concerned if each not in known]
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


def _subjects(  # noqa: C901  a case a kind
    operation: ops.Operation,
) -> Iterator[tuple[str, str, str]]:
    """Yield verb and noun of an operation's changes, with provider (UUID), trait or class."""
    match operation:
        case ops.EnsureTrait(name):
            yield "define", "trait", name
        case ops.EnsureClass(name):
            yield "define", "resource class", name
        case ops.CreateProvider(uuid):
            yield "create", "provider", uuid
        case ops.DeleteProvider(uuid):
            yield "delete", "provider", uuid
        case ops.UpdateProvider(uuid, moved=moved):
            yield "move" if moved else "rename", "provider", uuid
        case ops.SetTraits(uuid):
            yield "set", "traits", uuid
        case ops.SetAggregates(uuid):
            yield "set", "aggregates", uuid
        case ops.SetInventory(uuid):
            yield "set", "inventory", uuid
        case ops.SetInventories(inventories):
            yield from (("set", "inventory", uuid) for uuid in inventories)
        case ops.Reshape(inventories):
            yield from (("reshape", "provider", uuid) for uuid in inventories)
        case _:
            assert_never(operation)


Differences = dict[tuple[str, str], tuple[Any, Any]]
"""Values before and after, ``None`` for none, by part of a provider, as ``("traits", "CUSTOM_X")``.
"""


def differences(old: Provider, new: Provider) -> Differences:
    """Return what differs between two states of a provider."""
    before, after = _values(old), _values(new)
    return {
        part: (before.get(part), after.get(part))
        for part in {**before, **after}
        if before.get(part) != after.get(part)
    }


def _values(provider: Provider) -> dict[tuple[str, str], Any]:
    values: dict[tuple[str, str], Any] = {("name", ""): provider.name}
    values["parent", ""] = provider.parent_uuid
    values |= {("traits", name): True for name in provider.traits}
    values |= {("aggregates", name): True for name in provider.aggregates}
    inventory = provider.inventory.items()
    return values | {("inventory", name): record.with_defaults(None) for name, record in inventory}


def undone(before: Snapshot, read: Snapshot, after: Snapshot) -> Iterator[str]:
    """Yield in words the changes from ``before`` to ``read`` that ``after`` does not have any more.

    ``before`` is what this agent had written to Placement, ``read`` what other clients made of it,
    and ``after`` what this agent has written since.
    """
    for uuid in read.changed_since(before):
        old, others, now = (each.get(uuid) for each in (before, read, after))
        if old is None or now is None:
            continue
        if others is None:
            yield plain(f"deleted provider {old.name}")
            continue
        still, changed = differences(old, now), dict[str, list[str]]()
        for (noun, part), (_, value) in differences(old, others).items():
            if (noun, part) in still:
                continue
            verb, text = "removed" if value is None else "set", part
            what = f"{verb} {noun if part else f'the {noun}'}"
            if isinstance(value, Inventory):
                text = f"{part} ({', '.join(amounts(value))})"
            elif not part:
                text = value or "none"
            changed.setdefault(what, []).append(text)
        for what, texts in changed.items():
            yield plain(f"{what} of {old.name}: {first_few(folded(texts))}")


def amounts(record: Inventory) -> Iterator[str]:
    """Yield an inventory's total, and its values other than the defaults."""
    for key, value in record.with_defaults(None).as_dict().items():
        unbounded = key == "max_unit" and value >= min(record.total, MAX_INT)
        if value != _DEFAULTS[key] and not unbounded:
            yield f"{short_key(key)} {amount(value)}"


def short_key(key: str) -> str:
    """Return how a field of an inventory is called in a text."""
    return "ratio" if key == "allocation_ratio" else key


def amount(value: float) -> str:
    """Return a value of an inventory as text."""
    return f"{value:g}" if isinstance(value, float) else str(value)
