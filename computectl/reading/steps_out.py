"""Remove children of another service's root in steps, as the agent does.

See :mod:`agent.period.attach` for the steps, and why there are three.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from agent.period.attach import LeavingChildren
from agent.state.saved_root import SavedRoot
from computectl.reading.retirement import Leaving
from computectl.shared.screen import counted
from reportclient.apply import apply
from reportclient.diff import diff
from reportclient.errors import Conflict, PlacementError, TooOld
from reportclient.http import API
from reportclient.plain_text import ago
from reportclient.reader import refresh

MOST_CONFLICTS = 5
PROGRESS_EVERY = 60.0
"""Seconds between two lines of progress."""


@dataclass(slots=True)
class StepsOut:
    """The removal of an attached root's children; ``wait``: seconds before a delete, or never."""

    root: Leaving
    saved: SavedRoot
    wait: float | None
    api: API
    gone: set[str] = field(default_factory=set)
    failed: list[PlacementError] = field(default_factory=list)

    def run(self) -> Iterator[str]:
        """Take all steps; yield a line of progress for each wait."""
        view = self.saved.load()
        going = {leaver.provider.uuid for leaver in self.root.leavers if leaver.fate == "goes"}
        steps = LeavingChildren(self.root.root)
        last_progress, conflicts = 0.0, 0
        while not self.failed:
            view = refresh(view, self.root.root, self.api, ours=self.saved.ledger.holders.keys())
            now, observed = time.monotonic(), view.snapshot
            desired = observed.with_changes({uuid: None for uuid in going if uuid in observed})
            desired = steps.with_next_steps(observed, desired, self.wait, now)
            root = observed.get(self.root.root)
            if root is not None and self.root.traits is not None:
                without_ours = replace(root, traits=self.root.traits)
                desired = desired.with_changes({root.uuid: without_ours})
            plan = diff(observed, desired, names=view.names)
            outcome = apply(plan, view, self.api)
            view = outcome.view
            self.saved.save(self.root.root, view)  # an interrupted command can be continued
            self.failed = list(outcome.failed.values())
            if isinstance(outcome.stopped_by, Conflict) and conflicts < MOST_CONFLICTS:
                conflicts += 1  # nova-compute wrote meanwhile: read again
                continue
            self.failed += filter(None, [outcome.stopped_by])
            self.gone = going - set(view.snapshot.providers)
            left = going - self.gone
            if not left:
                return
            verb = "stays" if len(left) == 1 else "stay"
            if any(isinstance(err, TooOld) for err in self.failed) or self.wait is None:
                self.failed = [] if self.wait is None else self.failed
                yield (
                    f"{counted(len(left), 'provider')} {verb} below the root, emptied: stop "
                    "nova-compute, then computectl retire --nova-stopped"
                )
                return
            if not outcome.done and not self.failed:
                rest = max(self.wait - (now - began) for began in steps.since.values())
                if now - last_progress >= PROGRESS_EVERY or not last_progress:
                    last_progress = now
                    yield (
                        f"{counted(len(left), 'provider')} {verb} outside the tree, emptied, for "
                        f"{ago(rest)}, until nova-compute has read the tree again"
                    )
                time.sleep(min(max(rest, 0.1), 5.0))
