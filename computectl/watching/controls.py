"""Read single keys of a terminal, and apply them to the state of the screen."""

import os
import select
import termios
import tty
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

GONE = "gone"
"""The key that always quits: Ctrl-C, Ctrl-D, or a closed terminal."""
NAMES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "pgup",
    "\x1b[6~": "pgdn",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\x1bOH": "home",
    "\x1bOF": "end",
    "\x1b": "esc",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": GONE,
    "\x04": GONE,
}
LONGEST_FIRST = sorted(NAMES, key=len, reverse=True)


@dataclass(slots=True)
class Keyboard:
    """A context in which keys are read one by one and not echoed; restores the terminal."""

    fd: int
    _before: list[Any] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self.fd)
        tty.setcbreak(self.fd)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(termios.error):
            # TCSANOW: must not wait for a terminal that accepts no output.
            termios.tcsetattr(self.fd, termios.TCSANOW, self._before)

    def keys(self, seconds: float) -> list[str]:
        """Return the pressed keys as soon as there are any; empty after ``seconds``."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return []
        try:
            read = os.read(self.fd, 1024)
        except OSError:
            read = b""
        return keys_in(read.decode(errors="ignore")) if read else [GONE]


def keys_in(text: str) -> list[str]:
    """Return the keys of terminal input: letters and names of special keys; omit unknown ones."""
    keys = []
    while text:
        name = next((code for code in LONGEST_FIRST if text.startswith(code)), "")
        if name == "\x1b" and text[1:2] in ("[", "O"):
            text = text[2:].lstrip("0123456789;")[1:]
            continue
        key, text = (NAMES[name], text[len(name) :]) if name else (text[0], text[1:])
        keys += [key] if name or key.isprintable() else []
    return keys


@dataclass(frozen=True, slots=True)
class Controls:
    """The state that keys change.

    ``filter_text``: the filter; ``order``: how often ``s`` was pressed; ``top``: index of the first
    shown line; ``typing``: keys edit the filter; ``left``: the screen is to be closed.
    """

    filter_text: str = ""
    order: int = 0
    backwards: bool = False
    top: int = 0
    typing: bool = False
    left: bool = False

    def pressed(self, key: str, page: int, lines: int) -> "Controls":
        """Return the state after a key, with ``page`` of ``lines`` lines visible."""
        if key == GONE or (not self.typing and key in ("q", "Q")):
            return replace(self, left=True)
        if self.typing:
            return self._typed(key)
        states = {
            "/": replace(self, typing=True),
            "esc": replace(self, filter_text="", top=0),
            "s": replace(self, order=self.order + 1, top=0),
            "r": replace(self, backwards=not self.backwards, top=0),
        }
        return states.get(key) or self._moved(key, page, lines)

    def _typed(self, key: str) -> "Controls":
        if key == "enter":
            return replace(self, typing=False)
        if key == "esc":
            return replace(self, typing=False, filter_text="", top=0)
        if key == "backspace":
            return replace(self, filter_text=self.filter_text[:-1], top=0)
        return replace(self, filter_text=self.filter_text + key, top=0) if len(key) == 1 else self

    def _moved(self, key: str, page: int, lines: int) -> "Controls":
        last = max(0, lines - page)
        top = {
            "up": self.top - 1,
            "k": self.top - 1,
            "down": self.top + 1,
            "j": self.top + 1,
            "pgup": self.top - page,
            "pgdn": self.top + page,
            " ": self.top + page,
            "home": 0,
            "g": 0,
            "end": last,
            "G": last,
        }.get(key, self.top)
        return replace(self, top=min(max(top, 0), last))
