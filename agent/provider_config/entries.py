"""Provider files: their texts, checked by the published JSON schema, as entries.  Pure.

Errors are "has to be …" with the ``description`` of the part of the schema that is violated.
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from drivers.errors import BadFile, Diagnostic, Path, path_text
from reportclient.model import Inventory

FILE_NAME = "schema-v1.json"
KNOWN_MINOR = 0
"""Minor version of the newest schema whose keys are all known."""
MOST_VALUES = 100_000
"""Limit of values in one file, so that nested YAML aliases can't exhaust the memory."""

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

    def __str__(self) -> str:
        return f"{self.place} ({self.by} {self.identifier})"


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of all files in their order; ``default`` is that of $COMPUTE_NODE."""

    explicit: tuple[Entry, ...] = ()
    default: Entry | None = None

    def all(self) -> tuple[Entry, ...]:
        """Return all entries, that of $COMPUTE_NODE last."""
        return self.explicit if self.default is None else (*self.explicit, self.default)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The content of valid files."""

    entries: Entries
    warnings: tuple[Diagnostic, ...] = ()
    files: tuple[str, ...] = ()


def parse_files(
    texts: Iterable[tuple[str, str]], earlier_warnings: Iterable[Diagnostic] = ()
) -> Loaded:
    """Return the entries of all files, and their warnings after ``earlier_warnings``.

    :raises BadFile: with a diagnostic for each error in all files.
    """
    by_key: dict[Key, Entry] = {}
    warnings, errors, names = list(earlier_warnings), list[Diagnostic](), []
    repeated = []
    for name, text in texts:
        names.append(name)
        try:
            entries = _read(text, name, warnings)
        except BadFile as err:
            errors += err.diagnostics
            continue
        for entry in entries:
            first = by_key.setdefault(entry.key, entry)
            if first is not entry:
                file, _, line = entry.place.rpartition(":")
                twice = (
                    f"the provider with the {entry.by} {entry.identifier} is described in "
                    f"{first.place} already; merge the two entries"
                )
                repeated.append(Diagnostic(file, int(line), "", twice))
    if errors or repeated:
        raise BadFile([*errors, *repeated])
    default = by_key.pop(("uuid", COMPUTE_NODE), None)
    return Loaded(Entries(tuple(by_key.values()), default), tuple(warnings), tuple(names))


@dataclass(frozen=True, slots=True)
class _File:
    """A parsed file: ``data`` of dicts, lists and scalars, ``lines`` by the path of each value."""

    name: str
    data: Any
    lines: Mapping[Path, int]

    def diagnostic(self, path: Path, text: str) -> Diagnostic:
        """Return a diagnostic about the value at ``path``."""
        return Diagnostic(self.name, self._line(path), path_text(path), text)

    def place(self, path: Path) -> str:
        """Return ``file:line`` of the value at ``path``."""
        return f"{self.name}:{self._line(path)}"

    def _line(self, path: Path) -> int:
        while path and path not in self.lines:
            path = path[:-1]  # the nearest parent that has a line
        return self.lines.get(path, 1)


def _read(text: str, name: str, warnings: list[Diagnostic]) -> list[Entry]:
    """Return the entries of one file; warnings are added to ``warnings``.

    :raises BadFile: with a diagnostic for each error.
    """
    from drivers import yaml_file  # noqa: PLC0415  loaded only with provider files

    lines: dict[Path, int] = {}
    why = "the file is empty; give it a meta.schema_version, or remove it"
    file = _File(name, yaml_file.read(text, name, why).plain(lines, MOST_VALUES), lines)
    newer = _newer_minor(file)
    wrong, ignored = _breaches(file, is_newer=newer is not None)
    if newer:
        warnings.append(newer)
    if wrong:
        raise BadFile(wrong)
    warnings += ignored
    entries = []
    for number, provider in enumerate(file.data.get("providers", ())):
        path = ("providers", number)
        entry, problems = _entry(file, path, provider)
        wrong += problems
        if entry.inventory or entry.traits:
            entries.append(entry)
        elif not problems:
            warnings.append(file.diagnostic(path, "adds neither inventory nor traits: ignored"))
    if wrong:
        raise BadFile(wrong)
    return entries


