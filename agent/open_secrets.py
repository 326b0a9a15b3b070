"""Configuration files with a password in them that everybody on the host may read."""

import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

_SECRET = re.compile(
    r"^(?:\w*(?:password|secret|access_token|auth_token)\w*)\s*[=:]\s*\S"
    r"|^\w+\s*[=:]\s*\w[\w+.-]*://[^/\s:@]*:[^/\s@]+@",
    re.IGNORECASE | re.MULTILINE,
)
"""An option that is a password, or an address with one."""


def open_secrets(files: Iterable[Path]) -> Iterator[str]:
    """One text for each such file, that says what to do.  A file that can't be read is none."""
    for path in files:
        try:
            mode = path.stat().st_mode
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found = _SECRET.search(text)
        if mode & stat.S_IROTH and found:
            line = text[: found.start()].count("\n") + 1
            yield f"{path}:{line} has a password, and everybody may read it: chmod o-r {path}"
