"""Reads a script: a list of states, each with all nodes of the driver from a period on.

The providers of a node are a flat list, parents before children, with all placeholders filled in.
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from drivers import yaml_file
from drivers.diagnostics import BadFile
from drivers.errors import DriverError
from drivers.yaml_file import Field
from reportclient.model import SHARES_VIA_AGGREGATE, Inventory, parse_uuid

MOST_PROVIDERS = 200_000
"""The most providers of a state, so that a mistyped ``count`` does not exhaust memory."""

_PROVIDER_KEYS = frozenset(("inventory", "traits", "aggregates", "count"))
CHILD_KEYS = _PROVIDER_KEYS | {"children"}
SHARING_KEYS = _PROVIDER_KEYS | {"name"}
NODE_KEYS = CHILD_KEYS | {"uuid", "sharing", "moves"}
STATE_KEYS = frozenset(("after", "nodes", "not_ready", "error", "sleep"))
_RECORD_KEYS = frozenset(Inventory.__dataclass_fields__)

Names = Mapping[str, object]
"""Values of the placeholders ``{host}`` and ``{n}``."""


class ScriptError(DriverError):
    """The script has an error; the message has file, line and path."""


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A provider of a script; the node itself and sharing providers have no parent."""

    name: str
    parent: str | None
    inventory: Mapping[str, Mapping[str, Any]]
    traits: frozenset[str]
    aggregates: frozenset[str]
    private: bool = True
    """Whether other nodes can't list the same provider."""
    awaited: bool = False
    """Whether an earlier node of the script creates it, and this node only refers to it."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node: its own UUID, if any, its providers, and the classes that take allocations along."""

    uuid: str | None
    providers: tuple[ProviderSpec, ...]
    moves: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class State:
    """State of the host from period ``after`` of a node on, and how the driver fails then."""

    after: int
    nodes: Mapping[str, NodeSpec]
    not_ready: str | None = None
    error: str | None = None
    sleep: float = 0.0


@dataclass(frozen=True, slots=True)
class Script:
    """All states, in the order of their time."""

    states: tuple[State, ...]

    def at(self, period: int) -> State:
        """Return the state in this period; the first is 0."""
        return next(state for state in reversed(self.states) if state.after <= period)


def parse(text: str, source: str, host: str) -> Script:
    """Parse a script.  ``source`` names the file in errors, ``host`` replaces ``{host}``.

    :raises ScriptError: the script has an error.
    """
    try:
        top = yaml_file.read(text, source)
        states: list[State] = []
        for item in top.items() if top.is_list else [top]:
            states.append(_state(item, states[-1] if states else None, host))
    except BadFile as err:
        raise ScriptError(str(err)) from err
    if not states:
        raise ScriptError(str(top.error("has no state")))
    return Script(tuple(states))


def _state(item: Field, previous: State | None, host: str) -> State:
    """Return a state; one without ``nodes`` has those of the ``previous`` state."""
    fields = item.mapping(STATE_KEYS)
    after = fields["after"].whole() if "after" in fields else 0
    if previous is None and after:
        raise fields["after"].error("the first state begins at 0")
    if previous is not None and after <= previous.after:
        raise fields.get("after", item).error(f"needs an 'after' above {previous.after}")
    if previous is not None and not previous.nodes:
        raise item.error("is never reached: the state before it has no nodes")
    nodes: Mapping[str, NodeSpec]
    if "nodes" in fields:
        nodes = _nodes(fields["nodes"], host)
    elif previous is not None:
        nodes = previous.nodes
    else:
        raise item.error("'nodes' is missing")
    sleep = fields["sleep"].number() if "sleep" in fields else 0.0
    if not 0 <= sleep < threading.TIMEOUT_MAX:
        raise fields["sleep"].error("has to be a number of seconds")
    if {"not_ready", "error"} <= fields.keys():
        raise item.error("can have not_ready or error, not both")
    not_ready = fields["not_ready"].text() if "not_ready" in fields else None
    error = fields["error"].text() if "error" in fields else None
    return State(after, nodes, not_ready, error, sleep)


def _nodes(field: Field, host: str) -> dict[str, NodeSpec]:
    size = 0
    nodes: dict[str, NodeSpec] = {}
    shared: set[str] = set()
    for name, names, node in _copies(field, {"host": host}):
        if name in nodes:
            raise node.error(f"node {name!r} is listed twice")
        read = _node(name, node, names)
        size += len(read.providers)
        if size > MOST_PROVIDERS:
            raise field.error(f"more than {MOST_PROVIDERS} providers: look for a 'count' too high")
        providers = tuple(replace(it, awaited=it.name in shared) for it in read.providers)
        nodes[name] = replace(read, providers=providers)
        shared.update(it.name for it in providers if not it.private)
    return nodes


