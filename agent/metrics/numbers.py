"""Counters and histograms of periods, calls, operations, drivers, heartbeats and RPC.

Any thread may call these methods: Prometheus's counters are locked.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from agent.metrics.exposition import LONG, SHORT
from agent.reporting.reports import Occasion, Report
from agent.switching.notices import Called, HeartbeatDone, Notice

PREFIX = "compute_agent"


class Numbers:
    """Counts reports, notices of the host's status, and calls to Placement and to drivers."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, namespace=PREFIX, registry=self.registry)
        seconds = partial(Histogram, namespace=PREFIX, registry=self.registry, buckets=SHORT)
        self._clock = clock
        self._failed: dict[str, dict[str, str]] = {}

        self.periods = seconds(
            "period_seconds",
            "Seconds of a period, or of enabling or disabling the host, for one node.",
            ["occasion"],
            buckets=LONG,
        )
        self.replans = counter(
            "replans", "Plans made again because another service wrote to the providers."
        )
        self.operations = counter(
            "operations", "Operations that Placement acknowledged.", ["operation"]
        )
        self.refused = counter("operations_refused", "Operations that Placement refused.")
        self.requests = counter(
            "placement_requests", "Requests to Placement.", ["method", "route", "outcome"]
        )
        self.request_times = seconds(
            "placement_request_seconds", "Seconds of requests to Placement.", ["method", "route"]
        )
        self.driver_times = seconds(
            "driver_call_seconds",
            "Seconds of driver calls.",
            ["driver", "method"],
            buckets=LONG,
        )
        self.driver_failures = counter(
            "driver_call_failures",
            "Driver calls that raised an exception or exceeded their deadline.",
            ["driver", "method"],
        )
        self.source_failures = counter(
            "source_failures", "Periods in which a driver could not read a source.", ["source"]
        )
        self.heartbeats = counter("heartbeats", "Heartbeats to the registry.", ["outcome"])
        self.heartbeat_times = seconds("heartbeat_seconds", "Seconds of heartbeats.")
        self.last_heartbeat = Gauge(
            "last_heartbeat_timestamp_seconds",
            "Time of the last heartbeat that the registry answered.",
            namespace=PREFIX,
            registry=self.registry,
        )
        self.rpc_calls = counter("rpc_calls", "RPC calls to this host.", ["method", "outcome"])
        self.rpc_times = seconds("rpc_call_seconds", "Seconds to answer RPC calls.", buckets=LONG)

    def __call__(self, reports: Sequence[Report]) -> None:
        """Count the reports of a period or switch, as a listener of the service."""
        for report in reports:
            self.periods.labels(report.occasion.value).observe(report.seconds)
            self.replans.inc(report.tries - 1)
            for operation in report.done:
                self.operations.labels(type(operation).__name__).inc()
            self._note_refusals(report)
            if report.occasion is Occasion.PERIOD:  # a switch repeats the conditions of the period
                for part in report.degraded:
                    self.source_failures.labels(part).inc()

    def on_notice(self, notice: Notice) -> None:
        """Count heartbeats and RPC calls, as a subscriber of the host's status."""
        if isinstance(notice, HeartbeatDone):
            self.heartbeats.labels("failed" if notice.error else "ok").inc()
            self.heartbeat_times.observe(notice.seconds)
            if not notice.error:
                self.last_heartbeat.set(self._clock())
        elif isinstance(notice, Called):
            self.rpc_calls.labels(notice.method, notice.outcome).inc()
            self.rpc_times.observe(notice.seconds)

    def placement_called(self, method: str, route: str, outcome: str, seconds: float) -> None:
        """Count a call to Placement."""
        self.requests.labels(method, route, outcome).inc()
        self.request_times.labels(method, route).observe(seconds)

    def driver_called(self, driver: str, method: str, seconds: float, failed: bool) -> None:
        """Count a call of a driver's method."""
        self.driver_times.labels(driver, method).observe(seconds)
        if failed:
            self.driver_failures.labels(driver, method).inc()

    def _note_refusals(self, report: Report) -> None:
        """Count each refusal once, though later reports repeat it."""
        before = self._failed.get(report.node, {})
        now = {uuid: str(err) for uuid, err in report.failed.items()}
        self.refused.inc(sum(before.get(uuid) != text for uuid, text in now.items()))
        self._failed[report.node] = now
