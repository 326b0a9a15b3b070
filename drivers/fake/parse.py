"""The text of a script -> :class:`Script`.  Pure; every error has file, line and path.

``parse_providers`` and ``parse_events`` read the blocks of the file; here they come
together to nodes, with what each event of the file means for each node.
"""

from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase

from drivers import yaml_file
from drivers.errors import DriverError
from drivers.fake.parse_events import CHANGE_KEYS, FAILURE_KEYS, read_change, read_failure
from drivers.fake.parse_providers import Names, expand, read_node, replicas
from drivers.fake.script import Change, NodeSpec, ProviderSpec, Script
from drivers.yaml_file import BadFile, Field

_MOST_PROVIDERS = 200_000
"""In one script: a slip in a ``count`` should be an error, not an agent out of memory."""

Events = list[tuple[str, Field]]
"""A pattern of node names, and what happens to those nodes."""


class ScriptError(DriverError):
    """The script can't be used; the message has file, line and path."""


def parse(text: str, source: str, host: str) -> Script:
    """Read a script.  ``source`` names the file in errors, ``host`` stands for ``{host}``.

    :raises ScriptError: with file, line, path and what is wrong.
    """
    try:
        return _script(yaml_file.read(text, source), host)
    except BadFile as err:
        raise ScriptError(str(err)) from err


def _script(top: Field, host: str) -> Script:
    fields = top.mapping({"nodes", "changes", "failures"})
    if "nodes" not in fields:
        raise top.error("'nodes' is missing")
    trees = _trees(fields["nodes"], host)
    changes = _events(fields.get("changes"), CHANGE_KEYS, trees, host)
    failures = _events(fields.get("failures"), FAILURE_KEYS, trees, host)
    return Script({name: _node(name, trees[name], changes, failures, host) for name in trees})


def _trees(nodes: Field, host: str) -> dict[str, tuple[ProviderSpec, ...]]:
    trees: dict[str, tuple[ProviderSpec, ...]] = {}
    shared: set[str] = set()
    room = _MOST_PROVIDERS
    for key, field in nodes.mapping().items():
        for names in replicas(key, field, {"host": host}):
            name = expand(key, names, field)
            if name in trees:
                raise field.error(f"node {name!r} is there twice")
            found = read_node(field, {**names, "node": name}, room)
            trees[name] = tuple(replace(one, awaited=one.name in shared) for one in found)
            shared.update(one.name for one in found if not one.private)
            room -= len(trees[name])
    return trees


def _events(field: Field | None, keys: Iterable[str], nodes: Iterable[str], host: str) -> Events:
    found: Events = []
    for item in field.items() if field else ():
        where = item.mapping(keys).get("node")
        pattern = "*" if where is None else expand(where.text(), {"host": host}, where)
        if not any(fnmatchcase(name, pattern) for name in nodes):
            raise (where or item).error("no node has such a name")
        found.append((pattern, item))
    return found


def _node(
    name: str, providers: tuple[ProviderSpec, ...], changes: Events, failures: Events, host: str
) -> NodeSpec:
    names: Names = {"host": host, "node": name}
    known = {provider.ref: provider for provider in providers}
    read: list[Change] = []
    for change in _about(name, changes):
        read.append(read_change(change, names, known))
        known.update((child.ref, child) for child in read[-1].children)
    failing = tuple(read_failure(failure, known) for failure in _about(name, failures))
    return NodeSpec(name, providers, tuple(read), failing)


def _about(name: str, events: Events) -> list[Field]:
    return [field for pattern, field in events if fnmatchcase(name, pattern)]
