"""All roots of this service: which there are, and one period of each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from agent.identity import root_uuids
from agent.report import Report
from agent.rules import BulkWrites, Rules
from agent.tracker import Tracker
from agent.view_file import ViewFile
from drivers.loader import LoadedDriver
from reportclient.http import API

LOG = logging.getLogger(__name__)

AT_ONCE = 8
"""How many roots are reported at the same time."""


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

    def period(
        self, now: float, *, disabled: bool | None = None, stop: Callable[[], bool] = lambda: False
    ) -> list[Report]:
        """One period of every root.  Never raises: the reports tell."""
        try:
            trackers = self.current()
        except Exception as err:  # noqa: BLE001  a driver may raise anything; the agent lives on
            return [Report("all nodes", driver_errors={self.drivers[0].name: err})]
        if len(trackers) == 1:
            return [trackers[0].period(now, disabled=disabled, stop=stop)]
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="node") as pool:
            run = (pool.submit(t.period, now, disabled=disabled, stop=stop) for t in trackers)
            return [future.result() for future in list(run)]

    def current(self) -> list[Tracker]:
        """Trackers of the nodes that there are now.

        The first driver names the nodes; the others add to them.
        """
        names = self.drivers[0].driver.get_available_nodes()
        told = dict(self._told())
        found = root_uuids(names, self.own_uuid, told)
        self.trackers = {uuid: self._tracker(uuid, name) for name, uuid in found.items()}
        return list(self.trackers.values())

    def _told(self) -> Iterator[tuple[str, str]]:
        identified = self.drivers[0].identified
        if identified is not None:
            yield from identified.get_nodenames_by_uuid().items()

    def _tracker(self, uuid: str, name: str) -> Tracker:
        known = self.trackers.get(uuid)
        if known is not None:
            known.node = name
            return known
        made = Tracker(uuid, name, self.api, self.drivers, self.rules, self.bulk)
        if self.state_path is not None:
            made.file = ViewFile.of(self.state_path, uuid)
            made.view = made.file.load()
        return made
