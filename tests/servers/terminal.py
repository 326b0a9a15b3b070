"""A command on a terminal of its own, whose output can be read, and keys be pressed."""

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from tests.waiting import eventually

# It is the one that Ctrl-C comes from.
START = (
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "from computectl.app import main; main()"
)
_CODE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass
class Terminal:
    """``arguments`` of computectl."""

    arguments: list[str]

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self._master, self._slave = pty.openpty()
        env = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "COLUMNS": "80"}
        env.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *self.arguments],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            env=env,
        )
        self._raw = b""
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
                self._raw += found

    @property
    def text(self) -> str:
        """All that was written, without colours."""
        with self._lock:
            return _CODE.sub("", self._raw.decode(errors="replace")).replace("\r\n", "\n")

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, shown: Callable[[str], object], seconds: float = 60.0) -> str:
        """Wait until the text says so."""

        def text() -> str | None:
            found = self.text
            return found if shown(found) else None

        return eventually(text, seconds, process=self.process, otherwise=lambda: self.text)

    def ended(self) -> int:
        return self.process.wait(60)
