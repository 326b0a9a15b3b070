"""What processes use, by /proc: each with all that it started, those that have ended included."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def family(pids: Iterable[int]) -> set[int]:
    """They, and all below them."""
    children: dict[int, list[int]] = {}
    for pid, fields in _all():
        children.setdefault(int(fields[1]), []).append(pid)
    found, next_ = set[int](), list(pids)
    while next_:
        pid = next_.pop()
        found.add(pid)
        next_ += children.get(pid, [])
    return found


def cpu(pids: Iterable[int]) -> float:
    """Seconds, in user and system mode."""
    ours = family(pids)
    return sum(sum(map(int, fields[11:15])) for pid, fields in _all() if pid in ours) / TICKS


def memory(pids: Iterable[int]) -> float:
    """MiB; what processes share counts once for each that shares it, in parts (PSS)."""
    return sum(map(_proportional, family(pids))) / 1024


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _all() -> Iterator[tuple[int, list[str]]]:
    """The fields of each process's stat after its name."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            yield int(entry.name), text.rpartition(")")[2].split()
