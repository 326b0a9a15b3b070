"""Where a view is kept between two lives of the agent."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from agent.state import files
from reportclient.saved_view import Rows, UnusableView, restored, saved
from reportclient.view import View

LOG = logging.getLogger(__name__)

PREFIX = "view-"


@dataclass(slots=True)
class ViewFile:
    """One root's view in the state directory; replaced as a whole or not at all."""

    path: Path
    root: str
    kept: View | None = None
    unwritable: bool = False
    rows: Rows = field(default_factory=dict)

    @classmethod
    def of(cls, state_path: Path, root: str) -> ViewFile:
        """The file of this root."""
        return cls(state_path / f"{PREFIX}{root}.json", root)

    def load(self) -> View:
        """What was kept; an empty view, and one line in the log, if it can't be used."""
        try:
            self.kept = restored(files.read(self.path), self.root)
        except FileNotFoundError:
            LOG.debug("No saved view in %s", self.path)
        except (UnusableView, OSError) as err:
            LOG.warning("Saved view %s is ignored, Placement is read instead: %s", self.path, err)
        return self.kept or View()

    def keep(self, view: View) -> None:
        """Keep a view; what can't be written is logged once, and tried again in each period.

        Meanwhile a restart costs a read of everything.
        """
        if self.kept is not None and _same(self.kept, view):
            return
        try:
            files.replace(self.path, saved(view, self.root, self.rows))
        except OSError as err:
            if not self.unwritable:
                LOG.warning("The view can't be saved in %s: %s", self.path, err)
            self.unwritable, self.kept = True, None
            self._forget()
        else:
            self.unwritable, self.kept = False, view

    def _forget(self) -> None:
        """An old view is worse than none."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError:
            LOG.debug("%s can't be removed either", self.path)


@dataclass(slots=True)
class ViewFiles:
    """The views of all roots; what a :class:`reportclient.root.Root` keeps its own in."""

    state_path: Path
    by_root: dict[str, ViewFile] = field(default_factory=dict)

    def load(self, root: str) -> View:
        """What was kept of this root."""
        return self._of(root).load()

    def save(self, root: str, view: View) -> None:
        """Keep it."""
        self._of(root).keep(view)

    def forget(self, root: str) -> None:
        """Nothing of this root any more."""
        self._of(root).path.unlink(missing_ok=True)
        self.by_root.pop(root, None)

    def _of(self, root: str) -> ViewFile:
        if root not in self.by_root:
            self.by_root[root] = ViewFile.of(self.state_path, root)
        return self.by_root[root]


def _same(one: View, other: View) -> bool:
    return (
        one.snapshot is other.snapshot
        and one.generations == other.generations
        and one.known == other.known
        and one.strangers == other.strangers
    )


def saved_roots(state_path: Path) -> list[str]:
    """UUIDs of the roots that have a view there."""
    return sorted(path.stem.removeprefix(PREFIX) for path in state_path.glob(f"{PREFIX}*.json"))
