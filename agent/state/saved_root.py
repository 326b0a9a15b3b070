"""The saved state of one root: its view and its ledger.

Each provider is a document of its own, so that a small change is a small write.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.ownership.ledger import Ledger
from agent.state.documents import (
    LEDGER,
    REMOVED,
    VIEW,
    changed_documents,
    documents_of_kind,
    ledger_from,
    view_from,
)
from agent.state.roots import RootStore
from reportclient.sealed import DAMAGE
from reportclient.view import View

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class SavedRoot:
    """One root in the store of all roots; it is the store of a :class:`reportclient.root.Root`."""

    store: RootStore
    root: str
    view: View = field(default_factory=View)
    ledger: Ledger = field(default_factory=Ledger)
    on_disk: tuple[View, Ledger] = field(default_factory=lambda: (View(), Ledger()))
    """The view and the ledger as the store has them."""
    _unusable: bool = False
    """Whether saved documents can't be used: the next save replaces all of them."""

    def load(self, root: str = "") -> View:  # noqa: ARG002  it is the one
        """Load view and ledger and return the view; it is empty, and that logged, if unusable.

        Without a view all of Placement's tree is read.  Without a ledger only providers are removed
        that are this host's by their UUID.
        """
        documents = self.store.load(self.root)
        if not documents and not self.store.has_lost(self.root):
            return self.view
        self.view = self._view_in(documents_of_kind(VIEW, documents))
        self.ledger = self._ledger_in(
            documents_of_kind(LEDGER, documents), documents_of_kind(REMOVED, documents)
        )
        self.on_disk = self.view, self.ledger
        return self.view

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

    def forget(self, root: str = "") -> None:  # noqa: ARG002
        """Remove the saved state of this root."""
        self.store.forget(self.root)
        self.on_disk = View(), Ledger()
        self._mark(outdated=False)

    def _write(self) -> bool:
        is_kept = self._written()
        self._mark(outdated=not is_kept)
        return is_kept

    def _written(self) -> bool:
        now = self.view, self.ledger
        if not self.view.generations and not self.ledger.begun:
            return True
        if self._unusable or not self.store.save(self.root, *changed_documents(self.on_disk, now)):
            everything, _ = changed_documents((View(), Ledger()), now)
            if not self.store.replace(self.root, everything):
                return False
        self.on_disk, self._unusable = now, False
        return True

    # -- a view that could not be saved

    @property
    def _outdated(self) -> Path | None:
        """A marker file: it exists while the saved view is outdated and has to be ignored."""
        directory = self.store.directory
        return None if directory is None else directory / f"outdated-{self.root}"

    def _mark(self, *, outdated: bool) -> None:
        path = self._outdated if self.store.writing else None
        try:
            if path is not None and outdated:
                path.touch()
            elif path is not None and path.exists():
                path.unlink(missing_ok=True)
        except OSError:
            LOG.debug("%s can't be written", path)

    # -- reading

    def _view_in(self, documents: Mapping[str, Any]) -> View:
        if self._outdated is not None and self._outdated.exists():
            LOG.debug("The saved view of the root %s is outdated and ignored", self.root)
            return View()
        try:
            return view_from(documents)
        except DAMAGE as err:
            self._unusable = True
            LOG.warning(
                "The saved view of the root %s in %s is ignored, Placement is read instead: %s",
                self.root,
                self.store.path,
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
            self.store.path,
            what,
        )
        return Ledger()


def saved_roots(state_path: Path) -> list[str]:
    """Return the UUIDs of the roots that are saved in a state directory."""
    return sorted(RootStore.in_directory(state_path, writing=False).roots())
