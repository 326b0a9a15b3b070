"""Whether the process that wrote something still runs."""

import os
from pathlib import Path

ENDED = -1
"""In place of a start: nothing that runs has it."""
_DEAD = frozenset("ZX")


def started_at(pid: int) -> int | None:
    """When this process began, in clock ticks since boot: with the pid, it is nobody else's.

    ``None`` if that can't be read, ``ENDED`` if it ended and nobody has taken note yet.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The second field is the program's name, and may hold spaces and parentheses.
        fields = text.rpartition(")")[2].split()
        return ENDED if fields[0] in _DEAD else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def lives(pid: int, started: int | None) -> bool:
    """Whether the process runs, and is the same one: a pid is given away again."""
    if None not in (now := started_at(pid), started) and now != started:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
