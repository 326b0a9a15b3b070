"""Run one case with this project's client, in a process of its own.

    python -m benchmarks.ours URL REQUEST_LOG PROVIDERS CONSUMERS [BULK_CHUNK]

Prints the costs of each step as JSON.  With BULK_CHUNK only a cold start is done, with that many
inventories in a bulk write.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from agent import opts
from agent.nodes.nodes import Nodes
from agent.period.rules import Rules
from agent.reporting.reports import Report
from benchmarks.host import NODE, ROOT, Host
from benchmarks.meter import Meter
from benchmarks.scenarios import COLD_BULK, Scenarios
from benchmarks.somebody import Somebody
from drivers.api import ComputeDriver, DriverContext, ReshapeNeeded
from drivers.loader import LoadedDriver
from reportclient.http import PlacementAPI, token_adapter
from reportclient.root import BulkWrites

AT_ONCE = next(opt.default for opt in opts.PLACEMENT if opt.dest == "max_concurrency")
VERIFY = 300.0


class HostDriver(ComputeDriver):
    """Reports the benchmark's host."""

    def __init__(self, context: DriverContext, host: Host) -> None:
        super().__init__(context)
        self.host = host

    def get_available_nodes(self) -> list[str]:
        """Return the only node."""
        return [NODE]

    def update_provider_tree(
        self, provider_tree: Any, nodename: str, allocations: Any = None
    ) -> None:
        """See :meth:`benchmarks.host.Host.describe`."""
        assert nodename == NODE
        self.host.describe(provider_tree, allocations, ReshapeNeeded)


class Ours:
    """The agent's parts that report; time is passed as an argument."""

    def __init__(self, url: str, host: Host, state: Path, bulk_chunk: int = 0) -> None:
        self._url = url
        self._driver = HostDriver(DriverContext(NODE, state), host)
        self._state = state
        self._bulk_chunk = bulk_chunk
        self._now = 0.0
        self._disabled = False
        self._nodes: Nodes

    def start(self) -> None:
        """Start: new objects, a new connection, and the view from its file."""
        self._nodes = Nodes(
            ROOT,
            [LoadedDriver.from_driver("benchmark", self._driver)],
            PlacementAPI(token_adapter(self._url, "admin")),
            Rules(
                owner_traits=("CUSTOM_OWNER_COMPUTE_AGENT",), verify_every=VERIFY, at_once=AT_ONCE
            ),
            BulkWrites(self._bulk_chunk),
            self._state,
        )
        self.period(0.0)

    def forget(self) -> None:
        """Remove the saved views."""
        for path in self._state.glob("root-*.json"):
            path.unlink()

    def period(self, after: float) -> None:
        """Run a period."""
        self._now += after
        (report,) = self._nodes.period(self._now, disabled=self._disabled)
        _expect_ok(report)

    def quiet(self) -> None:
        """Run a period with a verification, which most quiet periods do not have."""
        self.refresh()

    def refresh(self) -> None:
        """Run a period with a verification."""
        self.period(2 * VERIFY)

    def set_enabled(self, *, enabled: bool) -> None:
        """Switch the host; as with a call over RPC this runs a period."""
        self._disabled = not enabled
        self.period(0.0)

    def has_guests(self, guests: list[str]) -> None:
        """Do nothing: the agent does not track guests."""

    def sees(self, trait: str) -> bool:
        """Whether the root has this trait in the view."""
        (tracker,) = self._nodes.trackers.values()
        return trait in tracker.view.snapshot.providers[ROOT].traits


def _expect_ok(report: Report) -> None:
    if not report.ok:
        raise RuntimeError(f"a period failed: {report.texts()}")


def main(argv: list[str]) -> None:
    """Run the case."""
    url, log, providers, consumers, *chunk = argv[1:]
    host, meter = Host(int(providers)), Meter(Path(log))
    with tempfile.TemporaryDirectory(prefix="benchmark-") as state:
        side = Ours(url, host, Path(state), *map(int, chunk))
        scenarios = Scenarios(side, host, int(consumers), Somebody(url), meter)
        if chunk:
            scenarios.cold_start(COLD_BULK)
        else:
            scenarios.run()
    sys.stdout.write(json.dumps(meter.as_dict()))


if __name__ == "__main__":
    main(sys.argv)
