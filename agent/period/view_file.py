"""Where a view is kept between two lives of the agent."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from agent.state import files
from reportclient.saved_view import UnusableView, restored, saved
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
            files.replace(self.path, saved(view, self.root))
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
