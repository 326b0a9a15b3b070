"""What the version before kept of a root: files of its own, which stay for a downgrade.

A downgraded agent verifies its old view by generations, as at any start.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.ownership.ledger import FILES, FORMER, NONE, Holding, Ledger
from agent.state import files
from reportclient.model import canonical_uuid
from reportclient.saved_view import UnusableView, restored
from reportclient.view import View

LOG = logging.getLogger(__name__)

VIEW = "view-"
_KINDS = {"class": "classes", "trait": "traits", "aggregate": "aggregates"}


def roots(directory: Path) -> list[str]:
    """UUIDs of the roots that have a view there."""
    return [path.stem.removeprefix(VIEW) for path in directory.glob(f"{VIEW}*.json")]


def view(directory: Path | None, root: str) -> View:
    """What it kept; an empty view, and one line in the log, if it can't be used."""
    if directory is None:
        return View()
    path = directory / f"{VIEW}{root}.json"
    try:
        return restored(files.read(path), root)
    except (FileNotFoundError, NotADirectoryError):
        LOG.debug("No saved view in %s", path)
    except (UnusableView, OSError) as err:
        LOG.warning("Saved view %s is ignored, Placement is read instead: %s", path, err)
    return View()


def ledger(directory: Path | None, root: str, view: View) -> Ledger:
    """What its files and its view say of who asserted what."""
    if directory is None:
        return Ledger()
    parts = _read(directory / f"parts-{root}.json", json.loads)
    added = _read(directory / f"provider-config-{root}.json", _behind_header)
    rows: dict[str, dict[str, Holding]] = {}
    made = _read(directory / f"{VIEW}{root}.json", _behind_header).get("made", ())
    for uuid, who, held in (*_made(made, view), *_reported(parts), *_added(added)):
        row = rows.setdefault(uuid, {})
        row[who] = row.get(who, NONE).joined(held)
    return Ledger(rows, frozenset(parts.get("added", ())), begun=bool(parts))


def forget(directory: Path | None, root: str) -> None:
    """The root is gone: its view would be found again."""
    if directory is not None:
        (directory / f"{VIEW}{root}.json").unlink(missing_ok=True)


def _made(uuids: Iterable[str], view: View) -> Iterator[tuple[str, str, Holding]]:
    for uuid in view.snapshot.providers.keys() & uuids:
        yield uuid, FORMER, Holding(True, frozenset(view.snapshot.providers[uuid].inventory))


def _reported(parts: Mapping[str, Any]) -> Iterator[tuple[str, str, Holding]]:
    for driver, claims in parts.get("drivers", {}).items():
        for kind, uuid, name in claims:
            held: dict[str, Any] = (
                {_KINDS[kind]: frozenset({name})} if kind in _KINDS else {"provider": True}
            )
            yield uuid, f"driver:{driver}", Holding(**held)


def _added(added: Mapping[str, Any]) -> Iterator[tuple[str, str, Holding]]:
    for uuid, one in added.items():
        held = Holding(False, frozenset(one["classes"]), frozenset(one["traits"]))
        yield canonical_uuid(uuid, "provider"), FILES, held


def _read(path: Path, parsed: Callable[[bytes], Any]) -> Mapping[str, Any]:
    try:
        fields: Mapping[str, Any] = parsed(files.read(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return fields


def _behind_header(raw: bytes) -> Any:
    return json.loads(raw.partition(b"\n")[2])
