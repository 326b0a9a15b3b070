"""The saved state of one root, its view and its ledger, in one document: ``root-UUID.json``."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.ownership.ledger import Ledger, Removed
from agent.state import files
from agent.state.document import Damaged, Document, Unusable
from reportclient import forms
from reportclient.model import canonical_uuid
from reportclient.provider_tree import Claims
from reportclient.view import View

LOG = logging.getLogger("compute_agent.placement")

FIRST_FILES = {"compute_id", "lost+found"}
"""Names that may be in the state directory before the agent's first start, besides hidden ones."""
_NAME = re.compile(r"root-([0-9a-f-]{36})\.json")
_KINDS = ("classes", "traits", "aggregates")
_GENERATION = forms.optional(forms.count)


def root_path(state_path: Path, root: str) -> Path:
    """Return the path of a root's document."""
    return state_path / f"root-{root}.json"


def saved_roots(state_path: Path) -> list[str]:
    """Return the UUIDs of the roots that are saved in a state directory."""
    try:
        names = [path.name for path in state_path.iterdir()]
    except OSError:
        return []
    return sorted(match[1] for match in map(_NAME.fullmatch, names) if match)


def is_new(state_path: Path) -> bool:
    """Return whether the agent had no file in the state directory yet."""
    try:
        names = {path.name for path in state_path.iterdir()}
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return {name for name in names if not name.startswith(".")} <= FIRST_FILES


@dataclass(slots=True)
class SavedRoot:
    """The saved state of one root; it is the store of a :class:`reportclient.root.Root`."""

    document: Document
    root: str
    view: View = field(default_factory=View)
    ledger: Ledger = field(default_factory=Ledger)
    _on_disk: tuple[View, Ledger] | None = None
    """The view and the ledger as the document has them; ``None``: unknown."""
    _is_unread: bool = False
    """Whether the document could not be read: nothing is saved until it is read."""

    @classmethod
    def in_directory(cls, state_path: Path, root: str, *, writing: bool = True) -> "SavedRoot":
        """Return the saved state of a root in a state directory, not loaded yet."""
        return cls(Document(root_path(state_path, root), writing=writing), root)

    def load(self, root: str = "") -> View:
        """Load view and ledger, and return the view; a damaged or copied document is set aside.

        Without a view all of Placement's tree is read.  Without a ledger only providers are removed
        that are this host's by their UUID.  A copy is of no use: what this host had reported then,
        another service may have set since.
        """
        self.view, self.ledger, self._on_disk = View(), Ledger(), None
        self._is_unread, self.document.problem = False, ""
        try:
            saved = self.document.read(self._parsed, no_copy=True)
        except Damaged as err:
            stays = not self.document.writing or self.document.of_other_machine
            LOG.warning(
                "%s%s: Placement is read instead; this agent owns what its drivers report from now "
                "on, and removes nothing else",
                err,
                "" if stays else files.move_damaged(self.document.path),
            )
        except Unusable as err:
            self._is_unread, self.document.problem = True, str(err)
            LOG.debug("%s", err)
        else:
            if saved is not None:
                self.view, self.ledger = self._on_disk = saved
        return self.view

    def reload(self) -> bool:
        """Load what could not be read before; return whether that was done now."""
        if not self._is_unread:
            return False
        self.load()
        return not self._is_unread

    def save(self, root: str, view: View) -> None:
        """Save the view; if it can't be written, reporting goes on, and each period tries again."""
        self.view = view
        self._write()

    def save_ledger(self, ledger: Ledger) -> bool:
        """Save the ledger, before Placement is written; return whether it is on disk."""
        self.ledger = ledger
        return self._write()

    def forget(self, root: str = "") -> None:
        """Remove the saved state of this root."""
        self._on_disk = None
        if not self._is_unread:
            self.document.remove()

    def _write(self) -> bool:
        """Write the document if it lacks something; return whether it has all."""
        if self._is_unread:
            return False
        now = (self.view, self.ledger)
        if not (self.view.generations or self.ledger.known):
            return True
        saved = self._on_disk
        if saved is None or saved[0] is not self.view or saved[1] is not self.ledger:
            fields = {
                "root": self.root,
                "view": self.view.as_json(),
                "ledger": _ledger_row(self.ledger),
            }
            self.document.save_or_warn(fields, "nothing new is reported in Placement")
            self._on_disk = None if self.document.problem else now
        return not self.document.problem

    def _parsed(self, fields: Mapping[str, Any]) -> tuple[View, Ledger]:
        if fields["root"] != self.root:
            raise ValueError(f"it is of the root {fields['root']}")
        return View.from_json(fields["view"]), _ledger_from(fields["ledger"])


def _ledger_row(ledger: Ledger) -> dict[str, Any] | None:
    if not ledger.known:
        return None
    return {
        "accepted": sorted(ledger.accepted),
        "leaving": sorted(ledger.leaving),
        "claims": {
            uuid: {owner: _claims_row(held) for owner, held in claims.items()}
            for uuid, claims in ledger.claims.items()
        },
        "removed": {
            uuid: [claims.generation, _claims_row(claims.claims)]
            for uuid, claims in ledger.removed.items()
        },
    }


def _ledger_from(row: Mapping[str, Any] | None) -> Ledger:
    if row is None:
        return Ledger()
    claims = {
        canonical_uuid(uuid, "provider"): {owner: _claims(held) for owner, held in rows.items()}
        for uuid, rows in row["claims"].items()
    }
    removed = {
        canonical_uuid(uuid, "provider"): Removed(_GENERATION(number), _claims(held))
        for uuid, (number, held) in row["removed"].items()
    }
    return Ledger(claims, _names(row["accepted"]), True, removed, _names(row["leaving"]))


def _claims_row(held: Claims) -> dict[str, Any]:
    row: dict[str, Any] = {"provider": True} if held.provider else {}
    kinds = zip(_KINDS, held[1:], strict=True)
    return row | {kind: sorted(names) for kind, names in kinds if names}


def _claims(row: Mapping[str, Any]) -> Claims:
    return Claims(row.get("provider") is True, *(_names(row.get(kind, [])) for kind in _KINDS))


def _names(names: Any) -> frozenset[str]:
    return frozenset(forms.TEXTS(names))