def _count(field: Field) -> int:
    if field.whole() < 0:
        raise field.error("can't be below 0")
    return field.whole()


def _copies(block: Field | None, names: Names) -> Iterator[tuple[str, Names, Field]]:
    """Yield key, placeholders and value of each provider; with a ``count``, ``n`` counts from 0."""
    for key, field in block.mapping().items() if block else ():
        count = field.mapping().get("count")
        if count is None:
            yield _expand(key, names, field), names, field
            continue
        if "{n" not in key:
            raise field.error("has a count, so its name needs {n}")
        for number in range(_count(count)):
            numbered = {**names, "n": number}
            yield _expand(key, numbered, field), numbered, field


def _node(name: str, field: Field, names: Names) -> NodeSpec:
    fields = field.mapping(NODE_KEYS)
    root = ProviderSpec(name, None, **_carried(fields, names))
    # The caller refuses more than these.
    inside = [root, *islice(_children(fields.get("children"), names, name), MOST_PROVIDERS)]
    members = frozenset[str]().union(*(provider.aggregates for provider in inside))
    sharing = _sharing(fields.get("sharing"), names, name, members)
    providers = (*inside, *islice(sharing, MOST_PROVIDERS))
    seen: set[str] = set()
    for provider in providers:
        if provider.name in seen:
            raise field.error(f"provider {provider.name!r} is listed twice")
        seen.add(provider.name)
    uuid = _uuid(fields["uuid"], names) if "uuid" in fields else None
    moves = _texts(fields.get("moves"), names)
    unknown = moves.difference(*(provider.inventory for provider in providers))
    if unknown:
        raise fields["moves"].error(f"no provider has {', '.join(sorted(unknown))} in this state")
    return NodeSpec(uuid, providers, moves)


def _children(block: Field | None, names: Names, parent: str) -> Iterator[ProviderSpec]:
    """Yield the providers below ``parent``, parents first."""
    for key, inner, field in _copies(block, names):
        fields = field.mapping(CHILD_KEYS)
        name = f"{parent}_{key}"
        yield ProviderSpec(name, parent, **_carried(fields, inner))
        yield from _children(fields.get("children"), inner, name)


def _sharing(
    block: Field | None, names: Names, node: str, members: frozenset[str]
) -> Iterator[ProviderSpec]:
    for key, inner, field in _copies(block, names):
        fields = field.mapping(SHARING_KEYS)
        carried = _carried(fields, inner)
        if not members.intersection(carried["aggregates"]):
            raise field.error("needs an aggregate that the node or a child of it has too")
        carried["traits"] |= {SHARES_VIA_AGGREGATE}
        own = fields.get("name")
        name = _expand(own.text(), inner, own) if own else f"{node}_{key}"
        yield ProviderSpec(name, None, private=own is None, **carried)


def _carried(fields: Mapping[str, Field], names: Names) -> dict[str, Any]:
    inventory = fields["inventory"].mapping() if "inventory" in fields else {}
    aggregates = fields["aggregates"].items() if "aggregates" in fields else ()
    return {
        "inventory": {name: _record(record) for name, record in inventory.items()},
        "traits": _texts(fields.get("traits"), names),
        "aggregates": frozenset(_uuid(item, names) for item in aggregates),
    }


def _record(field: Field) -> dict[str, Any]:
    """Return an inventory record.  Values out of range are left to the agent, which checks them."""
    if field.scalar:
        return {"total": field.whole()}
    fields = field.mapping(_RECORD_KEYS)
    if "total" not in fields:
        raise field.error("'total' is missing")
    return {
        key: value.number() if key == "allocation_ratio" else value.whole()
        for key, value in fields.items()
    }


def _texts(field: Field | None, names: Names) -> frozenset[str]:
    return frozenset(_expand(item.text(), names, item) for item in (field.items() if field else ()))


def _uuid(field: Field, names: Names) -> str:
    text = _expand(field.text(), names, field)
    uuid = parse_uuid(text)
    if uuid is None:
        raise field.error(f"{text!r} is not a UUID")
    return uuid


def _expand(template: str, names: Names, field: Field) -> str:
    """Fill in the placeholders of ``template``.  :raises BadFile: a placeholder is unknown."""
    try:
        return template.format_map(names)
    except (KeyError, IndexError, AttributeError, TypeError, ValueError) as err:
        known = ", ".join(f"{{{name}}}" for name in sorted(names))
        raise field.error(
            f"can't fill in {template!r} ({err}); the known names are {known}"
        ) from None
