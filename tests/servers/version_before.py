"""An older version of this source, to run beside the present one."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from tests.servers.agent import REPOSITORY

FIRST_NOTE_SINCE = "releasenotes/notes/packages-of-their-own-8b3d1c60f5e2a947.yaml"
"""There was no release: the version before ended with the commit before this file came, with
which formats began."""
SOURCES = ("agent", "compute_registry", "computectl", "driverkit", "drivers", "reportclient")


def unpacked(directory: Path) -> Path | str:
    """Its source in that new directory, or why there is none."""
    commit = _git("log", "--diff-filter=A", "--format=%H", "--", FIRST_NOTE_SINCE).split()
    before = commit and _git("rev-parse", "--verify", "--quiet", f"{commit[-1].decode()}~1")
    if not before:
        return "no version before: this is no clone with its whole history"
    archive = _git("archive", before.strip().decode(), *SOURCES)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(directory, filter="data")
    return directory


def environment(source: Path) -> dict[str, str]:
    """In which a program of this project runs from that source, whatever is installed."""
    return {"PYTHONPATH": str(source), "PYTHONSAFEPATH": "yes"}


def _git(*words: str) -> bytes:
    """What git prints; nothing where that can't be found out."""
    try:
        return subprocess.run(["git", "-C", REPOSITORY, *words], capture_output=True).stdout
    except FileNotFoundError:
        return b""
