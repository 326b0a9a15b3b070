"""Entries of provider files, from checked documents.  Pure."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.provider_config.schema import Document, breaches, unknown_keys
from drivers.diagnostics import BadFile, Diagnostic, Path
from reportclient.model import Inventory

KNOWN_MINOR = 0
"""Minor version of the newest schema whose keys are all known."""

COMPUTE_NODE = "$COMPUTE_NODE"

Key = tuple[str, str]
"""``("uuid", UUID)`` or ``("name", name)`` of a provider."""

_VERSION = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Entry:
    """Additions to one provider, or, for ``$COMPUTE_NODE``, to each root.

    ``by`` is ``uuid`` or ``name``.  Inventories are complete: fields that a file leaves out have
    Placement's defaults.  ``place`` is the ``file:line`` of the entry, ``places`` those of its
    inventories by class.
    """

    by: str
    identifier: str
    place: str
    inventory: Mapping[str, Inventory] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Provider identification; no two entries may have the same."""
        return self.by, self.identifier


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of all files in their order; ``default`` is that of $COMPUTE_NODE."""

    explicit: tuple[Entry, ...] = ()
    default: Entry | None = None

    def all(self) -> tuple[Entry, ...]:
        """Return all entries, that of $COMPUTE_NODE last."""
        return self.explicit if self.default is None else (*self.explicit, self.default)


@dataclass(frozen=True, slots=True)
class FileEntries:
    """The entries of one file, and its warnings."""

    entries: tuple[Entry, ...]
    warnings: tuple[Diagnostic, ...]


def read_entries(document: Document) -> FileEntries:
    """Return the entries of one file.

    :raises BadFile: with a diagnostic for each error.
    """
    newer = _newer_minor(document)
    wrong = breaches(document)
    unknown = list(_unknown_keys(document))
    typos = [diagnostic for diagnostic, near in unknown if near and not newer]
    if wrong or typos:
        raise BadFile(sorted([*wrong, *typos], key=lambda diagnostic: diagnostic.line))
    warnings = [diagnostic for diagnostic, near in unknown if newer or not near]
    if newer:
        warnings.insert(0, newer)
    entries, problems = [], []
    for number, provider in enumerate(document.data.get("providers", ())):
        path = ("providers", number)
        entry, wrong = _entry(document, path, provider)
        problems += wrong
        if entry.inventory or entry.traits:
            entries.append(entry)
        elif not wrong:
            warnings.append(document.diagnostic(path, "adds neither inventory nor traits: ignored"))
    if problems:
        raise BadFile(problems)
    return FileEntries(tuple(entries), tuple(warnings))


def merge_entries(entries: Iterable[Entry]) -> Entries:
    """Return the entries of all files.

    :raises BadFile: a provider has two entries; both places are named.
    """
    first: dict[Key, Entry] = {}
    problems = []
    for entry in entries:
        if entry.key in first:
            file, _, line = entry.place.rpartition(":")
            text = (
                f"the provider with the {entry.by} {entry.identifier} is described in "
                f"{first[entry.key].place} already; merge the two entries"
            )
            problems.append(Diagnostic(file, int(line), "", text))
        first.setdefault(entry.key, entry)
    if problems:
        raise BadFile(problems)
    default = first.pop(("uuid", COMPUTE_NODE), None)
    return Entries(tuple(first.values()), default)


def _newer_minor(document: Document) -> Diagnostic | None:
    """Return a warning for a newer 1.x.  :raises BadFile: the major version is not 1."""
    path = ("meta", "schema_version")
    meta = document.data.get("meta") if isinstance(document.data, dict) else None
    version = meta.get("schema_version") if isinstance(meta, dict) else None
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if match is None:
        return None  # an error of the schema, see breaches
    if match[1] != "1":
        text = f"is {version}; this agent reads 1.x: write the file as 1.x, or upgrade the agent"
        raise BadFile([document.diagnostic(path, text)])
    if int(match[2]) <= KNOWN_MINOR:
        return None
    text = f"is {version}, newer than 1.{KNOWN_MINOR}: unknown keys are ignored"
    return document.diagnostic(path, text)


def _unknown_keys(document: Document) -> Iterator[tuple[Diagnostic, bool]]:
    """Yield a diagnostic for each unknown key, and whether it resembles a known one."""
    for path, known in unknown_keys(document.data):
        near = difflib.get_close_matches(str(path[-1]), known, 1, 0.7)
        text = f"unknown key; is {near[0]} meant?" if near else "unknown key: ignored"
        yield document.diagnostic(path, text), bool(near)


def _entry(
    document: Document, path: Path, provider: Mapping[str, Any]
) -> tuple[Entry, list[Diagnostic]]:
    [(by, identifier)] = provider["identification"].items()
    if identifier == COMPUTE_NODE:
        by = "uuid"  # Nova's own example has it as a name
    elif by == "uuid":
        identifier = identifier.lower()
    classes, problems = _classes(document, (*path, "inventories", "additional"), provider)
    entry = Entry(
        by,
        identifier,
        document.place(path),
        {name: record for name, (record, _) in classes.items()},
        frozenset(provider.get("traits", {}).get("additional", ())),
        {name: place for name, (_, place) in classes.items()},
    )
    return entry, problems


def _classes(
    document: Document, path: Path, provider: Mapping[str, Any]
) -> tuple[dict[str, tuple[Inventory, str]], list[Diagnostic]]:
    """Return inventories and ``file:line`` by class, and a diagnostic for each error."""
    classes: dict[str, tuple[Inventory, str]] = {}
    problems = []
    for number, item in enumerate(provider.get("inventories", {}).get("additional", ())):
        for name, amounts in item.items():
            where = (*path, number, name)
            record = _record(amounts)
            problem = record.problem()
            if problem:
                problems.append(document.diagnostic(where, problem))
            if name in classes:
                text = f"is listed twice, first at {classes[name][1]}"
                problems.append(document.diagnostic(where, text))
            classes.setdefault(name, (record, document.place(where)))
    return classes, problems


def _record(amounts: Mapping[str, Any]) -> Inventory:
    """Return the inventory; amounts such as 8.0, which the schema accepts, become integers."""
    whole = {k: int(v) if k != "allocation_ratio" else float(v) for k, v in amounts.items()}
    return Inventory.from_dict(whole).with_defaults(None)
