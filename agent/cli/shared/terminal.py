"""Where computectl writes: whatever is in a text, the terminal shows it and obeys none of it.

Only the colours of ``Look`` get through, and line breaks; those of names and reasons are
escaped where they are put into a line (``reportclient.plain_text``), as here nobody can tell.
"""

from __future__ import annotations

import re
from typing import Any, TextIO, cast

from agent.cli.shared.screen import COLOUR_CODES
from reportclient.plain_text import plain

_LINES = "\n\t"
_COLOURS = re.compile("(" + "|".join(map(re.escape, COLOUR_CODES)) + ")")
_PLAINER = str.maketrans({"…": "...", "×": "x", "→": "->"})  # noqa: RUF001
"""Our own words, for those that can't show them."""


class Terminal:
    """A stream that can be given any text; all else is the stream's."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @classmethod
    def of(cls, stream: TextIO) -> TextIO:
        """It has all that a stream has."""
        return cast("TextIO", cls(stream))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As much of it as can be seen; what the encoding lacks is escaped as well."""
        parts = _COLOURS.split(text)
        shown = "".join(
            part if number % 2 else plain(part, _LINES) for number, part in enumerate(parts)
        )
        self._stream.write(_encodable(shown, self._stream.encoding))
        return len(text)

    def replace_line(self, words: str) -> None:
        """In place of what was written before on this line."""
        self._stream.write(f"\r\033[K{_encodable(plain(words), self._stream.encoding)}")
        self._stream.flush()


def _encodable(text: str, encoding: str | None) -> str:
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        assert encoding is not None
        found = text.translate(_PLAINER).encode(encoding, "backslashreplace")
        return found.decode(encoding)
    return text
