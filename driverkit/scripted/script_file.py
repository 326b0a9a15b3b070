"""The file of a script: read again when it changes, and the last good one kept.

``parse_providers`` and ``parse_events`` read the blocks of the file; here they come
together to nodes, with what each event of the file means for each node.
"""

import logging
import threading
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from driverkit.scripted.parse_events import CHANGE_KEYS, FAILURE_KEYS, read_change, read_failure
from driverkit.scripted.parse_providers import Names, expand, read_node, replicas
from driverkit.scripted.script import Change, NodeSpec, ProviderSpec, Script
from drivers import yaml_file
from drivers.diagnostics import BadFile
from drivers.errors import DriverError
from drivers.yaml_file import Field

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
                raise field.error(f"node {name!r} is listed twice")
            providers = read_node(field, {**names, "node": name}, room)
            trees[name] = tuple(replace(one, awaited=one.name in shared) for one in providers)
            shared.update(one.name for one in providers if not one.private)
            room -= len(trees[name])
    return trees


def _events(field: Field | None, keys: Iterable[str], nodes: Iterable[str], host: str) -> Events:
    events: Events = []
    for item in field.items() if field else ():
        where = item.mapping(keys).get("node")
        pattern = "*" if where is None else expand(where.text(), {"host": host}, where)
        if not any(fnmatchcase(name, pattern) for name in nodes):
            raise (where or item).error("no node has such a name")
        events.append((pattern, item))
    return events


def _node(
    name: str, providers: tuple[ProviderSpec, ...], changes: Events, failures: Events, host: str
) -> NodeSpec:
    names: Names = {"host": host, "node": name}
    by_ref = {provider.ref: provider for provider in providers}
    read: list[Change] = []
    for change in _about(name, changes):
        read.append(read_change(change, names, by_ref))
        by_ref.update((child.ref, child) for child in read[-1].children)
    failing = tuple(read_failure(failure, by_ref) for failure in _about(name, failures))
    return NodeSpec(name, providers, tuple(read), failing)


def _about(name: str, events: Events) -> list[Field]:
    return [field for pattern, field in events if fnmatchcase(name, pattern)]


LOG = logging.getLogger(__name__)

_Signature = tuple[int, int, int, int]


class ScriptFile:
    """Any thread may ask for the script."""

    def __init__(self, path: Path, host: str) -> None:
        self._path = path
        self._host = host
        self._lock = threading.Lock()
        self._seen: _Signature | None = None
        self._script: Script | None = None
        self._problem: ScriptError | None = None

    @property
    def problem(self) -> str | None:
        """Return the error of the file as it is now, if any."""
        return None if self._problem is None else str(self._problem)

    def current(self) -> Script:
        """The script of the file, or the last good one if the file is bad.

        :raises ScriptError: there was no good one yet.
        """
        with self._lock:
            try:
                self._read_if_changed()
            except ScriptError as err:
                self._note(err)
            if self._script is None:
                assert self._problem is not None
                raise self._problem
            return self._script

    def _read_if_changed(self) -> None:
        try:
            # Before reading: what is written meanwhile is then seen the next time.
            signature = self._signature()
            if signature == self._seen:
                return
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as err:
            self._seen = None
            raise ScriptError(f"{self._path}: can't be read: {err}") from err
        self._seen = signature
        self._script = parse(text, str(self._path), self._host)
        self._problem = None
        LOG.info("Read the script %s (nodes: %d)", self._path, len(self._script.nodes))

    def _signature(self) -> _Signature:
        stat = self._path.stat()
        return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino

    def _note(self, err: ScriptError) -> None:
        if self._script is not None and str(err) != self.problem:
            LOG.warning("the last good script stays in use: %s", err)
        self._problem = err
