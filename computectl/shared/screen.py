"""Format text for a terminal, and write it safely.  Pure except for the streams.

Control characters are escaped, so that no text from outside controls the terminal, except for the
colours of ``Screen`` and line breaks.  Line breaks in names and reasons are escaped by
``reportclient.plain_text``.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any, TextIO, cast
from unicodedata import combining, east_asian_width

from reportclient.plain_text import plain

NARROWEST = 40
"""Minimum width, in columns; a narrower terminal wraps the lines itself."""
PLAIN_WIDTH = 80
"""Width in columns if it is unknown, as for a pipe or a file."""

_CODES = {"bold": "\033[1m", "red": "\033[31m", "green": "\033[32m", "yellow": "\033[33m"}
_END = "\033[0m"
COLOUR_CODES = (*_CODES.values(), _END)
"""All escape sequences that are ever written."""
_COLOURS = re.compile("(" + "|".join(map(re.escape, COLOUR_CODES)) + ")")

StyledText = tuple[str, str | None]
"""A text, and its style or ``None``."""


@dataclass(frozen=True, slots=True)
class Screen:
    """How to print to a stream: ``width`` in columns; ``terse``: omit traits and aggregates."""

    width: int = PLAIN_WIDTH
    colour: bool = False
    terse: bool = False

    @classmethod
    def for_stream(cls, stream: IO[str], environ: Mapping[str, str] = os.environ) -> "Screen":
        """Return the screen that suits ``stream``."""
        terminal = stream.isatty()
        plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        return cls(_width(stream, environ), terminal and not plain)

    def painted(self, *pieces: StyledText) -> str:
        """Return several styled texts as one line."""
        return "".join(self.paint(*piece) for piece in pieces)

    def paint(self, text: str, style: str | None) -> str:
        """Return a text in bold, red, green or yellow, if the screen has colour."""
        if style is None or not self.colour or not text.strip():
            return text
        return f"{_CODES[style]}{text}{_END}"

    def fold(self, text: str) -> str:
        """Return a text with its lines wrapped at the width."""
        return "\n".join(folded(line, self.width) for line in text.split("\n"))


_PIECE = re.compile(
    r" *(?:`[^`]+`[^ ]*|"
    r"(?:computectl|openstack|compute-agent(?= -))"
    r"(?:(?<![;:,)]) (?!(?:after|and|as|in|on|or|says|shows|to|with)\b)[^ ]+)*"
    r"|[^ ]+)"
)
"""A command, in backticks or up to the end of its clause, or else a word; with spaces before it."""


def folded(line: str, width: int, hanging: int | None = None) -> str:
    """Wrap a line at spaces, so that names, UUIDs and commands stay whole; colours have no width.

    A command that is longer than a line is wrapped, too.  ``hanging``: the indent of further
    lines, by default two more than that of the first.
    """
    if hanging is None:
        hanging = len(line) - len(line.lstrip()) + 2
    room = max(width, hanging + 20)
    words: list[str] = []
    for piece in _PIECE.findall(line) or [line]:
        fits = columns(piece.lstrip()) <= room - hanging
        words += [piece] if fits else re.findall(r" *[^ ]+", piece) or [piece]
    return "\n".join(packed(words, room, " " * hanging))


def packed(pieces: Iterable[str], width: int, hanging: str, line: str = "") -> Iterator[str]:
    """Yield lines of pieces, broken only between pieces; colours have no width.

    ``line``: what the first line begins with; ``hanging``: what further lines begin with, in place
    of the spaces before their first piece.
    """
    for piece in pieces:
        if line.strip() and columns(_COLOURS.sub("", line + piece)) > width:
            yield line
            line = hanging + piece.lstrip()
        else:
            line += piece
    yield line


def in_lines(texts: Iterable[str], width: int) -> Iterator[list[str]]:
    """Yield the words of each line: at most ``width`` columns with two spaces between words.

    A folded family that is too long for a line is broken after a comma, and then indented.
    """
    line: list[str] = []
    room = width
    for word in texts:
        if line and len(word) > room:
            yield line
            line, room = [], width
        if len(word) > width:
            pieces = re.findall("[^,]+,?", word)
            yield from ([piece] for piece in packed(pieces, width, "  "))
            continue
        line.append(word)
        room -= len(word) + 2
    if line:
        yield line


def counted(number: int, what: str) -> str:
    """Return a number with its noun: ``1 host``, ``2 hosts``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _width(stream: IO[str], environ: Mapping[str, str]) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return max(int(columns), NARROWEST)
    try:
        return max(os.get_terminal_size(stream.fileno()).columns, NARROWEST)
    except (OSError, ValueError, AttributeError):
        return PLAIN_WIDTH


_LINES = "\n\t"
_PLAINER = str.maketrans(
    {"…": "...", "×": "x", "→": "->", "◀": "<--"} | dict(zip("├└│─", "|`|-", strict=True))  # noqa: RUF001
)
"""ASCII texts for this program's own characters."""


class Terminal:
    """A text stream that escapes control characters and what its encoding lacks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @classmethod
    def around(cls, stream: TextIO) -> TextIO:
        """Wrap a stream so that it writes printable text only."""
        return cast("TextIO", cls(stream))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text with control characters, and those that the encoding lacks, escaped."""
        parts = _COLOURS.split(text)
        shown = "".join(
            part if number % 2 else plain(part, _LINES) for number, part in enumerate(parts)
        )
        self._stream.write(_encodable(shown, self._stream.encoding))
        return len(text)

    def replace_line(self, text: str) -> None:
        """Write a text in place of the current line."""
        self._stream.write(f"\r\033[K{_encodable(plain(text), self._stream.encoding)}")
        self._stream.flush()


def _encodable(text: str, encoding: str | None) -> str:
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        assert encoding is not None
        return text.translate(_PLAINER).encode(encoding, "backslashreplace").decode(encoding)
    return text


def iso(at: float) -> str:
    """Return a time in seconds since the epoch as ISO 8601, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat()


BETWEEN = "  "


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table: a prefix, texts with their styles, and cells with a common style."""

    prefix: str
    texts: tuple[StyledText, ...] = ()
    cells: tuple[str, ...] = ()
    style: str | None = None

    @property
    def label(self) -> str:
        """The text before the columns, without colour."""
        return self.prefix + BETWEEN.join(text for text, _ in self.texts)


def in_columns(
    lines: Sequence[Line], titles: Sequence[str], screen: Screen, heading: str = ""
) -> Iterator[str]:
    """Yield the lines with their cells in columns, below the titles if any line has cells.

    ``heading``: the title of the names on the left.
    """
    rows = [line for line in lines if line.cells]
    table = [titles, *(row.cells for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    width = max((len(heading), *(len(row.label) for row in rows)))
    roomy = width + sum(widths) + len(BETWEEN) * len(widths) <= screen.width
    gap = BETWEEN if roomy else " "
    if rows:
        yield heading.ljust(width) + _cells(titles, widths, gap)
    for line in lines:
        painted = BETWEEN.join(screen.paint(text, style) for text, style in line.texts)
        if line.cells:
            painted += " " * (width - len(line.label))
            painted += screen.paint(_cells(line.cells, widths, gap), line.style)
        yield (line.prefix + painted).rstrip()


def _cells(cells: Iterable[str], widths: Iterable[int], gap: str) -> str:
    return "".join(gap + cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def columns(text: str) -> int:
    """Return the width of the text in terminal columns: wide letters take two, accents none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text
    )
