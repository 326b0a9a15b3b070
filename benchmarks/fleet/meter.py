"""CPU time and memory of processes from /proc, including their child processes."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def family(pids: Iterable[int]) -> set[int]:
    """Return these processes and all of their descendants."""
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
    """Return the CPU seconds in user and system mode, ended children included."""
    ours = family(pids)
    return sum(sum(map(int, fields[11:15])) for pid, fields in _all() if pid in ours) / TICKS


def memory(pids: Iterable[int]) -> float:
    """Return the memory in MiB; shared pages count proportionally (PSS)."""
    return sum(map(_proportional, family(pids))) / 1024


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _all() -> Iterator[tuple[int, list[str]]]:
    """Yield the pid and the fields of ``stat``, after the name, of each process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            yield int(entry.name), text.rpartition(")")[2].split()
