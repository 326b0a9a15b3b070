"""A real Placement as sites run it: over MariaDB, with several processes.

It can be away behind a proxy that lives: then everybody gets 503.
"""

import os
from pathlib import Path

from tests.servers.placement import RealPlacement
from tests.servers.process import Server


class PlacementWorkers(Server, RealPlacement):
    child = "tests.servers.placement_workers_child"

    def __init__(self, directory: Path, database_url: str, workers: int = 2) -> None:
        super().__init__(directory)
        self._url, self.workers = database_url, workers

    @property
    def database_url(self) -> str:
        return self._url

    def start(self, timeout: float = 180.0) -> None:
        os.environ["PLACEMENT_WORKERS"] = str(self.workers)
        RealPlacement.start(self, timeout)

    def stop(self) -> None:
        RealPlacement.stop(self)

    @property
    def away(self) -> bool:
        return self._away.exists()

    @away.setter
    def away(self, value: bool) -> None:
        if value:
            self._away.touch()
        else:
            self._away.unlink(missing_ok=True)

    @property
    def _away(self) -> Path:
        return self.directory / "away"
