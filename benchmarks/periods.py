"""What one period of the daemon costs beside its driver and Placement, in milliseconds of CPU.

    python -m benchmarks.periods [SIZE [DIRECTORY]]

A driver says of SIZE providers (10001) what they have; Placement is in memory, and neither's
time is counted.  With DIRECTORY the agent keeps its state there.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from agent.nodes.nodes import Nodes
from agent.period.rules import Rules
from agent.reporting.reports import Report
from benchmarks.shapes import RECORD, TRAITS, listed
from drivers.api import ComputeDriver, DriverContext
from drivers.loader import LoadedDriver
from reportclient.testing.fake_placement import FakePlacement

NODE = "root"
OWNERS = ("CUSTOM_OWNER_COMPUTE_AGENT",)


@dataclass
class Elsewhere:
    """CPU time that was spent outside of what is measured."""

    seconds: float = 0.0

    @contextmanager
    def spent(self) -> Iterator[None]:
        """What happens inside counts as spent elsewhere."""
        start = time.process_time()
        try:
            yield
        finally:
            self.seconds += time.process_time() - start


@dataclass
class Placement:
    """Placement in memory, whose time is not ours."""

    elsewhere: Elsewhere
    fake: FakePlacement = field(default_factory=FakePlacement)

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """As ``reportclient.http.API`` has it."""
        with self.elsewhere.spent():
            return self.fake.request(method, path, json=json, needs=needs)


class Big(ComputeDriver):
    """Repeats in each period all that it has; the last one's total is ``total``."""

    def __init__(self, size: int, elsewhere: Elsewhere) -> None:
        super().__init__(DriverContext(NODE, Path("/nonexistent")))
        self.items, self.elsewhere = listed("nested", size), elsewhere
        self.total = 8

    def get_available_nodes(self) -> list[str]:
        """One."""
        return [NODE]

    def update_provider_tree(
        self, provider_tree: Any, nodename: str, allocations: Any = None
    ) -> None:
        """All of it."""
        del nodename, allocations
        with self.elsewhere.spent():
            for item in self.items:
                self._say(provider_tree, item)
            last = {"VCPU": {**RECORD, "total": self.total}}
            provider_tree.update_inventory(self.items[-1]["uuid"], last)

    def _say(self, tree: Any, item: dict[str, Any]) -> None:
        if not tree.exists(item["uuid"]):
            tree.new_child(item["name"], item["parent_provider_uuid"], item["uuid"])
        if item is not self.items[-1]:
            tree.update_inventory(item["uuid"], {"VCPU": RECORD})
        tree.add_traits(item["uuid"], *TRAITS)


@dataclass
class Host:
    """An agent with this driver alone."""

    driver: Big
    nodes: Nodes
    elsewhere: Elsewhere

    def period(self) -> float:
        """Milliseconds of CPU that one took, less what was spent elsewhere."""
        gc.collect()
        before, start = self.elsewhere.seconds, time.process_time()
        (report,) = self.nodes.period(60.0)
        took = time.process_time() - start - (self.elsewhere.seconds - before)
        _expect_well(report)
        return took * 1000


def host(size: int, state: Path | None = None) -> Host:
    """One whose first period is over."""
    elsewhere = Elsewhere()
    driver = Big(size, elsewhere)
    rules = Rules(owner_traits=OWNERS, verify_every=None, audit_every=None)
    placement = Placement(elsewhere)
    loaded = [LoadedDriver.from_driver("big", driver)]
    nodes = Nodes(driver.items[0]["uuid"], loaded, placement, rules, state_path=state)
    made = Host(driver, nodes, elsewhere)
    for _ in range(2):
        made.period()
    return made


def measure(made: Host, times: int = 9) -> dict[str, float]:
    """Medians of quiet periods, and of those with one change."""

    def changed() -> float:
        made.driver.total += 1
        return made.period()

    return {
        "a quiet period": _median(made.period, times),
        "a period with one change": _median(changed, times),
    }


def _median(run: Callable[[], float], times: int) -> float:
    return round(median(run() for _ in range(times)), 1)


def _expect_well(report: Report) -> None:
    if not report.ok:
        raise RuntimeError(f"not well: {report.texts()}")


def _main(size: str = "10001", directory: str | None = None) -> None:
    made = host(int(size), None if directory is None else Path(directory))
    sys.stdout.write(json.dumps(measure(made)) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
