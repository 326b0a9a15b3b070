"""Measures a step: its calls from the server's request log, its times in this process.

Only the standard library is used.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Cost:
    """The costs of one step: bytes of bodies, CPU time of this process, and the sum of the times of
    all requests in Placement.
    """

    calls: int
    writes: int
    bytes_sent: int
    bytes_received: int
    client_cpu_ms: float
    wall_ms: float
    server_ms: float


@dataclass(slots=True)
class Meter:
    """Measures steps against the Placement that writes ``log``."""

    log: Path
    costs: dict[str, list[Cost]] = field(default_factory=dict)

    def step(self, name: str, run: Callable[[], object]) -> None:
        """Run a step and record its costs."""
        start = self._end_of_log()
        gc.collect()  # garbage of earlier steps must not count
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        requests = self._requests_after(start)
        cost = Cost(
            calls=len(requests),
            writes=sum(request["method"] != "GET" for request in requests),
            bytes_sent=sum(request["bytes_in"] for request in requests),
            bytes_received=sum(request["bytes_out"] for request in requests),
            client_cpu_ms=round(cpu * 1000, 3),
            wall_ms=round(wall * 1000, 3),
            server_ms=round(sum(request["milliseconds"] for request in requests), 2),
        )
        self.costs.setdefault(name, []).append(cost)

    def as_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return all costs for JSON."""
        return {name: [asdict(cost) for cost in costs] for name, costs in self.costs.items()}

    def _end_of_log(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def _requests_after(self, start: int) -> list[dict[str, Any]]:
        with self.log.open("rb") as log:
            log.seek(start)
            return [json.loads(line) for line in log.read().splitlines()]
