"""Operations of a plan as sentences, each as the difference to what Placement has.  Pure."""

from collections.abc import Iterator, Mapping
from operator import itemgetter

from agent.reporting.changes import amount, amounts, differences, short_key
from agent.reporting.trait_groups import folded
from reportclient import plan as ops
from reportclient.model import Inventory, Provider
from reportclient.plain_text import plain
from reportclient.snapshot import Snapshot

Names = Mapping[str, str]
"""Names of the providers after the plan, by UUID."""


def sentence(operation: ops.Operation, before: Snapshot, names: Names) -> str:
    """Return an operation as a printable sentence: the difference to ``before``."""
    match operation:
        case ops.EnsureTrait(trait):
            text = f"create the trait {trait}"
        case ops.EnsureClass(name):
            text = f"create the resource class {name}"
        case ops.CreateProvider(uuid, name, None):
            text = f"create root provider {name} ({uuid})"
        case ops.CreateProvider(uuid, name, parent):
            text = f"create provider {name} ({uuid}) below {name_of(str(parent), before, names)}"
        case ops.DeleteProvider(uuid):
            text = f"delete provider {name_of(uuid, before, names)} ({uuid})"
        case ops.Reshape(allocations=allocations):
            texts = _changes(operation, before, names)
            count = len(allocations)
            texts.append(f"the allocations of {count} consumer{'s' if count != 1 else ''}")
            text = f"reshape, all at once: {'; '.join(texts)}"
        case _:
            text = "; ".join(_changes(operation, before, names))
    return plain(text)


def name_of(uuid: str, before: Snapshot, names: Names) -> str:
    """Return a provider's name after the plan, or else before it, or else its UUID."""
    return names.get(uuid) or _had(uuid, before).name


def _had(uuid: str, before: Snapshot) -> Provider:
    return before.get(uuid) or Provider(uuid, uuid)


def _changes(operation: ops.Operation, before: Snapshot, names: Names) -> list[str]:
    """Return what becomes different in each provider that the operation changes."""
    edits = ops.edits_of(operation, lambda uuid: _had(uuid, before))
    return [_changed(_had(uuid, before), new, before, names) for uuid, new in edits.items() if new]


def _changed(had: Provider, becomes: Provider, before: Snapshot, names: Names) -> str:
    """Return what becomes different in a provider."""
    name = name_of(had.uuid, before, names)
    places, inventory = list[str](), list[tuple[str, str, str]]()
    sets: dict[tuple[str, str], list[str]] = {}
    for (noun, part), (old, new) in differences(had, becomes).items():
        verb = "add" if old is None else "remove" if new is None else "set"
        if noun == "name":
            places.append(f"rename provider {old} to {new}")
        elif noun == "parent":
            source = f"from below {name_of(old, before, names)}" if old else "from the top"
            target = f"to below {name_of(new, before, names)}" if new else "to the top"
            places.append(f"move provider {becomes.name} {source} {target}")
        elif noun == "inventory":
            inventory.append((verb, part, ", ".join(_values(old, new))))
        else:
            sets.setdefault((verb, noun), []).append(part)
    texts = [" and ".join(places)] if places else []
    phrases = []
    for (verb, noun), added in sorted(sets.items()):
        found = folded(added)
        one = len(found) == 1 and "{" not in found[0]
        phrases.append(f"{verb} {noun.removesuffix('s') if one else noun} {', '.join(found)}")
    texts += [f"{'; '.join(phrases)} on {name}"] if phrases else []
    if len(inventory) == 1:
        [(verb, part, values)] = inventory
        texts.append(f"{verb} inventory of {part} on {name}{f': {values}' if values else ''}")
    elif inventory:
        inventory.sort(key=itemgetter(1))
        rows = (f"{v} {c} ({values})" if values else f"{v} {c}" for v, c, values in inventory)
        texts.append(f"inventory on {name}: {'; '.join(rows)}")
    return "; ".join(texts)


def _values(old: Inventory | None, new: Inventory | None) -> Iterator[str]:
    """Yield the values of an inventory that are new or different."""
    if old is None or new is None:
        yield from amounts(new) if new is not None else ()
        return
    before = old.as_dict()
    for key, value in new.as_dict().items():
        if before[key] != value:
            yield f"{short_key(key)} {amount(before[key])} → {amount(value)}"
