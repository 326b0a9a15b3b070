"""Reads a script: the nodes that the scripted driver reports, each with its devices."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drivers import yaml_file
from drivers.devices import Device
from drivers.errors import BadFile, DriverError
from drivers.yaml_file import Field
from reportclient.model import Inventory, parse_uuid

THIS_HOST = "{host}"
"""Name of the node that is this host."""
PROVIDER_KEYS = frozenset(("inventory", "traits", "aggregates"))
CHILD_KEYS = PROVIDER_KEYS | {"children"}
SHARING_KEYS = PROVIDER_KEYS | {"name"}
NODE_KEYS = CHILD_KEYS | {"uuid", "sharing"}
_RECORD_KEYS = frozenset(Inventory.__dataclass_fields__)


class ScriptError(DriverError):
    """The script has an error; the message has file, line and path."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its UUID in the script, if any, and its devices, the node itself first."""

    uuid: str | None
    devices: tuple[Device, ...]


def parse(text: str, source: str, host: str) -> dict[str, Node]:
    """Return the nodes by name.  ``source`` names the file in errors, ``host`` is this host.

    :raises ScriptError: the script has an error.
    """
    try:
        top = yaml_file.read(text, source)
        fields = top.mapping(("nodes",))
        nodes = fields["nodes"].mapping() if "nodes" in fields else {}
        if not nodes:
            raise top.error("'nodes' is missing or empty")
        if THIS_HOST in nodes and host in nodes:
            raise nodes[host].error(f"is listed twice, once as {THIS_HOST}")
        named = ((host if key == THIS_HOST else key, field) for key, field in nodes.items())
        return {name: _node(name, field) for name, field in named}
    except BadFile as err:
        raise ScriptError(str(err)) from err


def _node(name: str, field: Field) -> Node:
    fields = field.mapping(NODE_KEYS)
    uuid = _uuid(fields["uuid"]) if "uuid" in fields else None
    children, sharing = _children(fields.get("children")), _sharing(fields.get("sharing"), name)
    return Node(uuid, (Device(name, **_reported(fields)), *children, *sharing))


def _children(block: Field | None, parent: str | None = None) -> Iterator[Device]:
    """Yield the devices below ``parent``, parents first; their names are the keys on the path."""
    for key, field in (block.mapping() if block else {}).items():
        fields = field.mapping(CHILD_KEYS)
        name = f"{parent}_{key}" if parent else key
        yield Device(name, **_reported(fields), parent=parent)
        yield from _children(fields.get("children"), name)


def _sharing(block: Field | None, node: str) -> Iterator[Device]:
    for key, field in (block.mapping() if block else {}).items():
        fields = field.mapping(SHARING_KEYS)
        if "aggregates" not in fields:
            raise field.error("needs 'aggregates', which the node gets too")
        name = fields["name"].text() if "name" in fields else f"{node}_{key}"
        yield Device(name, **_reported(fields), sharing=True)


def _reported(fields: Mapping[str, Field]) -> dict[str, Any]:
    traits, aggregates = (
        fields[key].items() if key in fields else () for key in ("traits", "aggregates")
    )
    inventory = fields["inventory"].mapping() if "inventory" in fields else {}
    return {
        "inventory": {name: _record(record) for name, record in inventory.items()},
        "traits": [item.text() for item in traits],
        "aggregates": [_uuid(item) for item in aggregates],
    }


def _record(field: Field) -> int | dict[str, Any]:
    """Return a total or a record.  Values out of range are left to the agent, which checks them."""
    if field.scalar:
        return field.whole()
    fields = field.mapping(_RECORD_KEYS)
    if "total" not in fields:
        raise field.error("'total' is missing")
    return {
        key: value.number() if key == "allocation_ratio" else value.whole()
        for key, value in fields.items()
    }


def _uuid(field: Field) -> str:
    uuid = parse_uuid(field.text())
    if uuid is None:
        raise field.error(f"{field.text()!r} is not a UUID")
    return uuid
