"""The part of ``benchmarks.lazily`` that runs in the virtual environment with nova.

    python -m benchmarks.lazily_reference URL REQUEST_LOG PROVIDERS CONSUMERS [lazy]

Prints the calls of one quiet period.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nova.scheduler.client import report  # type: ignore[import-not-found]

from benchmarks.host import Host
from benchmarks.meter import Meter
from benchmarks.reference import Reference, begin
from benchmarks.scenarios import QUIET
from benchmarks.somebody import Somebody


class LazyMapping(Mapping[str, Any]):
    """A mapping that is read when it is used for the first time."""

    def __init__(self, read: Callable[[], Mapping[str, Any]]) -> None:
        self._read = read
        self._mapping: Mapping[str, Any] | None = None

    def _all(self) -> Mapping[str, Any]:
        if self._mapping is None:
            self._mapping = self._read()
        return self._mapping

    def __getitem__(self, key: str) -> Any:
        return self._all()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def read_lazily() -> None:
    """Patch the report client: allocations are read only if they are used."""
    eager = report.SchedulerReportClient.get_allocations_for_provider_tree

    def lazy(self: Any, *args: Any) -> LazyMapping:
        return LazyMapping(lambda: eager(self, *args))

    report.SchedulerReportClient.get_allocations_for_provider_tree = lazy


def main(argv: list[str]) -> None:
    """Start, create guests, and print the number of calls of a quiet period."""
    url, log, providers, consumers, *how = argv[1:]
    clock, service = begin(url)
    if how:
        read_lazily()
    side, meter = Reference(Host(int(providers)), clock, service), Meter(Path(log))
    side.start()
    side.has_guests(Somebody(url).allocate(int(consumers)))
    side.refresh()
    meter.step(QUIET, side.quiet)
    sys.stdout.write(str(meter.costs[QUIET][0].calls))


if __name__ == "__main__":
    main(sys.argv)
