"""An agent's metrics and health: what is counted, what is read on request, and their sources."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from agent import version
from agent.loop import Loop
from agent.metrics.exposition import BUCKETS, Exposition, gauge
from agent.nodes.nodes import Nodes
from agent.reporting.changes import kind
from agent.reporting.condition import DISK, PART, WRITE, Severity, texts_of
from agent.reporting.reports import Occasion, Report
from agent.reporting.status import AgentStatus, NodeStatus
from agent.service import Service
from agent.switching.switching import Switching
from reportclient.errors import PlacementError
from reportclient.http import API

PREFIX = "compute_agent"


class Numbers:
    """Counts reports, heartbeats, and calls over RPC, to Placement and to drivers.

    Any thread may call these methods: Prometheus's counters are locked.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, namespace=PREFIX, registry=self.registry)
        seconds = partial(Histogram, namespace=PREFIX, registry=self.registry, buckets=BUCKETS)
        self._clock = clock
        self._failed: dict[str, dict[str, str]] = {}

        self.periods = seconds(
            "period_seconds",
            "Seconds of a period, or of enabling or disabling the host, for one node.",
            ["occasion"],
        )
        self.replans = counter(
            "replans", "Plans made again because another service wrote to the providers."
        )
        self.operations = counter(
            "operations",
            "Writes that Placement acknowledged, such as create_provider or set_traits.",
            ["operation"],
        )
        self.refused = counter("operations_refused", "Writes that Placement refused.")
        self.requests = counter(
            "placement_requests", "Requests to Placement.", ["method", "route", "outcome"]
        )
        self.request_times = seconds(
            "placement_request_seconds", "Seconds of requests to Placement.", ["method", "route"]
        )
        self.driver_times = seconds(
            "driver_call_seconds", "Seconds of driver calls.", ["driver", "method"]
        )
        self.driver_failures = counter(
            "driver_call_failures",
            "Driver calls that raised an exception or exceeded their deadline.",
            ["driver", "method"],
        )
        self.source_failures = counter(
            "source_failures", "Periods with a failed source, or with undone writes.", ["source"]
        )
        self.heartbeats = counter("heartbeats", "Heartbeats to the registry.", ["outcome"])
        self.heartbeat_times = seconds("heartbeat_seconds", "Seconds of heartbeats.")
        self.last_heartbeat = Gauge(
            "last_heartbeat_timestamp_seconds",
            "Time of the last heartbeat while the registry answers; 0 before the first.",
            namespace=PREFIX,
            registry=self.registry,
        )
        self.rpc_calls = counter("rpc_calls", "RPC calls to this host.", ["method", "outcome"])
        self.rpc_times = seconds("rpc_call_seconds", "Seconds to answer RPC calls.")

    def __call__(self, reports: Sequence[Report]) -> None:
        """Count the reports of a period or switch, as a listener of the service."""
        for report in reports:
            self.periods.labels(report.occasion.value).observe(report.seconds)
            self.replans.inc(report.tries - 1)
            for operation in report.done:
                self.operations.labels(kind(operation)).inc()
            before = self._failed.get(report.node, {})
            now = {it.uuid: it.text for it in report.conditions if it.kind == WRITE}
            # Later reports repeat a refusal; it counts once.
            self.refused.inc(sum(before.get(uuid) != text for uuid, text in now.items()))
            self._failed[report.node] = now
            if report.occasion is Occasion.PERIOD:  # a switch repeats the conditions of the period
                for condition in report.conditions:
                    if condition.kind in (PART, DISK):
                        self.source_failures.labels(condition.subject).inc()

    def heartbeat_done(self, seconds: float, error: str | None) -> None:
        """Count a heartbeat."""
        self.heartbeats.labels("failed" if error else "ok").inc()
        self.heartbeat_times.observe(seconds)
        if not error:
            self.last_heartbeat.set(self._clock())

    def rpc_answered(self, method: str, outcome: str, seconds: float) -> None:
        """Count a call to this host over RPC."""
        self.rpc_calls.labels(method, outcome).inc()
        self.rpc_times.observe(seconds)

    def driver_called(self, driver: str, method: str, seconds: float, failed: bool) -> None:
        """Count a call of a driver's method."""
        self.driver_times.labels(driver, method).observe(seconds)
        if failed:
            self.driver_failures.labels(driver, method).inc()


_NUMBERS_OF_CONDITIONS = {
    "draining": (
        Severity.INFO,
        "Providers and inventories to be removed, which guests still use.",
    ),
    "conditions": (Severity.ERROR, "Conditions that need an operator."),
    "degraded_parts": (
        Severity.DEGRADED,
        "Parts of the host that are ill, or that a driver can't read.",
    ),
}
"""Gauges that count a node's conditions of one severity."""


