"""Runs many hosts in one process, controlled by JSON lines on standard input.

    python -m benchmarks.fleet.hosts CONFIG DIRECTORY FIRST COUNT

``tests.servers.fleet_hosts`` describes which parts are real.
"""

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from agent.opts import Settings
from agent.reporting.reports import Report
from agent.service import Service
from benchmarks.fleet.large_host import LargeHypervisor, number_of
from reportclient.http import API
from tests.servers.fleet_hosts import begin, host


@dataclass
class Figures:
    """Figures of the hosts of this process since they were last read."""

    calls: list[float] = field(default_factory=list)
    """Times of calls to Placement in milliseconds, as the agents see them."""
    failed: int = 0
    beats: list[float] = field(default_factory=list)
    beats_lost: int = 0
    periods: int = 0

    def said(self) -> dict[str, Any]:
        """Return the figures and reset them."""
        now = dict(vars(self))
        vars(self).update(vars(Figures()))
        return now


@dataclass
class Timed:
    """An API that records how long each answer takes."""

    api: API
    figures: Figures
    written: list[tuple[str, str, Any]] | None = None
    """The writes that were done; ``None`` if they are not recorded."""

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        began, write = time.perf_counter(), (method, path, json)
        # Recorded in the order in which they are sent, so that they can be repeated in this order.
        noted = self.written if method != "GET" else None
        if noted is not None:
            noted.append(write)
        try:
            return self.api.request(method, path, json=json, needs=needs)
        except Exception:
            self.figures.failed += 1
            if noted is not None:
                noted.remove(write)
            raise
        finally:
            self.figures.calls.append(round(1000 * (time.perf_counter() - began), 2))


class Hosts:
    """The hosts of this process."""

    def __init__(self) -> None:
        self.figures = Figures()
        self.waiting: list[tuple[str, Timed, Callable[[], None]]] = []
        self.recorded: list[Timed] = []
        self.well: dict[str, bool] = {}

    def add(self, settings: Settings, api: API, transport: Any) -> None:
        """Add a host; it is started by :meth:`start`."""
        timed = Timed(api, self.figures)
        loop, service, switches = host(settings, timed, transport, LargeHypervisor)
        switches.server = None
        switches.heartbeat.on_done = self._note_heartbeat
        service.listeners.append(lambda reports: self._note(service, reports))

        def start() -> None:
            switches.start()
            first_in = random.uniform(0, settings.spread(None))
            job = (service.period, settings.interval, first_in)
            threading.Thread(target=loop.run, args=job, name=settings.host, daemon=True).start()

        self.waiting.append((settings.host, timed, start))

    def start(self, count: int, *, note: bool = False) -> None:
        """Start the next ``count`` hosts by name; with ``note`` record their writes."""
        self.waiting.sort(key=itemgetter(0))  # they were added by several threads
        now, self.waiting = self.waiting[:count], self.waiting[count:]
        for _, api, _ in now if note else ():
            api.written = []
            self.recorded.append(api)
        with ThreadPoolExecutor(16) as pool:
            for each in [pool.submit(start) for _, _, start in now]:
                each.result()

    def change(self, part: float) -> None:
        """Remove a VCPU of a random part of the hosts, or add it again."""
        for name in self.well:
            if random.random() < part:
                number = number_of(name)
                LargeHypervisor.changed[number] = 1 - LargeHypervisor.changed.get(number, 0)

    def _note_heartbeat(self, seconds: float, error: str | None) -> None:
        self.figures.beats.append(round(1000 * seconds, 2))
        self.figures.beats_lost += error is not None

    def _note(self, service: Service, reports: Any) -> None:
        self.figures.periods += 1
        self.well[service.host] = all(_is_ok(one) for one in reports)

    def do(self, said: dict[str, Any]) -> dict[str, Any]:
        """Execute one line and return the answer."""
        match said:
            case {"start": count}:
                self.start(count, note="note" in said)
            case {"written": True}:
                return {"written": [api.written for api in self.recorded]}
            case {"release": name}:
                LargeHypervisor.release = name
            case {"change": part}:
                self.change(part)
        now = {"well": sum(self.well.values()), "changed": sum(LargeHypervisor.changed.values())}
        return now | (self.figures.said() if "tell" in said else {})


def _is_ok(report: Report) -> bool:
    return report.ok


def main(config: str, directory: str, first: str, count: str) -> None:
    """Serve until the standard input ends."""
    hosts = Hosts()
    begin(config, directory, first, count, each_host=hosts.add)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(hosts.do(json.loads(line))) + "\n")
        sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
