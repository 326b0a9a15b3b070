"""An older version of this source, to run beside the present one."""

from __future__ import annotations

import configparser
import io
import subprocess
import tarfile
from pathlib import Path

from tests.servers.agent import REPOSITORY

FIRST_FILE_SINCE = "deploy/ansible/roles/compute_common/tasks/broker_user.yml"
"""There was no release: the version before ended with the commit before this file was added, the
first one after messages, records, tables and saved state had today's formats.  A change of a format
that cannot be read by the version before moves it."""
SOURCES = ("agent", "compute_registry", "computectl", "driverkit", "drivers", "reportclient")


def unpacked(directory: Path) -> Path | str:
    """Its source in that new directory, or why there is none."""
    commit = _git("log", "--diff-filter=A", "--format=%H", "--", FIRST_FILE_SINCE).split()
    before = commit and _git("rev-parse", "--verify", "--quiet", f"{commit[-1].decode()}~1")
    if not before:
        return "no version before: this is no clone with its whole history"
    archive = _git("archive", before.strip().decode(), "setup.cfg", *SOURCES)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(directory, filter="data")
    _declare_entry_points(directory)
    return directory


def environment(source: Path) -> dict[str, str]:
    """In which a program of this project runs from that source, whatever is installed."""
    return {"PYTHONPATH": str(source), "PYTHONSAFEPATH": "yes"}


def _declare_entry_points(directory: Path) -> None:
    """Metadata of its own: of two with one name, Python takes the first on its path."""
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(directory / "setup.cfg")
    metadata = directory / "compute_agent-0.0.dist-info"
    metadata.mkdir()
    metadata.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {setup['metadata']['name']}\nVersion: 0.0\n"
    )
    metadata.joinpath("entry_points.txt").write_text(
        "".join(f"[{group}]{lines}\n" for group, lines in setup["options.entry_points"].items())
    )


def _git(*words: str) -> bytes:
    """What git prints; nothing where that can't be found out."""
    try:
        return subprocess.run(["git", "-C", REPOSITORY, *words], capture_output=True).stdout
    except FileNotFoundError:
        return b""
