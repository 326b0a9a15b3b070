"""A command on a terminal of its own, whose screen can be read, and keys be pressed."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import pyte

from tests.waiting import eventually

# It is the one that Ctrl-C comes from.
START = (
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "from computectl.app import main; main()"
)


@dataclass
class Terminal:
    """``arguments`` of computectl."""

    arguments: list[str]
    columns: int = 80
    lines: int = 24
    environment: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self.screen = pyte.Screen(self.columns, self.lines)
        self._stream = pyte.ByteStream(self.screen)
        self._master, self._slave = pty.openpty()
        self._resize()
        self.before = termios.tcgetattr(self._slave)
        env = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **self.environment}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            env.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *self.arguments],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            env=env,
        )
        self.raw = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)
        os.close(self._slave)
        self._reader.join(60)
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                found = os.read(self._master, 65536)
            except OSError:
                return
            if not found:
                return
            with self._lock:
                self.raw += found
                self._stream.feed(found)

    @property
    def text(self) -> str:
        with self._lock:
            return "\n".join(line.rstrip() for line in self.screen.display)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        with self._lock:
            self.screen.resize(lines, columns)
        self._resize()

    def _resize(self) -> None:
        size = struct.pack("HHHH", self.lines, self.columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def until(self, shown: Callable[[str], object], seconds: float = 60.0) -> str:
        """Wait until the screen says so."""

        def text() -> str | None:
            found = self.text
            return found if shown(found) else None

        return eventually(text, seconds, process=self.process, otherwise=lambda: self.text)

    def ended(self) -> int:
        return self.process.wait(60)

    @property
    def settings(self) -> list[Any]:
        """Of the terminal, such as whether it echoes."""
        return termios.tcgetattr(self._slave)
