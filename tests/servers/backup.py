"""Copies of a Placement's database, taken and put back while the server runs."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.servers.placement import RealPlacement


def back_up(placement: RealPlacement, to: Path) -> None:
    """Copy all that it knows into the file ``to``."""
    _copy(placement.directory / "placement.sqlite", to)


def restore(placement: RealPlacement, backup: Path) -> None:
    """Make it know what was copied, and nothing else."""
    _copy(backup, placement.directory / "placement.sqlite")


def _copy(source: Path, to: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(to, timeout=60)) as new:
        old.backup(new)
