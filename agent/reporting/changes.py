"""Operations in words, for log, status and plan, and the names of their kinds.  Pure."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from agent.reporting.trait_groups import folded
from reportclient import plan as ops
from reportclient.model import MAX_INT, Inventory, Provider
from reportclient.plain_text import first_few, plain
from reportclient.snapshot import EMPTY, Snapshot

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
        for change in describe(operation, EMPTY, names):
            groups.setdefault(change.verb, {}).setdefault(change.noun, {})[change.subject] = None
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


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one subject: a provider (UUID), a trait or a resource class.

    ``verb`` and ``noun`` are of the summary of many changes; ``text`` describes this one.
    """

    verb: str
    noun: str
    subject: str
    text: str


def sentence(operation: ops.Operation, before: Snapshot, names: Mapping[str, str]) -> str:
    """Return an operation as a printable sentence: the difference to ``before``.

    :param names: of the providers after the plan, by UUID.
    """
    texts = [change.text for change in describe(operation, before, names)]
    if isinstance(operation, ops.Reshape):
        count = len(operation.allocations)
        texts.append(f"the allocations of {count} consumer{'s' if count != 1 else ''}")
        return plain(f"reshape, all at once: {'; '.join(texts)}")
    return plain("; ".join(texts))


def describe(  # noqa: C901  a case a kind
    operation: ops.Operation, before: Snapshot, names: Mapping[str, str]
) -> Iterator[Change]:
    """Yield the changes that an operation makes to ``before``, Placement's state.

    :param names: of the providers after the plan, by UUID.
    """
    match operation:
        case ops.EnsureTrait(trait):
            yield Change("define", "trait", trait, f"create the trait {trait}")
        case ops.EnsureClass(name):
            yield Change("define", "resource class", name, f"create the resource class {name}")
        case ops.CreateProvider(uuid, name, None):
            yield Change("create", "provider", uuid, f"create root provider {name} ({uuid})")
        case ops.CreateProvider(uuid, name, parent):
            below = name_of(str(parent), before, names)
            text = f"create provider {name} ({uuid}) below {below}"
            yield Change("create", "provider", uuid, text)
        case ops.DeleteProvider(uuid):
            text = f"delete provider {name_of(uuid, before, names)} ({uuid})"
            yield Change("delete", "provider", uuid, text)
        case ops.UpdateProvider(uuid, moved=moved):
            text = " and ".join(_updated(operation, before, names))
            yield Change("move" if moved else "rename", "provider", uuid, text)
        case ops.SetTraits(uuid, traits):
            text = _added_and_removed("trait", _had(uuid, before).traits, traits)
            yield Change("set", "traits", uuid, f"{text} on {name_of(uuid, before, names)}")
        case ops.SetAggregates(uuid, aggregates):
            text = _added_and_removed("aggregate", _had(uuid, before).aggregates, aggregates)
            yield Change("set", "aggregates", uuid, f"{text} on {name_of(uuid, before, names)}")
        case ops.SetInventory(uuid, inventory):
            yield Change("set", "inventory", uuid, _inventory(uuid, inventory, before, names))
        case ops.SetInventories(inventories) | ops.Reshape(inventories):
            is_reshape = isinstance(operation, ops.Reshape)
            group = ("reshape", "provider") if is_reshape else ("set", "inventory")
            for uuid, inventory in inventories.items():
                yield Change(*group, uuid, _inventory(uuid, inventory, before, names))
        case _:
            assert_never(operation)


def undone(before: Snapshot, read: Snapshot, after: Snapshot) -> Iterator[str]:
    """Yield in words the changes from ``before`` to ``read`` that ``after`` does not have any more.

    ``before`` is what this agent left in Placement, ``read`` what other clients made of it, and
    ``after`` what this agent has written since.
    """
    for uuid in read.changed_since(before):
        old, theirs, now = (_facts(each.get(uuid)) for each in (before, read, after))
        changed: dict[str, list[str]] = {}
        for noun, part in {**old, **theirs} if old and now else ():
            fact = theirs.get((noun, part))
            if old.get((noun, part)) == now.get((noun, part)) != fact:
                verb = "removed" if fact is None else "set"
                changed.setdefault(f"{verb} {noun}", []).append(part + (fact or ""))
        name = before.providers[uuid].name if old else ""
        texts = [f"{what} of {name}: {first_few(folded(it))}" for what, it in changed.items()]
        yield from map(plain, texts if theirs or not texts else [f"deleted provider {name}"])


