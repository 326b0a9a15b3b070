"""The saved state of one root: its view and its ledger.

Each provider is a document of its own, so that a small change is a small write.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from agent.ownership.ledger import Holding, Ledger, Removed
from agent.state import files
from agent.state.root_file import Documents, Key, RootFile, root_path
from reportclient.model import canonical_uuid
from reportclient.saved_view import DAMAGE, provider_row, view_fields, view_from_json
from reportclient.snapshot import EMPTY
from reportclient.view import View

LOG = logging.getLogger("compute_agent.placement")

VIEW, LEDGER, REMOVED = "view", "ledger", "removed"
SEEN, EMPTIED = "seen", "emptied"
"""The keys of ``Ledger.seen``, which every saved ledger has, and of ``Ledger.emptied``."""
_KINDS = ("classes", "traits", "aggregates")

_OF_PROVIDERS = {"snapshot", "generations", "certain"}
_BESIDES_PROVIDERS = attrgetter(*sorted({field.name for field in fields(View)} - _OF_PROVIDERS))
"""Returns the fields of a view that do not belong to one provider."""

RootState = tuple[View, Ledger]


@dataclass(slots=True)
class SavedRoot:
    """The saved state of one root; it is the store of a :class:`reportclient.root.Root`."""

    file: RootFile
    root: str
    view: View = field(default_factory=View)
    ledger: Ledger = field(default_factory=Ledger)
    on_disk: RootState = field(default_factory=lambda: (View(), Ledger()))
    """The view and the ledger as the file has them."""
    _unusable: bool = False
    """Whether saved documents can't be used: the next save replaces all of them."""

    @classmethod
    def in_directory(cls, state_path: Path, root: str, *, writing: bool = True) -> "SavedRoot":
        """Return the saved state of a root in a state directory, not loaded yet."""
        return cls(RootFile(root_path(state_path, root), writing), root)

    def load(self, root: str = "") -> View:  # noqa: ARG002  it is the one
        """Load view and ledger and return the view; it is empty, and that logged, if unusable.

        If the file can't be read now, :meth:`load_again` does it later, and nothing is saved until
        then.

        Without a view all of Placement's tree is read.  Without a ledger only providers are removed
        that are this host's by their UUID.
        """
        documents = self.file.read()
        if not documents and not self.file.has_lost:
            return self.view
        self.view = self._view_in(documents_of_kind(VIEW, documents))
        self.ledger = self._ledger_in(
            documents_of_kind(LEDGER, documents), documents_of_kind(REMOVED, documents)
        )
        self.on_disk = self.view, self.ledger
        return self.view

    def load_again(self) -> bool:
        """Load what could not be read before; return whether that was done now."""
        if not self.file.is_unread:
            return False
        self.view, self.ledger = View(), Ledger()
        self.load()
        return not self.file.is_unread

    def save(self, root: str, view: View) -> None:  # noqa: ARG002
        """Save the view; if it can't be written, reporting goes on, and each period tries again.

        Until it is written a restart reads the whole tree from Placement.
        """
        self.view = view
        self._write()

    def save_ledger(self, ledger: Ledger) -> bool:
        """Save the ledger, before Placement is written; return whether it is on disk."""
        self.ledger = ledger
        return self._write()

    def save_again(self) -> None:
        """Save everything: the file is gone."""
        self._unusable = True
        self._write()

    def forget(self, root: str = "") -> None:  # noqa: ARG002
        """Remove the saved state of this root."""
        self.file.forget()
        self.on_disk = View(), Ledger()
        self._mark(outdated=False)

    def _write(self) -> bool:
        if self.file.is_unread:
            return False
        now, is_saved = (self.view, self.ledger), True
        if self.view.generations or self.ledger.begun:
            is_saved = not self._unusable and self.file.save(*changed_documents(self.on_disk, now))
            if not is_saved:
                everything, _ = changed_documents((View(), Ledger()), now)
                is_saved = self.file.replace(everything)
            if is_saved:
                self.on_disk, self._unusable = now, False
        self._mark(outdated=not is_saved)
        return is_saved

    # -- a view that could not be saved

    @property
    def _outdated(self) -> Path:
        """A marker file: it exists while the saved view is outdated and has to be ignored."""
        return self.file.path.with_name(f"outdated-{self.root}")

    def _mark(self, *, outdated: bool) -> None:
        try:
            if self.file.writing and outdated:
                files.touch(self._outdated)
            elif self.file.writing and self._outdated.exists():
                self._outdated.unlink(missing_ok=True)
        except OSError:
            LOG.debug("%s can't be written", self._outdated)

    # -- reading

    def _view_in(self, documents: Mapping[str, Any]) -> View:
        if self._outdated.exists():
            LOG.debug("The saved view of the root %s is outdated and ignored", self.root)
            return View()
        try:
            return view_from(documents)
        except DAMAGE as err:
            self._unusable = True
            LOG.warning(
                "The saved view of the root %s in %s is ignored, Placement is read instead: %s",
                self.root,
                self.file.path,
                err,
            )
            return View()

    def _ledger_in(self, documents: Mapping[str, Any], removed: Mapping[str, Any]) -> Ledger:
        if not documents:
            return self._lost("is missing")
        try:
            return ledger_from(documents, removed)
        except DAMAGE as err:
            self._unusable = True
            return self._lost(f"can't be used ({err})")

    def _lost(self, what: str) -> Ledger:
        LOG.warning(
            "The ledger of the root %s in %s %s: this agent owns what its drivers report from now "
            "on, and removes nothing else",
            self.root,
            self.file.path,
            what,
        )
        return Ledger()


