"""Provider files as data with line numbers, checked by the published JSON schema.  Pure.

Errors are "has to be …" with the ``description`` of the part of the schema that is violated.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from drivers.diagnostics import Diagnostic, Path, path_text

FILE_NAME = "schema-v1.json"


MOST_VALUES = 100_000
"""Limit of values in one file, so that nested YAML aliases can't exhaust the memory."""


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: ``data`` of dicts, lists and scalars, ``lines`` by the path of each value."""

    source: str
    data: Any
    lines: Mapping[Path, int]

    def place(self, path: Path) -> str:
        """Return ``file:line`` of the value at ``path``, or of its nearest existing parent."""
        return f"{self.source}:{self._line(path)}"

    def diagnostic(self, path: Path, text: str) -> Diagnostic:
        """Return a diagnostic about the value at ``path``."""
        return Diagnostic(self.source, self._line(path), path_text(path), text)

    def _line(self, path: Path) -> int:
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read(text: str, source: str) -> Document:
    """Parse the text of a file; ``source`` is its name in diagnostics.

    :raises BadFile: the text is not YAML, is empty, or has a duplicate key.
    """
    from drivers import yaml_file  # noqa: PLC0415  loaded only with provider files

    why = "the file is empty; give it a meta.schema_version, or remove it"
    lines: dict[Path, int] = {}
    return Document(source, yaml_file.read(text, source, why).plain(lines, MOST_VALUES), lines)


def published() -> str:
    """Return the text of the JSON schema that is shipped."""
    return resources.files(__package__).joinpath(FILE_NAME).read_text(encoding="utf-8")


def breaches(document: Document) -> list[Diagnostic]:
    """Return a diagnostic for each violation of the schema, in the order of the file."""
    import jsonschema  # noqa: PLC0415  loaded only with provider files

    validator = jsonschema.Draft202012Validator(json.loads(published()))
    wrong = [pair for error in validator.iter_errors(document.data) for pair in _breach(error)]
    diagnostics = {document.diagnostic(path, text): None for path, text in wrong}
    return sorted(diagnostics, key=lambda diagnostic: (diagnostic.line, diagnostic.path))


def unknown_keys(data: Any) -> Iterator[tuple[Path, list[str]]]:
    """Yield the path of each unknown key that the schema tolerates, with the known keys there."""
    schema = json.loads(published())
    return _unknown(data, schema, schema["$defs"], ())


def _unknown(data: Any, schema: Any, parts: Any, path: Path) -> Iterator[tuple[Path, list[str]]]:
    schema = parts.get(schema.get("$ref", "").rpartition("/")[2], schema)
    named = schema.get("properties")
    if isinstance(data, list):
        for number, item in enumerate(data):
            yield from _unknown(item, schema.get("items", {}), parts, (*path, number))
    elif isinstance(data, dict) and named and "additionalProperties" not in schema:
        for key, value in data.items():
            if key in named:
                yield from _unknown(value, named[key], parts, (*path, key))
            else:
                yield (*path, key), [name for name in named if not name.startswith("__")]


def _breach(error: Any) -> Iterator[tuple[Path, str]]:
    path: Path = tuple(error.absolute_path)
    kind, value = error.validator, error.instance
    if "propertyNames" in error.schema_path:
        yield (*path, value), f"has to be {error.schema['description']}"
    elif kind == "not":
        yield path, "is reserved, and can't be set"
    elif kind == "required":
        for name in error.validator_value:
            if name not in value:
                yield path, f"{name!r} is missing"
    elif kind == "additionalProperties":
        known = error.schema["properties"]
        for name in value:
            if name not in known:
                yield (*path, name), f"unknown key; known are {', '.join(sorted(known))}"
    else:
        yield path, f"has to be {error.schema['description']}, not {_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"a mapping with {_listed(value)}" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str | int | float) else str(value)


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
