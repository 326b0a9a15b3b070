"""YAML whose every value knows its file, line and path, so that errors can say them.

Pure: text in, values or :class:`ScriptError` out.
"""

import difflib
from collections.abc import Iterable
from typing import Any

import yaml

from drivers.errors import DriverError

_NULL, _INT, _FLOAT = (f"tag:yaml.org,2002:{kind}" for kind in ("null", "int", "float"))


class ScriptError(DriverError):
    """The script can't be used; the message has file, line and path."""


class Field:
    """One value of the file.  Keys and texts are taken as written: ``0000:81:00.0`` and
    ``on`` are texts where a text is asked for.
    """

    __slots__ = ("_line", "_node", "_path", "_source")

    def __init__(self, node: yaml.Node, path: str, source: str, line: int | None = None) -> None:
        self._node = node
        self._path = path
        self._source = source
        self._line = node.start_mark.line + 1 if line is None else line

    def error(self, problem: str) -> ScriptError:
        """For the caller to raise."""
        path = f"{self._path}: " if self._path else ""
        return ScriptError(f"{self._source}:{self._line}: {path}{problem}")

    @property
    def empty(self) -> bool:
        """Whether nothing was written, or ``null``."""
        return self._node.tag == _NULL

    @property
    def scalar(self) -> bool:
        """Whether it is one value, no list and no mapping."""
        return isinstance(self._node, yaml.ScalarNode)

    def mapping(self, allowed: Iterable[str] | None = None) -> "dict[str, Field]":
        """Values by key, in the order of the file; nothing written is an empty mapping.

        :raises ScriptError: no mapping, a key twice, or one that is not ``allowed``.
        """
        fields: dict[str, Field] = {}
        for key, value in self._children(yaml.MappingNode, "a mapping (key: value)"):
            if not isinstance(key, yaml.ScalarNode):
                where = Field(key, self._path, self._source)
                raise where.error("a key has to be a text; quote '{…}'")
            path = f"{self._path}.{key.value}" if self._path else key.value
            field = Field(value, path, self._source, key.start_mark.line + 1)
            if key.value in fields:
                raise field.error("is there twice")
            if allowed is not None and key.value not in allowed:
                raise field.error(_unknown(key.value, allowed))
            fields[key.value] = field
        return fields

    def items(self) -> "list[Field]":
        """The items of a list; nothing written is an empty one."""
        children = self._children(yaml.SequenceNode, "a list")
        return [
            Field(item, f"{self._path}[{number}]", self._source)
            for number, item in enumerate(children)
        ]

    def text(self) -> str:
        """A text that is not empty."""
        if not isinstance(self._node, yaml.ScalarNode) or self.empty or not self._node.value:
            raise self.error("has to be a text")
        return str(self._node.value)

    def whole(self) -> int:
        """A whole number."""
        if self._node.tag != _INT:
            raise self.error(f"has to be a whole number{self._instead()}")
        return int(self.plain())

    def number(self) -> float:
        """A number, with or without a fraction."""
        if self._node.tag not in (_INT, _FLOAT):
            raise self.error(f"has to be a number{self._instead()}")
        return float(self.plain())

    def plain(self) -> Any:
        """The value as Python sees it, whatever it is."""
        try:
            return yaml.constructor.SafeConstructor().construct_document(self._node)
        except (yaml.YAMLError, ValueError) as err:
            raise self.error(str(getattr(err, "problem", err))) from err

    def _children(self, kind: type[yaml.CollectionNode], expected: str) -> list[Any]:
        if self.empty:
            return []
        if not isinstance(self._node, kind):
            raise self.error(f"has to be {expected}{self._instead()}")
        return list(self._node.value)

    def _instead(self) -> str:
        return f", not {self._node.value!r}" if isinstance(self._node, yaml.ScalarNode) else ""


def read(text: str, source: str) -> Field:
    """The whole document.  ``source`` is what errors call the file.

    :raises ScriptError: it is no YAML, or empty.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as err:
        raise ScriptError(_syntax(err, source)) from err
    if node is None:
        raise ScriptError(f"{source}:1: the file is empty")
    return Field(node, "", source)


def _syntax(err: yaml.YAMLError, source: str) -> str:
    mark = getattr(err, "problem_mark", None) or getattr(err, "context_mark", None)
    place = source if mark is None else f"{source}:{mark.line + 1}"
    problem = getattr(err, "problem", None) or str(err)
    return f"{place}: not YAML: {problem}"


def _unknown(key: str, allowed: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, allowed, n=1)
    known = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(allowed))}"
    return f"unknown key; {known}"