def _facts(provider: Provider | None) -> dict[tuple[str, str], str]:
    """Return what can change of a provider, by noun and name, as text after the name."""
    if provider is None:
        return {}
    facts = {("the name", ""): provider.name, ("the parent", ""): provider.parent_uuid or "none"}
    facts |= {("traits", name): "" for name in provider.traits}
    facts |= {("aggregates", name): "" for name in provider.aggregates}
    for name, record in provider.inventory.items():
        facts["inventory", name] = f" ({', '.join(amounts(record))})"
    return facts


def name_of(uuid: str, before: Snapshot, names: Mapping[str, str]) -> str:
    """Return a provider's name after the plan, or else before it, or else its UUID."""
    return names.get(uuid) or _had(uuid, before).name


def amounts(record: Inventory) -> Iterator[str]:
    """Yield an inventory's total, and its values other than the defaults."""
    for key, value in record.with_defaults(None).as_dict().items():
        unbounded = key == "max_unit" and value >= min(record.total, MAX_INT)
        if value != _DEFAULTS[key] and not unbounded:
            yield f"{_short(key)} {_amount(value)}"


def _had(uuid: str, before: Snapshot) -> Provider:
    return before.get(uuid) or Provider(uuid, uuid)


def _updated(
    operation: ops.UpdateProvider, before: Snapshot, names: Mapping[str, str]
) -> Iterator[str]:
    had, new = _had(operation.uuid, before), operation.parent_uuid
    if had.name != operation.name:
        yield f"rename provider {had.name} to {operation.name}"
    if had.parent_uuid != new:
        below = [uuid and name_of(uuid, before, names) for uuid in (had.parent_uuid, new)]
        source = f"from below {below[0]}" if below[0] else "from the top"
        target = f"to below {below[1]}" if below[1] else "to the top"
        yield f"move provider {operation.name} {source} {target}"


def _added_and_removed(noun: str, had: frozenset[str], new: frozenset[str]) -> str:
    """Return changes as ``add traits X, Y; remove trait Z``."""
    phrases = []
    for verb, names in (("add", folded(new - had)), ("remove", folded(had - new))):
        if names:
            plural = "s" if len(names) > 1 or "{" in names[0] else ""
            phrases.append(f"{verb} {noun}{plural} {', '.join(names)}")
    return "; ".join(phrases)


def _inventory(
    uuid: str, inventory: Mapping[str, Inventory], before: Snapshot, names: Mapping[str, str]
) -> str:
    name = name_of(uuid, before, names)
    changed = list(_classes(_had(uuid, before).inventory, inventory))
    if len(changed) == 1:
        [(verb, resource_class, values)] = changed
        return f"{verb} inventory of {resource_class} on {name}{f': {values}' if values else ''}"
    parts = (f"{v} {c} ({values})" if values else f"{v} {c}" for v, c, values in changed)
    return f"inventory on {name}: {'; '.join(parts)}"


def _classes(
    had: Mapping[str, Inventory], new: Mapping[str, Inventory]
) -> Iterator[tuple[str, str, str]]:
    """Yield verb, resource class and values of each class that changes."""
    for name in sorted({*had, *new}):
        if name not in new:
            yield "remove", name, ""
        elif name not in had:
            yield "add", name, ", ".join(amounts(new[name]))
        elif had[name] != new[name]:
            yield "set", name, ", ".join(_differences(had[name], new[name]))


def _differences(had: Inventory, new: Inventory) -> Iterator[str]:
    old, now = had.with_defaults(None).as_dict(), new.with_defaults(None).as_dict()
    for key, value in now.items():
        if old[key] != value:
            yield f"{_short(key)} {_amount(old[key])} → {_amount(value)}"


def _short(key: str) -> str:
    return "ratio" if key == "allocation_ratio" else key


def _amount(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
