"""Reads the file of a script, again when it changes; after an error the last good one is used.

``parse_providers`` and ``parse_events`` parse the blocks of the file; this module puts them
together to nodes, with the changes and failures of each node.
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
"""The most providers of a script, so that a mistyped ``count`` does not exhaust memory."""

Events = list[tuple[str, Field]]
"""Pairs of a pattern of node names and the change or failure for these nodes."""


class ScriptError(DriverError):
    """The script has an error; the message has file, line and path."""


def parse(text: str, source: str, host: str) -> Script:
    """Parse a script.  ``source`` names the file in errors, ``host`` replaces ``{host}``.

    :raises ScriptError: the script has an error.
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
            trees[name] = tuple(replace(it, awaited=it.name in shared) for it in providers)
            shared.update(it.name for it in providers if not it.private)
            room -= len(trees[name])
    return trees


def _events(field: Field | None, keys: Iterable[str], nodes: Iterable[str], host: str) -> Events:
    events: Events = []
    for item in field.items() if field else ():
        where = item.mapping(keys).get("node")
        pattern = "*" if where is None else expand(where.text(), {"host": host}, where)
        if not any(fnmatchcase(name, pattern) for name in nodes):
            raise (where or item).error("matches no node")
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
    """The script of a file; may be used from any thread."""

    def __init__(self, path: Path, host: str) -> None:
        self._path = path
        self._host = host
        self._lock = threading.Lock()
        self._seen: _Signature | None = None
        self._script: Script | None = None
        self._problem: ScriptError | None = None

    @property
    def problem(self) -> str | None:
        """The error in the present file, if any."""
        return None if self._problem is None else str(self._problem)

    def current(self) -> Script:
        """Return the script of the file, or the last good one if the file has an error.

        :raises ScriptError: no valid script was read yet.
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
            # Taken before the read, so that a write in between is noticed the next time.
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
            LOG.warning("Script not reloaded, the last valid script stays in use: %s", err)
        self._problem = err