@dataclass(frozen=True, slots=True, eq=False)
class Facts(Collector):
    """Collects gauges; ``status`` returns that of ``status.json``, ``None`` before a period."""

    status: Callable[[], AgentStatus | None]
    nodes: Nodes
    loop: Loop

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges; called in the thread of the request."""
        status = self.status() or AgentStatus("", 0, None, 0.0, None, ())
        disabled, jobs = status.service.disabled, self.loop.commands.qsize()
        yield _gauge("interval_seconds", "Seconds between two periods.", {"": status.interval})
        text = "1 if this host is disabled: it takes no new guests."
        yield _gauge("disabled", text, {"": disabled})
        yield _gauge("loop_queue_length", "Jobs that wait for the agent's main loop.", {"": jobs})
        yield _gauge("build_info", "The agent's version.", {version(): 1}, "version")
        passed = {name: not text for name, text in status.checks.items()}
        yield _gauge("check_ok", "1 if the check of /readyz passes, else 0.", passed, "check")
        text = "Seconds of the last read of a driver's source, such as a libvirt call."
        took = {name: seconds for node in status.nodes for name, seconds in node.took.items()}
        yield _gauge("source_seconds", text, took, "source")
        yield from _of_nodes(status.nodes)
        trackers = list(self.nodes.trackers.values())
        text = "Providers in the node's tree, and sharing providers."
        providers = {each.node: len(each.view.snapshot) for each in trackers}
        yield _gauge("providers", text, providers, "node")
        text = "Time when the node's tree was last compared with Placement."
        epoch = time.time() - time.monotonic()
        verified = {each.node: each.root.schedule.verified_at for each in trackers}
        times = {node: None if at is None else epoch + at for node, at in verified.items()}
        yield _gauge("last_verification_timestamp_seconds", text, times, "node")


def _of_nodes(nodes: Sequence[NodeStatus]) -> Iterator[Metric]:
    text = "1 if Placement has everything that the node's drivers reported, else 0."
    yield _gauge("node_ok", text, {it.node: it.ok for it in nodes}, "node")
    text = "Time of the last period in which the node was fully reported."
    last = {it.node: it.last_ok for it in nodes}
    yield _gauge("last_success_timestamp_seconds", text, last, "node")
    pending = {it.node: len(it.reshape_pending) for it in nodes}
    yield _gauge("reshapes_pending", "Drivers with a pending reshape.", pending, "node")
    for name, (severity, text) in _NUMBERS_OF_CONDITIONS.items():
        numbers = {it.node: len(texts_of(it.conditions, severity)) for it in nodes}
        yield _gauge(name, text, numbers, "node")


def _gauge(name: str, text: str, numbers: Mapping[str, float | None], label: str = "") -> Metric:
    """Return a gauge: its numbers by the value of its label; ``""`` for one without a label."""
    rows = (((value,) if label else (), number) for value, number in numbers.items())
    return gauge(f"{PREFIX}_{name}", text, [label] if label else [], rows)


@dataclass(frozen=True, slots=True)
class Measured:
    """Placement's API; each request is counted."""

    api: API
    numbers: Numbers

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        began, outcome = time.monotonic(), "error"
        try:
            answer = self.api.request(method, path, json=json, needs=needs)
            outcome = "ok"
        except PlacementError as err:
            outcome = kind(err)
            raise
        finally:
            route, seconds = route_of(path), time.monotonic() - began
            self.numbers.requests.labels(method, route, outcome).inc()
            self.numbers.request_times.labels(method, route).observe(seconds)
        return answer


_UUID = re.compile(r"/[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?=/|$)")
_NAMED = re.compile(r"/(traits|resource_classes|inventories)/[^/]+$")


def route_of(path: str) -> str:
    """Return the path with placeholders for UUIDs and names, as a label with few values.

    >>> route_of("/resource_providers/c0ffee00-0000-4000-8000-000000000001/traits?x=1")
    '/resource_providers/{uuid}/traits'
    """
    return _NAMED.sub(r"/\1/{name}", _UUID.sub("/{uuid}", path.partition("?")[0]))


@dataclass(slots=True)
class Monitoring(Exposition):
    """Metrics and health of one agent; created before the parts that it observes."""

    numbers: Numbers = field(default_factory=Numbers)
    clock: Callable[[], float] = time.time
    _status: Callable[[], AgentStatus | None] = lambda: None

    @property
    def collected(self) -> CollectorRegistry:
        """See :class:`Exposition`."""
        return self.numbers.registry

    def measured(self, api: API) -> API:
        """Return Placement's API with its calls counted."""
        return Measured(api, self.numbers)

    def listen(
        self,
        service: Service,
        switches: Switching,
        loop: Loop,
        status: Callable[[], AgentStatus | None],
    ) -> None:
        """Subscribe to the parts of the agent; ``status`` returns that of ``status.json``."""
        self._status = status
        service.listeners.append(self.numbers)
        switches.heartbeat.on_done = self.numbers.heartbeat_done
        if switches.server is not None:
            switches.server.on_answered = self.numbers.rpc_answered
        for loaded in service.nodes.drivers:
            loaded.calls.on_call = partial(self.numbers.driver_called, loaded.name)
        self.numbers.registry.register(Facts(status, service.nodes, loop))
        ProcessCollector(namespace=PREFIX, registry=self.numbers.registry)
        if self.settings.textfile is not None:
            service.listeners.append(self.note)

    def checks(self) -> Mapping[str, str]:
        """See :class:`Exposition`; the checks of ``status.json``."""
        status = self._status()
        return status.checks if status is not None else {}

    def stuck(self) -> str | None:
        """See :class:`Exposition`."""
        status = self._status()
        return None if status is None else status.stuck(self.clock())
