"""Describe operations as sentences, by the difference to Placement's data.  Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from computectl.drawing.trait_groups import folded
from reportclient import plan as ops
from reportclient.model import MAX_INT, Inventory
from reportclient.plain_text import plain
from reportclient.snapshot import Snapshot

_UNSAID = Inventory(0).with_defaults(None).as_dict()


class Wording:
    """Describes the operations of a plan; ``before``: Placement's state."""

    def __init__(self, plan: ops.Plan, before: Snapshot) -> None:
        self._plan = plan
        self._before = before

    def sentence(self, operation: ops.Operation) -> str:
        """Return the sentence of an operation, printable."""
        return plain(self._unescaped(operation))

    def _unescaped(self, operation: ops.Operation) -> str:  # noqa: C901, PLR0911  one return a kind
        match operation:
            case ops.EnsureTrait(trait):
                return f"create the trait {trait}"
            case ops.EnsureClass(resource_class):
                return f"create the resource class {resource_class}"
            case ops.CreateProvider(uuid, name, None):
                return f"create root provider {name} ({uuid})"
            case ops.CreateProvider(uuid, name, parent):
                return f"create provider {name} ({uuid}) below {self.name(str(parent))}"
            case ops.UpdateProvider():
                return self._update(operation)
            case ops.DeleteProvider(uuid):
                return f"delete provider {self.name(uuid)} ({uuid})"
            case ops.SetTraits(uuid, traits):
                had = before.traits if (before := self._before.get(uuid)) else frozenset[str]()
                changes = _changes("trait", folded(traits - had), folded(had - traits))
                return f"{changes} on {self.name(uuid)}"
            case ops.SetAggregates(uuid, aggregates):
                had = before.aggregates if (before := self._before.get(uuid)) else frozenset()
                new, gone = sorted(aggregates - had), sorted(had - aggregates)
                return f"{_changes('aggregate', new, gone)} on {self.name(uuid)}"
            case ops.SetInventory(uuid, inventory):
                return self._inventory(uuid, inventory)
            case ops.SetInventories(inventories):
                return "; ".join(self._inventory(*each) for each in inventories.items())
            case ops.Reshape(inventories, allocations):
                parts = [self._inventory(*each) for each in inventories.items()]
                count = len(allocations)
                consumers = f"the allocations of {count} consumer{'s' if count != 1 else ''}"
                return f"reshape, all at once: {'; '.join([*parts, consumers])}"
            case _:
                assert_never(operation)

    def name(self, uuid: str) -> str:
        """Return the provider's name after the plan, or its UUID."""
        before = self._before.get(uuid)
        return self._plan.names.get(uuid) or (before.name if before else uuid)

    def _update(self, operation: ops.UpdateProvider) -> str:
        before = self._before.providers[operation.uuid]
        done = []
        if before.name != operation.name:
            done.append(f"rename provider {before.name} to {operation.name}")
        if before.parent_uuid != operation.parent_uuid:
            old, new = before.parent_uuid, operation.parent_uuid
            source = "from the top" if old is None else f"from below {self.name(old)}"
            target = "to the top" if new is None else f"to below {self.name(new)}"
            done.append(f"move provider {operation.name} {source} {target}")
        return " and ".join(done)

    def _inventory(self, uuid: str, inventory: Mapping[str, Inventory]) -> str:
        before = self._before.get(uuid)
        changed = list(self._classes(before.inventory if before else {}, inventory))
        if len(changed) == 1:
            [(verb, resource_class, amounts)] = changed
            tail = f": {amounts}" if amounts else ""
            return f"{verb} inventory of {resource_class} on {self.name(uuid)}{tail}"
        parts = (f"{v} {c} ({amounts})" if amounts else f"{v} {c}" for v, c, amounts in changed)
        return f"inventory on {self.name(uuid)}: {'; '.join(parts)}"

    def _classes(
        self, had: Mapping[str, Inventory], new: Mapping[str, Inventory]
    ) -> Iterator[tuple[str, str, str]]:
        """Yield verb, resource class and amounts of each class that changes."""
        for name in sorted({*had, *new}):
            if name not in new:
                yield "remove", name, ""
            elif name not in had:
                yield "add", name, ", ".join(amounts(new[name]))
            elif had[name] != new[name]:
                yield "set", name, ", ".join(self._moved(had[name], new[name]))

    def _moved(self, had: Inventory, new: Inventory) -> Iterator[str]:
        old, now = had.with_defaults(None).as_dict(), new.with_defaults(None).as_dict()
        for key, value in now.items():
            if old[key] != value:
                yield f"{_plain(key)} {_amount(old[key])} → {_amount(value)}"


def amounts(record: Inventory) -> Iterator[str]:
    """Yield an inventory's total, and its values other than the defaults."""
    for key, value in record.with_defaults(None).as_dict().items():
        if value != _UNSAID[key] and not (
            key == "max_unit" and value >= min(record.total, MAX_INT)
        ):
            yield f"{_plain(key)} {_amount(value)}"


def _plain(key: str) -> str:
    return {"allocation_ratio": "ratio"}.get(key, key)


def _amount(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _changes(what: str, added: Iterable[str], removed: Iterable[str]) -> str:
    """Return changes as ``add traits X, Y; remove trait Z``."""
    phrases = []
    for verb, names in (("add", list(added)), ("remove", list(removed))):
        if names:
            plural = "s" if len(names) > 1 or "{" in names[0] else ""
            phrases.append(f"{verb} {what}{plural} {', '.join(names)}")
    return "; ".join(phrases)