def _newer_minor(file: _File) -> Diagnostic | None:
    """Return a warning for a newer 1.x.  :raises BadFile: the major version is not 1."""
    path, version = ("meta", "schema_version"), file.data
    for key in path:
        version = version.get(key) if isinstance(version, dict) else None
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if match is None:
        return None  # an error of the schema
    if match[1] != "1":
        text = f"is {version}; this agent reads 1.x: write the file as 1.x, or upgrade the agent"
        raise BadFile([file.diagnostic(path, text)])
    if int(match[2]) <= KNOWN_MINOR:
        return None
    text = f"is {version}, newer than 1.{KNOWN_MINOR}: unknown keys are ignored"
    return file.diagnostic(path, text)


def published() -> str:
    """Return the text of the JSON schema that is shipped."""
    return resources.files(__package__).joinpath(FILE_NAME).read_text(encoding="utf-8")


def _strict(schema: Any) -> Any:
    """Return the schema with unknown keys as errors; where they were none, it is ``tolerant``."""
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        strict |= {"additionalProperties": False, "tolerant": True}
    return strict


def _breaches(  # noqa: C901  a branch for each kind of error
    file: _File, *, is_newer: bool
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """Check a file by the schema; return errors, and warnings of ignored keys, by line.

    An unknown key that resembles a known one is an error, unless the file ``is_newer``.
    """
    import jsonschema  # noqa: PLC0415  loaded only with provider files

    found: dict[Diagnostic, bool] = {}

    def note(path: Path, text: str, *, is_error: bool = True) -> None:
        found[file.diagnostic(path, text)] = is_error

    schema = _strict(json.loads(published()))
    for error in jsonschema.Draft202012Validator(schema).iter_errors(file.data):
        path: Path = tuple(error.absolute_path)
        kind, value = error.validator, error.instance
        if "propertyNames" in error.schema_path:
            note((*path, value), f"has to be {error.schema['description']}")
        elif kind == "not":
            note(path, "is reserved, and can't be set")
        elif kind == "required":
            for name in error.validator_value:
                if name not in value:
                    note(path, f"{name!r} is missing")
        elif kind == "additionalProperties":
            keys = sorted(name for name in error.schema["properties"] if name[:2] != "__")
            for name in value.keys() - error.schema["properties"].keys():
                near = difflib.get_close_matches(name, keys, 1, 0.7)
                if "tolerant" not in error.schema:
                    note((*path, name), f"unknown key; known are {', '.join(keys)}")
                elif near:
                    text = f"unknown key; is {near[0]} meant?"
                    note((*path, name), text, is_error=not is_newer)
                else:
                    note((*path, name), "unknown key: ignored", is_error=False)
        else:
            note(path, f"has to be {error.schema['description']}, not {_shown(value)}")
    by_line = sorted(found, key=lambda diagnostic: (diagnostic.line, diagnostic.path))
    return [each for each in by_line if found[each]], [each for each in by_line if not found[each]]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"a mapping with {' and '.join(sorted(value))}" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str | int | float) else str(value)


def _entry(file: _File, path: Path, provider: Mapping[str, Any]) -> tuple[Entry, list[Diagnostic]]:
    """Return the entry of a provider, and a diagnostic for each error in its inventories."""
    [(by, identifier)] = provider["identification"].items()
    if identifier == COMPUTE_NODE:
        by = "uuid"  # Nova's own example has it as a name
    elif by == "uuid":
        identifier = identifier.lower()
    inventory: dict[str, Inventory] = {}
    places: dict[str, str] = {}
    problems = []
    for number, item in enumerate(provider.get("inventories", {}).get("additional", ())):
        for name, amounts in item.items():
            where = (*path, "inventories", "additional", number, name)
            # Amounts such as 8.0, which the schema accepts, become integers.
            whole = {k: int(v) if k != "allocation_ratio" else float(v) for k, v in amounts.items()}
            record = Inventory.from_dict(whole).with_defaults(None)
            if problem := record.problem():
                problems.append(file.diagnostic(where, problem))
            if name in inventory:
                text = f"is listed twice, first at {places[name]}"
                problems.append(file.diagnostic(where, text))
            inventory.setdefault(name, record)
            places.setdefault(name, file.place(where))
    traits = frozenset(provider.get("traits", {}).get("additional", ()))
    return Entry(by, identifier, file.place(path), inventory, traits, places), problems
