"""How text has to look where it is going: width, characters, colour.  Pure but for ``of``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

NARROWEST = 40
"""Below this nothing looks well; the terminal may wrap by itself."""
PLAIN_WIDTH = 80
"""Columns where nobody says: a pipe, a file."""

_CODES = {"bold": "\033[1m", "red": "\033[31m", "yellow": "\033[33m"}
_END = "\033[0m"
COLOUR_CODES = (*_CODES.values(), _END)
"""All that is ever written to change how text looks."""


@dataclass(frozen=True, slots=True)
class Branches:
    """The pieces that a tree is drawn with."""

    child: str
    last: str
    line: str
    none: str
    mark: str
    arrow: str


_UNICODE = Branches("├─ ", "└─ ", "│  ", "   ", "◀", "→")
_ASCII = Branches("|- ", "`- ", "|  ", "   ", "<--", "->")


@dataclass(frozen=True, slots=True)
class Look:
    """``width`` in columns; ``boxes``: whether box characters can be shown.

    ``terse`` leaves out what is long: traits and aggregates.
    """

    width: int = PLAIN_WIDTH
    boxes: bool = True
    colour: bool = False
    terse: bool = False

    @classmethod
    def of(cls, stream: IO[str], environ: Mapping[str, str] = os.environ) -> Look:
        """What suits ``stream``."""
        terminal = stream.isatty()
        plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        return cls(_width(stream, environ), _can_show_boxes(stream), terminal and not plain)

    @property
    def branches(self) -> Branches:
        """Box characters, or what stands for them in ASCII."""
        return _UNICODE if self.boxes else _ASCII

    def paint(self, text: str, style: str | None) -> str:
        """``text`` in bold, red or yellow, where there is colour."""
        if style is None or not self.colour or not text.strip():
            return text
        return f"{_CODES[style]}{text}{_END}"


def ago(seconds: float | None) -> str:
    """``7 s``, ``5 min``, ``3 h``; ``never`` for ``None``."""
    if seconds is None:
        return "never"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _can_show_boxes(stream: IO[str]) -> bool:
    pieces = "".join(getattr(_UNICODE, name) for name in Branches.__slots__)
    try:
        pieces.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _width(stream: IO[str], environ: Mapping[str, str]) -> int:
    said = environ.get("COLUMNS", "")
    if said.isdigit() and int(said):
        return max(int(said), NARROWEST)
    try:
        return max(os.get_terminal_size(stream.fileno()).columns, NARROWEST)
    except (OSError, ValueError, AttributeError):
        return PLAIN_WIDTH