# -- as documents


def changed_documents(before: RootState, after: RootState) -> tuple[Documents, list[Key]]:
    """Return the documents that changed or are new, and the keys of those to remove."""
    changed, gone = _view_changes(before[0], after[0])
    if after[1] is not before[1] and after[1].begun:
        rows, released = _ledger_changes(before[1], after[1])
        changed, gone = {**rows, **changed}, gone + released
    return changed, gone


def documents_of_kind(kind: str, documents: Mapping[Key, Any]) -> dict[str, Any]:
    """Return the documents of one kind by their keys."""
    return {key: document for (each, key), document in documents.items() if each == kind}


def view_from(documents: Mapping[str, Any]) -> View:
    """Return the view from its documents; it is not ``certain``: it has to be verified.

    :raises ValueError: or LookupError, TypeError, AttributeError: the documents are not a view.
    """
    rest = _besides(View())
    rows = {uuid: row for uuid, row in documents.items() if uuid not in rest}
    besides = {name: documents.get(name, value) for name, value in rest.items()}
    generations = {uuid: row[1] for uuid, row in rows.items() if row[1] is not None}
    providers = [row[0] for row in rows.values()]
    return view_from_json({**besides, "generations": generations, "providers": providers})


def ledger_from(documents: Mapping[str, Any], removed: Mapping[str, Any]) -> Ledger:
    """Return the ledger from its documents.

    :raises ValueError: or LookupError, TypeError, AttributeError: they are not a ledger.
    """
    holders = {
        canonical_uuid(uuid, "provider"): {
            str(manager): _holding(held) for manager, held in row.items()
        }
        for uuid, row in documents.items()
        if uuid not in {SEEN, EMPTIED}
    }
    removed = {
        canonical_uuid(uuid, "provider"): Removed(_generation(number), _holding(held))
        for uuid, (number, held) in removed.items()
    }
    emptied = _names(documents.get(EMPTIED, ()))
    return Ledger(holders, _names(documents[SEEN]), True, removed, emptied)


def _view_changes(before: View, after: View) -> tuple[Documents, list[Key]]:
    if before is after:
        return {}, []
    changed: Documents = {}
    if _BESIDES_PROVIDERS(before) != _BESIDES_PROVIDERS(after):
        rest = _besides(before)
        changed = {
            (VIEW, key): value for key, value in _besides(after).items() if value != rest[key]
        }
    now, then = after.snapshot, before.snapshot
    others = (uuid for uuid in now.changed_since(then) if now.get(uuid) != then.get(uuid))
    earlier, later = before.generations, after.generations
    moved = [uuid for uuid, number in later.items() if earlier.get(uuid) != number]
    for uuid in dict.fromkeys((*others, *moved, *sorted(earlier.keys() - later.keys()))):
        provider = now.get(uuid)
        if provider is not None:
            changed[VIEW, uuid] = [provider_row(provider), after.generations.get(uuid)]
    return changed, _gone(VIEW, before.snapshot.providers, after.snapshot.providers)


def _besides(view: View) -> dict[str, Any]:
    return view_fields(replace(view, snapshot=EMPTY, generations={}, certain=False))


def _ledger_changes(before: Ledger, after: Ledger) -> tuple[Documents, list[Key]]:
    changed: Documents = {
        (LEDGER, uuid): {manager: _plain(held) for manager, held in sorted(row.items())}
        for uuid, row in after.holders.items()
        if row is not before.holders.get(uuid) and row != before.holders.get(uuid)
    }
    if after.seen != before.seen or not before.begun:
        changed[LEDGER, SEEN] = sorted(after.seen)
    if after.emptied != before.emptied:
        changed[LEDGER, EMPTIED] = sorted(after.emptied)
    for uuid, claims in after.removed.items():
        if claims != before.removed.get(uuid):
            changed[REMOVED, uuid] = [claims.generation, _plain(claims.holding)]
    gone = _gone(REMOVED, before.removed, after.removed)
    return changed, _gone(LEDGER, before.holders, after.holders) + gone


def _gone(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Key]:
    return [(kind, uuid) for uuid in sorted(before.keys() - after.keys())]


def _plain(held: Holding) -> dict[str, Any]:
    row: dict[str, Any] = {"provider": True} if held.provider else {}
    kinds = zip(_KINDS, held[1:], strict=True)
    return row | {kind: sorted(names) for kind, names in kinds if names}


def _holding(row: Mapping[str, Any]) -> Holding:
    return Holding(row.get("provider") is True, *(_names(row.get(kind, ())) for kind in _KINDS))


def _generation(value: Any) -> int | None:
    if not isinstance(value, int | None):
        raise TypeError(f"{value!r} is no generation")
    return value


def _names(names: Any) -> frozenset[str]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{names!r} is no list of names")
    return frozenset(names)
