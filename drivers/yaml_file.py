"""Reads YAML into values that know their file, line and path, for use in errors.

Pure: text in, values or :class:`BadFile` out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from drivers.errors import BadFile, Diagnostic, Path, path_text
from reportclient.model import meant_or_known

_NULL, _INT, _FLOAT, _MERGE = (
    f"tag:yaml.org,2002:{kind}" for kind in ("null", "int", "float", "merge")
)


@dataclass(slots=True)
class _File:
    source: str
    constructor: SafeConstructor = field(default_factory=SafeConstructor)
    merged: set[int] = field(default_factory=set)
    """``id`` of each mapping whose merge keys are resolved; aliases reach a mapping again."""


class Field:
    """A value of the file.  Keys and texts are used as written: ``0000:81:00.0`` and ``on`` are
    texts where a text is expected.
    """

    __slots__ = ("_above", "_file", "_node", "line", "path")

    def __init__(
        self,
        file: _File,
        node: yaml.Node,
        path: Path = (),
        line: int | None = None,
        above: Sequence[yaml.Node] = (),
    ) -> None:
        self._file = file
        self._node = node
        self._above = above
        self.path = path
        self.line = node.start_mark.line + 1 if line is None else line
        if node in above:
            raise self.error("an alias inside of itself")

    def error(self, text: str) -> BadFile:
        """Return an error about this value, for the caller to raise."""
        return BadFile([Diagnostic(self._file.source, self.line, path_text(self.path), text)])

    @property
    def empty(self) -> bool:
        """Whether the value is missing or ``null``."""
        return bool(self._node.tag == _NULL)

    @property
    def scalar(self) -> bool:
        """Whether the value is neither a list nor a mapping."""
        return isinstance(self._node, yaml.ScalarNode)

    def mapping(self, allowed: Iterable[str] | None = None) -> dict[str, "Field"]:
        """Return the values by key, in the order of the file; a missing value is an empty mapping.

        :raises BadFile: not a mapping, a duplicate key, or a key that is not ``allowed``.
        """
        if not self._children(yaml.MappingNode, "a mapping (key: value)"):
            return {}
        self._merge()
        fields: dict[str, Field] = {}
        for key, value in self._node.value:
            field = fields[key.value] = self._child(value, self._name(key), key)
            if allowed is not None and key.value not in allowed:
                raise field.error(f"unknown key{meant_or_known(key.value, sorted(allowed))}")
        return fields

    def items(self) -> list["Field"]:
        """Return the items of a list; a missing value is an empty list."""
        children = self._children(yaml.SequenceNode, "a list")
        return [self._child(item, number, item) for number, item in enumerate(children)]

    def text(self) -> str:
        """Return a text that is not empty.  :raises BadFile: not one."""
        if not isinstance(self._node, yaml.ScalarNode) or self.empty or not self._node.value:
            raise self.error("has to be a text")
        return str(self._node.value)

    def whole(self) -> int:
        """Return a whole number.  :raises BadFile: not one."""
        if self._node.tag != _INT:
            raise self.error(f"has to be a whole number{self._instead()}")
        return int(self.plain())

    def number(self) -> float:
        """Return a number, whole or not.  :raises BadFile: not one."""
        if self._node.tag not in (_INT, _FLOAT):
            raise self.error(f"has to be a number{self._instead()}")
        return float(self.plain())

    def plain(self, lines: dict[Path, int] | None = None, most: int | None = None) -> Any:
        """Return the value as Python's dicts, lists and scalars.

        The line of each value in it is added to ``lines``, by path.

        :raises BadFile: the value can't be read, or has more than ``most`` values in it.
        """
        lines = {} if lines is None else lines
        lines[self.path] = self.line
        if most is not None and len(lines) > most:
            raise self.error(f"more than {most} values")
        if isinstance(self._node, yaml.MappingNode):
            return {name: field.plain(lines, most) for name, field in self.mapping().items()}
        if isinstance(self._node, yaml.SequenceNode):
            return [field.plain(lines, most) for field in self.items()]
        try:
            return self._file.constructor.construct_object(self._node)
        except yaml.YAMLError as err:
            raise _syntax(err, self._file.source) from err
        except ValueError as err:
            raise self.error(f"can't be read: {err}") from err

    def _child(self, node: yaml.Node, name: str | int, place: yaml.Node) -> "Field":
        path, line = (*self.path, name), place.start_mark.line + 1
        return Field(self._file, node, path, line, (*self._above, self._node))

    def _name(self, key: yaml.Node) -> str:
        if isinstance(key, yaml.ScalarNode):
            return str(key.value)
        line = key.start_mark.line + 1
        text = "a key has to be a text; quote '{…}'"
        raise BadFile([Diagnostic(self._file.source, line, path_text(self.path), text)])

    def _merge(self) -> None:
        """Refuse duplicate keys, then resolve merge keys, which may repeat them."""
        if id(self._node) in self._file.merged:
            return
        self._file.merged.add(id(self._node))
        first: dict[str, int] = {}
        duplicates: list[Diagnostic] = []
        for key, value in self._node.value:
            name = self._name(key)
            if name in first and key.tag != _MERGE:
                field = self._child(value, name, key)
                duplicates += field.error(
                    f"is listed twice, first in line {first[name]}"
                ).diagnostics
            first.setdefault(name, key.start_mark.line + 1)
        if duplicates:
            raise BadFile(duplicates)
        try:
            self._file.constructor.flatten_mapping(self._node)  # type: ignore[arg-type]
        except yaml.YAMLError as err:
            raise _syntax(err, self._file.source) from err

    def _children(self, kind: type[yaml.CollectionNode], expected: str) -> list[Any]:
        if self.empty:
            return []
        if not isinstance(self._node, kind):
            raise self.error(f"has to be {expected}{self._instead()}")
        return list(self._node.value)

    def _instead(self) -> str:
        return f", not {self._node.value!r}" if isinstance(self._node, yaml.ScalarNode) else ""


def read(text: str, source: str, empty: str = "the file is empty") -> Field:
    """Return the document's top value.

    ``source`` names the file in errors; ``empty`` is the error's text for an empty file.

    :raises BadFile: the text is not YAML, or empty.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as err:
        raise _syntax(err, source) from err
    except RecursionError:
        raise BadFile([Diagnostic(source, 1, "", "nested too deep")]) from None
    if node is None:
        raise BadFile([Diagnostic(source, 1, "", empty)])
    return Field(_File(source), node)


def _syntax(err: yaml.YAMLError, source: str) -> BadFile:
    mark = getattr(err, "problem_mark", None) or getattr(err, "context_mark", None)
    problem = getattr(err, "problem", None) or str(err).partition("\n")[0]
    line = 1 if mark is None else mark.line + 1
    return BadFile([Diagnostic(source, line, "", f"not YAML: {problem}")])
