"""Parses the block ``nodes`` of a script: providers, their copies and their data."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from driverkit.scripted.script import ROOT, ProviderSpec
from drivers.yaml_file import Field
from reportclient.model import SHARES_VIA_AGGREGATE, Inventory, canonical_uuid

Names = Mapping[str, object]
"""Values for the placeholders ``{host}``, ``{node}`` and ``{n}`` in keys and texts."""

_CARRIED = ("uuid", "inventory", "traits", "aggregates")
NODE_KEYS = frozenset((*_CARRIED, "count", "children", "sharing"))
CHILD_KEYS = frozenset((*_CARRIED, "count", "children", "name"))
SHARING_KEYS = frozenset((*_CARRIED, "count", "name"))
_RECORD_KEYS = frozenset(Inventory.__dataclass_fields__)


def expand(template: str, names: Names, field: Field) -> str:
    """Fill in the placeholders of ``template``.  :raises BadFile: a placeholder is unknown."""
    try:
        return template.format_map(names)
    except (KeyError, IndexError, AttributeError, TypeError, ValueError) as err:
        names_here = ", ".join(f"{{{name}}}" for name in sorted(names))
        raise field.error(
            f"can't fill in {template!r} ({err}); the known names are {names_here}"
        ) from None


def replicas(key: str, field: Field, names: Names) -> Iterator[Names]:
    """Yield the names for each copy; with a ``count``, ``n`` counts from 0."""
    count = field.mapping().get("count")
    if count is None:
        yield names
        return
    if "{n" not in key:
        raise field.error("has a count, so its name needs {n}")
    if count.whole() < 0:
        raise count.error("can't be below 0")
    for number in range(count.whole()):
        yield {**names, "n": number}


def read_node(field: Field, names: Names, room: int) -> tuple[ProviderSpec, ...]:
    """Return the providers of a node, the root first.  :raises BadFile: more than ``room``."""
    fields = field.mapping(NODE_KEYS)
    root = ProviderSpec(ROOT, str(names["node"]), **_carried(fields, names))
    inside = [root, *islice(read_children(fields.get("children"), names, ROOT), room)]
    members = frozenset[str]().union(*(provider.aggregates for provider in inside))
    sharing = islice(_sharing(fields.get("sharing"), names, members), room)
    providers = (*inside, *sharing)
    if len(providers) > room:
        raise field.error("the script has too many providers")
    refuse_duplicates(providers, field)
    return providers


def refuse_duplicates(providers: Iterable[ProviderSpec], field: Field) -> None:
    """Check names and refs.  :raises BadFile: two providers have the same name or ref."""
    seen: set[tuple[str, str]] = set()
    for provider in providers:
        marks = {("ref", provider.ref), ("name", provider.name)}
        if seen & marks:
            raise field.error(f"provider {provider.name!r} is listed twice")
        seen |= marks


def read_children(field: Field | None, names: Names, parent: str) -> Iterator[ProviderSpec]:
    """Yield the providers below ``parent`` (a ref), parents first."""
    for key, child in field.mapping().items() if field else ():
        fields = child.mapping(CHILD_KEYS)
        for inner in replicas(key, child, names):
            local = expand(key, inner, child)
            ref = local if parent == ROOT else f"{parent}/{local}"
            yield ProviderSpec(ref, _name(fields, inner, ref), parent, **_carried(fields, inner))
            yield from read_children(fields.get("children"), inner, ref)


def _sharing(field: Field | None, names: Names, members: frozenset[str]) -> Iterator[ProviderSpec]:
    for key, sharing in field.mapping().items() if field else ():
        fields = sharing.mapping(SHARING_KEYS)
        for inner in replicas(key, sharing, names):
            ref = expand(key, inner, sharing)
            carried = _carried(fields, inner)
            if not members.intersection(carried["aggregates"]):
                raise sharing.error("needs an aggregate that the node or a child of it has too")
            carried["traits"] |= {SHARES_VIA_AGGREGATE}
            private = "name" not in fields
            yield ProviderSpec(ref, _name(fields, inner, ref), private=private, **carried)


def _name(fields: Mapping[str, Field], names: Names, ref: str) -> str:
    if "name" in fields:
        return expand(fields["name"].text(), names, fields["name"])
    return f"{names['node']}_{ref.replace('/', '_')}"


def _carried(fields: Mapping[str, Field], names: Names) -> dict[str, Any]:
    return {
        "uuid": _uuid(fields["uuid"], names) if "uuid" in fields else None,
        "inventory": read_inventory(fields.get("inventory")),
        "traits": read_texts(fields.get("traits"), names),
        "aggregates": read_uuids(fields.get("aggregates"), names),
    }


def read_texts(field: Field | None, names: Names) -> frozenset[str]:
    """Return the texts of a list.  Trait names are not checked here: the agent checks them."""
    return frozenset(expand(item.text(), names, item) for item in (field.items() if field else ()))


def read_uuids(field: Field | None, names: Names) -> frozenset[str]:
    """Return the UUIDs of a list."""
    return frozenset(_uuid(item, names) for item in (field.items() if field else ()))


def _uuid(field: Field, names: Names) -> str:
    text = expand(field.text(), names, field)
    try:
        return canonical_uuid(text, "")
    except ValueError:
        raise field.error(f"{text!r} is not a UUID") from None


def read_inventory(field: Field | None) -> dict[str, Inventory]:
    """Return the records of ``{class: total}`` or ``{class: {total: …, reserved: …, …}}``."""
    return {
        name: read_record(record) for name, record in (field.mapping() if field else {}).items()
    }


def read_record(field: Field) -> Inventory:
    """Return an inventory record.  :raises BadFile: Placement would refuse it."""
    if field.scalar:
        record = Inventory(field.whole())
    else:
        fields = field.mapping(_RECORD_KEYS)
        if "total" not in fields:
            raise field.error("'total' is missing")
        record = Inventory(**{key: _amount(key, value) for key, value in fields.items()})
    problem = record.problem()
    if problem is not None:
        raise field.error(problem)
    return record


def _amount(key: str, field: Field) -> Any:
    return field.number() if key == "allocation_ratio" else field.whole()
