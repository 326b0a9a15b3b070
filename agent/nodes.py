"""All roots of this service: which there are, and one period of each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from agent.identity import IdentityError
from agent.node_table import NodeTable
from agent.parts_file import PartsFile
from agent.report import Report
from agent.rules import BulkWrites, Rules
from agent.tracker import Tracker
from agent.traits import DISABLED
from agent.view_file import ViewFile, saved_roots
from drivers.errors import DriverError
from drivers.loaded import words
from drivers.loader import LoadedDriver
from reportclient.http import API

LOG = logging.getLogger(__name__)

AT_ONCE = 8
"""How many roots are reported at the same time."""

NOBODY = "all nodes"
"""Stands for the node where it is not known which there are."""


@dataclass(slots=True)
class Nodes:
    """The trackers of this service, by the UUID of their root."""

    own_uuid: str
    drivers: Sequence[LoadedDriver]
    api: API
    rules: Rules
    bulk: BulkWrites = field(default_factory=BulkWrites)
    state_path: Path | None = None
    """Where views are saved; ``None``: nowhere."""
    trackers: dict[str, Tracker] = field(default_factory=dict)
    table: NodeTable = field(default_factory=NodeTable)

    def period(
        self, now: float, *, disabled: bool | None = None, stop: Callable[[], bool] = lambda: False
    ) -> list[Report]:
        """One period of every root.  Never raises: the reports tell."""
        try:
            trackers = self.current()
        except (Exception, SystemExit) as err:  # noqa: BLE001  a driver's; the agent lives on
            return [self._nobody(err)]
        if not trackers:
            return [Report(NOBODY, degraded={f"driver {self.drivers[0].name}": "has no node"})]
        return _each(trackers, lambda one: one.period(now, disabled=disabled, stop=stop))

    def switch(self, now: float, *, disabled: bool) -> list[Report]:
        """Make COMPUTE_STATUS_DISABLED right on every root.  Never raises: the reports tell."""
        try:
            trackers = list(self.trackers.values()) or self.current()
        except (Exception, SystemExit) as err:  # noqa: BLE001  as above
            return [self._nobody(err)]
        return _each(trackers, lambda one: one.switch(now, disabled=disabled))

    def roots(self) -> list[str]:
        """UUIDs of the roots, as far as they are known; any thread may call it."""
        known = list(self.trackers)
        return known or (saved_roots(self.state_path) if self.state_path else [])

    def any_disabled(self) -> bool | None:
        """Whether a root carries COMPUTE_STATUS_DISABLED; ``None`` before Placement was read."""
        seen = {uuid: one.view.snapshot.get(uuid) for uuid, one in self.trackers.items()}
        if not seen or any(root is None for root in seen.values()):
            return None
        return any(root is not None and DISABLED in root.traits for root in seen.values())

    def _nobody(self, err: BaseException) -> Report:
        if isinstance(err, IdentityError):
            return Report(NOBODY, error=err)
        return Report(NOBODY, driver_errors={self.drivers[0].name: err})

    def current(self) -> list[Tracker]:
        """Trackers of the nodes that there are now.

        The first driver names the nodes; the others add to them.

        :raises DriverError: what it said can't be used.
        :raises IdentityError: which UUIDs the nodes have is kept in a file that is damaged.
        :raises BaseException: whatever the driver raises.
        """
        first = self.drivers[0]
        found = self.table.uuids(first.nodes(), self.own_uuid, first.uuids_told())
        self.trackers = {uuid: self._tracker(uuid, name) for name, uuid in found.items()}
        return list(self.trackers.values())

    def _tracker(self, uuid: str, name: str) -> Tracker:
        known = self.trackers.get(uuid)
        if known is not None:
            known.node = name
            return known
        made = Tracker(uuid, name, self.api, self.drivers, self.rules, self.bulk)
        if self.state_path is not None:
            made.file = ViewFile.of(self.state_path, uuid)
            made.view = made.file.load()
            made.parts_file = PartsFile.of(self.state_path, uuid)
            made.parts = made.parts_file.load()
        return made


def _each(trackers: Sequence[Tracker], job: Callable[[Tracker], Report]) -> list[Report]:
    def safely(tracker: Tracker) -> Report:
        try:
            return job(tracker)
        except SystemExit as err:
            return Report(tracker.node, error=DriverError(f"a driver ended: {words(err)}"))

    if len(trackers) == 1:
        return [safely(trackers[0])]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="node") as pool:
        return list(pool.map(safely, trackers))
