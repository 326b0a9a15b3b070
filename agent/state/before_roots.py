"""What the version before kept of a root: files of its own, which stay for a downgrade.

A downgraded agent verifies its old view by generations, as at any start.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.ownership.ledger import FILES, FORMER, Holding, Ledger
from agent.state import files
from reportclient.model import canonical_uuid
from reportclient.saved_view import UnusableView, restored
from reportclient.view import View

LOG = logging.getLogger(__name__)

VIEW = "view-"


def roots(directory: Path) -> list[str]:
    """UUIDs of the roots that have a view there."""
    return [path.stem.removeprefix(VIEW) for path in directory.glob(f"{VIEW}*.json")]


def view(directory: Path | None, root: str) -> View:
    """What it kept; an empty view, and one line in the log, if it can't be used."""
    if directory is None:
        return View()
    path = _view(directory, root)
    try:
        return restored(files.read(path), root)
    except (FileNotFoundError, NotADirectoryError):
        LOG.debug("No saved view in %s", path)
    except (UnusableView, OSError) as err:
        LOG.warning("Saved view %s is ignored, Placement is read instead: %s", path, err)
    return View()


def ledger(directory: Path | None, root: str, known: View) -> Ledger:
    """What its files and its view say of who asserted what."""
    found = Ledger()
    for uuid in known.made:
        provider = known.snapshot.get(uuid)
        if provider is not None:
            found = found.adding(FORMER, uuid, Holding(True, frozenset(provider.inventory)))
    parts = _read(directory, f"parts-{root}.json", json.loads)
    for driver, claims in parts.get("drivers", {}).items():
        for kind, uuid, name in claims:
            found = found.adding(f"driver:{driver}", uuid, _claim(kind, name))
    added = _read(directory, f"provider-config-{root}.json", _behind_header)
    for uuid, one in added.items():
        held = Holding(False, frozenset(one["classes"]), frozenset(one["traits"]))
        found = found.adding(FILES, canonical_uuid(uuid, "provider"), held)
    return Ledger(found.holders, frozenset(parts.get("added", ())), begun=bool(parts))


def forget(directory: Path | None, root: str) -> None:
    """The root is gone: its view would be found again."""
    if directory is not None:
        _view(directory, root).unlink(missing_ok=True)


def _view(directory: Path, root: str) -> Path:
    return directory / f"{VIEW}{root}.json"


def _read(directory: Path | None, name: str, parsed: Callable[[bytes], Any]) -> Mapping[str, Any]:
    if directory is None:
        return {}
    try:
        found: Mapping[str, Any] = parsed(files.read(directory / name))
    except (OSError, ValueError, RecursionError):
        return {}
    return found


def _behind_header(raw: bytes) -> Any:
    return json.loads(raw.partition(b"\n")[2])


def _claim(kind: str, name: str) -> Holding:
    match kind:
        case "class":
            return Holding(classes=frozenset({name}))
        case "trait":
            return Holding(traits=frozenset({name}))
        case "aggregate":
            return Holding(aggregates=frozenset({name}))
        case _:
            return Holding(provider=True)
