"""YAML whose every value knows its line, so that whatever is wrong can be said with its place.

Pure: text in, a :class:`Document` or :class:`BadFiles` out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

Path = tuple[str | int, ...]
"""Keys and positions from the top of a file to a value."""

MOST_VALUES = 100_000
"""In one file: aliases of aliases should be an error, not an agent out of memory."""
_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a value of a file; ``path`` is empty where it is about the file."""

    file: str
    line: int
    path: str
    text: str

    def __str__(self) -> str:
        path = f"{self.path}: " if self.path else ""
        return f"{self.file}:{self.line}: {path}{self.text}"


class BadFiles(Exception):
    """Files that can't be used, and all that is wrong with them."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        super().__init__()
        self.findings = tuple(findings)

    def __str__(self) -> str:
        more = f" (and {len(self.findings) - 1} more)" if self.findings[1:] else ""
        return f"{self.findings[0]}{more}"


@dataclass(frozen=True, slots=True)
class Document:
    """``data`` is of dicts, lists and scalars; ``lines`` by the path of each value."""

    source: str
    data: Any
    lines: Mapping[Path, int]

    def line(self, path: Path) -> int:
        """Of the value, or of what it would be in; keys stand where they are written."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def place(self, path: Path) -> str:
        """``file:line``."""
        return f"{self.source}:{self.line(path)}"

    def finding(self, path: Path, text: str) -> Finding:
        """Something about the value at ``path``."""
        return Finding(self.source, self.line(path), spelled(path), text)


def spelled(path: Path) -> str:
    """``providers[0].traits``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


def read(text: str, source: str) -> Document:
    """The whole file.  ``source`` is what findings call it.

    :raises BadFiles: it is no YAML, is empty, or has a key twice.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            why = "the file is empty; give it a meta.schema_version, or take it away"
            raise BadFiles([Finding(source, 1, "", why)])
        reading = _Reading(source)
        data = reading.value(node, (), ())
    except yaml.YAMLError as err:
        raise BadFiles([_syntax(err, source)]) from err
    except RecursionError:
        raise BadFiles([Finding(source, 1, "", "nested too deep")]) from None
    if reading.twice:
        raise BadFiles(reading.twice)
    return Document(source, data, reading.lines)


@dataclass(slots=True)
class _Reading:
    """One walk over the nodes of a file."""

    source: str
    lines: dict[Path, int] = field(default_factory=dict)
    twice: list[Finding] = field(default_factory=list)
    constructor: yaml.constructor.SafeConstructor = field(
        default_factory=yaml.constructor.SafeConstructor
    )
    _met: set[int] = field(default_factory=set)

    def value(self, node: yaml.Node, path: Path, above: tuple[yaml.Node, ...]) -> Any:
        """As plain data; ``above`` are the nodes that this one is in."""
        self.lines.setdefault(path, node.start_mark.line + 1)
        if len(self.lines) > MOST_VALUES:
            self._refuse(node, path, f"more than {MOST_VALUES} values")
        if node in above:
            self._refuse(node, path, "an alias inside of itself")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, (*above, node))
        if isinstance(node, yaml.SequenceNode):
            inside = (*above, node)
            return [self.value(item, (*path, n), inside) for n, item in enumerate(node.value)]
        try:
            return self.constructor.construct_object(node)
        except ValueError as err:
            self._refuse(node, path, f"can't be read: {err}")

    def _mapping(self, node: yaml.MappingNode, path: Path, above: tuple[yaml.Node, ...]) -> Any:
        if id(node) not in self._met:  # an alias leads here again
            self._met.add(id(node))
            self._note_twice(node, path)
            self.constructor.flatten_mapping(node)
        data = {}
        for key, item in node.value:
            where = (*path, self._key(key, path))
            self.lines[where] = key.start_mark.line + 1
            data[where[-1]] = self.value(item, where, above)
        return data

    def _note_twice(self, node: yaml.MappingNode, path: Path) -> None:
        first: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == _MERGE:
                continue
            name, line = self._key(key, path), key.start_mark.line + 1
            if name in first:
                text = f"is there twice, first in line {first[name]}"
                self.twice.append(Finding(self.source, line, spelled((*path, name)), text))
            first.setdefault(name, line)

    def _key(self, key: yaml.Node, path: Path) -> str:
        if not isinstance(key, yaml.ScalarNode):
            self._refuse(key, path, "a key has to be a text")
        return str(key.value)

    def _refuse(self, node: yaml.Node, path: Path, text: str) -> NoReturn:
        raise BadFiles([Finding(self.source, node.start_mark.line + 1, spelled(path), text)])


def _syntax(err: yaml.YAMLError, source: str) -> Finding:
    mark = getattr(err, "problem_mark", None) or getattr(err, "context_mark", None)
    problem = getattr(err, "problem", None) or str(err).partition("\n")[0]
    return Finding(source, 1 if mark is None else mark.line + 1, "", f"not YAML: {problem}")
