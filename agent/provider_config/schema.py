"""The published JSON schema of provider files, and what a file says against it.

The ``description`` of each part of the schema completes "has to be …".
"""

import json
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Any

from agent.provider_config.document import Document, Finding, Path

FILE_NAME = "schema-v1.json"


def published() -> str:
    """The schema as it is shipped."""
    return resources.files(__package__).joinpath(FILE_NAME).read_text(encoding="utf-8")


def breaches(document: Document) -> list[Finding]:
    """All that the schema does not allow, in the order of the file."""
    import jsonschema  # noqa: PLC0415  for those who have such files

    validator = jsonschema.Draft202012Validator(json.loads(published()))
    found = [one for error in validator.iter_errors(document.data) for one in _found(error)]
    findings = {document.finding(path, text): None for path, text in found}
    return sorted(findings, key=lambda one: (one.line, one.path))


def _found(error: Any) -> Iterator[tuple[Path, str]]:
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
        return f"one with {_listed(value)}" if value else "an empty one"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str | int | float) else str(value)


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
