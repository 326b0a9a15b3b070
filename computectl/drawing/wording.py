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
    """Describes the operations of a plan; ``before``: Placement's state; ``arrow``: old to new."""

    def __init__(self, plan: ops.Plan, before: Snapshot, arrow: str = "->") -> None:
        self._plan = plan
        self._before = before
        self._arrow = arrow

    def sentence(self, operation: ops.Operation) -> str:
        """Return the sentence of an operation, printable."""
        return plain(self._unescaped(operation))

    def _unescaped(self, operation: ops.Operation) -> str:  # noqa: C901, PLR0911  one return a kind
        match operation:
            case ops.EnsureTrait(trait):
                return f"create the trait {trait}"
            case ops.EnsureClass(resource_class):
                return f"create the resource class {resource_class}"
            case ops.CreateProvider():
                return self._create(operation)
            case ops.UpdateProvider():
                return self._update(operation)
            case ops.DeleteProvider(uuid):
                return f"delete provider {self.name(uuid)} ({uuid})"
            case ops.SetTraits():
                return self._traits(operation)
            case ops.SetAggregates():
                return self._aggregates(operation)
            case ops.SetInventory(uuid, inventory):
                return self._inventory(uuid, inventory)
            case ops.SetInventories(inventories):
                return "; ".join(self._inventory(*each) for each in inventories.items())
            case ops.Reshape():
                return self._reshape(operation)
            case _:
                assert_never(operation)

    def name(self, uuid: str) -> str:
        """Return the provider's name after the plan, or its UUID."""
        before = self._before.get(uuid)
        return self._plan.names.get(uuid) or (before.name if before else uuid)

    def _create(self, operation: ops.CreateProvider) -> str:
        provider = f"provider {operation.name} ({operation.uuid})"
        if operation.parent_uuid is None:
            return f"create root {provider}"
        return f"create {provider} below {self.name(operation.parent_uuid)}"

    def _update(self, operation: ops.UpdateProvider) -> str:
        before = self._before.providers[operation.uuid]
        done = []
        if before.name != operation.name:
            done.append(f"rename provider {before.name} to {operation.name}")
        if before.parent_uuid != operation.parent_uuid:
            done.append(
                f"move provider {operation.name} {self._way(before.parent_uuid, operation)}"
            )
        return " and ".join(done)

    def _way(self, old: str | None, operation: ops.UpdateProvider) -> str:
        new = operation.parent_uuid
        source = "from the top" if old is None else f"from below {self.name(old)}"
        return f"{source} {'to the top' if new is None else f'to below {self.name(new)}'}"

    def _traits(self, operation: ops.SetTraits) -> str:
        before = self._before.get(operation.uuid)
        had = before.traits if before else frozenset()
        changes = _changes("trait", folded(operation.traits - had), folded(had - operation.traits))
        return f"{changes} on {self.name(operation.uuid)}"

    def _aggregates(self, operation: ops.SetAggregates) -> str:
        before = self._before.get(operation.uuid)
        had = before.aggregates if before else frozenset()
        new = operation.aggregates
        changes = _changes("aggregate", sorted(new - had), sorted(had - new))
        return f"{changes} on {self.name(operation.uuid)}"

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
                yield "add", name, ", ".join(_amounts(new[name]))
            elif had[name] != new[name]:
                yield "set", name, ", ".join(self._moved(had[name], new[name]))

    def _moved(self, had: Inventory, new: Inventory) -> Iterator[str]:
        old, now = had.with_defaults(None).as_dict(), new.with_defaults(None).as_dict()
        for key, value in now.items():
            if old[key] != value:
                yield f"{_plain(key)} {_amount(old[key])} {self._arrow} {_amount(value)}"

    def _reshape(self, operation: ops.Reshape) -> str:
        parts = [self._inventory(uuid, new) for uuid, new in operation.inventories.items()]
        count = len(operation.allocations)
        consumers = f"the allocations of {count} consumer{'s' if count != 1 else ''}"
        return f"reshape, all at once: {'; '.join([*parts, consumers])}"


def _amounts(record: Inventory) -> Iterator[str]:
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
