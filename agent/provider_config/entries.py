"""Provider files: their texts, checked by the published JSON schema, as entries.  Pure.

Errors are "has to be …" with the ``description`` of the part of the schema that is violated.
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from operator import attrgetter
from typing import Any

from drivers.errors import BadFile, Diagnostic, Path, path_text
from reportclient.model import Inventory

FILE_NAME = "schema-v1.json"
KNOWN_MINOR = 0
"""Minor version of the newest schema whose keys are all known."""
MOST_VALUES = 100_000
"""Limit of values in one file, so that nested YAML aliases can't exhaust the memory."""

COMPUTE_NODE = "$COMPUTE_NODE"

Texts = tuple[tuple[str, str], ...]
"""Path and content of each file, in the order of reading."""
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
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
    files: Texts = field(default=(), compare=False)

    def all(self) -> tuple[Entry, ...]:
        """Return all entries, that of $COMPUTE_NODE last."""
        return self.explicit if self.default is None else (*self.explicit, self.default)


def parse_files(
    texts: Iterable[tuple[str, str]], earlier_warnings: Iterable[Diagnostic] = ()
) -> Entries:
    """Return the entries of all files, and their warnings after ``earlier_warnings``.

    :raises BadFile: with a diagnostic for each error in all files.
    """
    by_key: dict[Key, Entry] = {}
    files, warnings = tuple(texts), list(earlier_warnings)
    errors, repeated = list[Diagnostic](), list[Diagnostic]()
    for name, text in files:
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
    return Entries(tuple(by_key.values()), default, tuple(warnings), files)


@dataclass(frozen=True, slots=True)
class _File:
    """A parsed file: ``data`` of dicts, lists and scalars, ``lines`` by the path of each value."""

    name: str
    data: Any
    lines: Mapping[Path, int]
    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    def place(self, path: Path) -> str:
        """Return ``file:line`` of the value at ``path``."""
        while path and path not in self.lines:
            path = path[:-1]  # the nearest parent that has a line
        return f"{self.name}:{self.lines.get(path, 1)}"

    def diagnostic(self, path: Path, text: str) -> Diagnostic:
        """Return a diagnostic about the value at ``path``."""
        line = int(self.place(path).rpartition(":")[2])
        return Diagnostic(self.name, line, path_text(path), text)

    def error(self, path: Path, text: str) -> None:
        """Add an error about the value at ``path``."""
        self.errors.append(self.diagnostic(path, text))

    def warn(self, path: Path, text: str) -> None:
        """Add a warning about the value at ``path``."""
        self.warnings.append(self.diagnostic(path, text))


def _read(text: str, name: str, warnings: list[Diagnostic]) -> list[Entry]:
    """Return the entries of one file; warnings are added to ``warnings``.

    :raises BadFile: with a diagnostic for each error, in the order of the file.
    """
    from drivers import yaml_file  # noqa: PLC0415  loaded only with provider files

    lines: dict[Path, int] = {}
    why = "the file is empty; give it a meta.schema_version, or remove it"
    file = _File(name, yaml_file.read(text, name, why).plain(lines, MOST_VALUES), lines)
    _check_schema(file, is_newer=_is_newer(file))
    providers = enumerate(() if file.errors else file.data.get("providers", ()))
    entries = [_entry(file, ("providers", number), provider) for number, provider in providers]
    if file.errors:
        raise BadFile(_in_order(file.errors))
    warnings += _in_order(file.warnings)
    return [entry for entry in entries if entry.inventory or entry.traits]


def _in_order(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    return sorted(set(diagnostics), key=attrgetter("line", "path"))


def _is_newer(file: _File) -> bool:
    """Return whether the file is of a newer 1.x.  :raises BadFile: the major version is not 1."""
    path, version = ("meta", "schema_version"), file.data
    for key in path:
        version = version.get(key) if isinstance(version, dict) else None
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if match is None:
        return False  # an error of the schema
    if match[1] != "1":
        text = f"is {version}; this agent reads 1.x: write the file as 1.x, or upgrade the agent"
        raise BadFile([file.diagnostic(path, text)])
    if is_newer := int(match[2]) > KNOWN_MINOR:
        file.warn(path, f"is {version}, newer than 1.{KNOWN_MINOR}: unknown keys are ignored")
    return is_newer


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


def _check_schema(file: _File, *, is_newer: bool) -> None:
    """Add the errors of a file by the schema, and warnings of ignored keys.

    An unknown key that resembles a known one is an error, unless the file ``is_newer``.
    """
    import jsonschema  # noqa: PLC0415  loaded only with provider files

    schema = _strict(json.loads(published()))
    for error in jsonschema.Draft202012Validator(schema).iter_errors(file.data):
        path: Path = tuple(error.absolute_path)
        kind, value = error.validator, error.instance
        if "propertyNames" in error.schema_path:
            file.error((*path, value), f"has to be {error.schema['description']}")
        elif kind == "not":
            file.error(path, "is reserved, and can't be set")
        elif kind == "required":
            for name in set(error.validator_value) - value.keys():
                file.error(path, f"{name!r} is missing")
        elif kind == "additionalProperties":
            keys = sorted(name for name in error.schema["properties"] if name[:2] != "__")
            for name in value.keys() - error.schema["properties"].keys():
                near = difflib.get_close_matches(name, keys, 1, 0.7)
                if "tolerant" not in error.schema:
                    file.error((*path, name), f"unknown key; known are {', '.join(keys)}")
                elif near:
                    note = file.warn if is_newer else file.error
                    note((*path, name), f"unknown key; is {near[0]} meant?")
                else:
                    file.warn((*path, name), "unknown key: ignored")
        else:
            file.error(path, f"has to be {error.schema['description']}, not {_shown(value)}")


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


def _entry(file: _File, path: Path, provider: Mapping[str, Any]) -> Entry:
    """Return the entry of a provider; its errors are added to those of the file."""
    [(by, identifier)] = provider["identification"].items()
    if identifier == COMPUTE_NODE:
        by = "uuid"  # Nova's own example has it as a name
    elif by == "uuid":
        identifier = identifier.lower()
    inventory: dict[str, Inventory] = {}
    places: dict[str, str] = {}
    for number, item in enumerate(provider.get("inventories", {}).get("additional", ())):
        for name, amounts in item.items():
            where = (*path, "inventories", "additional", number, name)
            # Amounts such as 8.0, which the schema accepts, become integers.
            whole = {k: int(v) if k != "allocation_ratio" else float(v) for k, v in amounts.items()}
            record = Inventory.from_dict(whole).with_defaults(None)
            if problem := record.problem():
                file.error(where, problem)
            if name in inventory:
                file.error(where, f"is listed twice, first at {places[name]}")
            inventory.setdefault(name, record)
            places.setdefault(name, file.place(where))
    traits = frozenset(provider.get("traits", {}).get("additional", ()))
    if not inventory and not traits:
        file.warn(path, "adds neither inventory nor traits: ignored")
    return Entry(by, identifier, file.place(path), inventory, traits, places)
