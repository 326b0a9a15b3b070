"""An agent's metrics and health: counters, gauges read on request, and their sources."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from agent.loop import Loop
from agent.metrics.exposition import Exposition, Rows, gauge
from agent.metrics.numbers import PREFIX, Numbers
from agent.nodes.nodes import Nodes
from agent.reporting.conditions import Check, Severity
from agent.reporting.health import stuck
from agent.reporting.status_schema import AgentStatus, NodeStatus, ServiceFacts
from agent.service import Service
from agent.switching.host_status import HostStatus
from drivers.loader import LoadedDriver
from reportclient.errors import PlacementError
from reportclient.http import API

CallObserver = Callable[[str, str, str, float], object]
"""Called after each request: method, route, outcome, seconds."""
OK, ERROR = "ok", "error"
_UUID = re.compile(r"/[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?=/|$)")
_NAMED = re.compile(r"/(traits|resource_classes|inventories)/[^/]+$")
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Measured:
    """Placement's API; passes each request to ``observer``."""

    api: API
    observer: CallObserver

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        began, outcome = time.monotonic(), ERROR
        try:
            answer = self.api.request(method, path, json=json, needs=needs)
            outcome = OK
        except PlacementError as err:
            outcome = outcome_of(err)
            raise
        finally:
            self.observer(method, route_of(path), outcome, time.monotonic() - began)
        return answer


def route_of(path: str) -> str:
    """Return the path with placeholders for UUIDs and names, as a label with few values.

    >>> route_of("/resource_providers/c0ffee00-0000-4000-8000-000000000001/traits?x=1")
    '/resource_providers/{uuid}/traits'
    """
    return _NAMED.sub(r"/\1/{name}", _UUID.sub("/{uuid}", path.partition("?")[0]))


def outcome_of(err: PlacementError) -> str:
    """Return the kind of error: ``conflict``, ``unreachable``, ``in_use``, ``rejected`` …"""
    return _WORDS.sub("_", type(err).__name__).lower()


_OF_NODES: Sequence[tuple[str, str, Callable[[NodeStatus], float | None]]] = (
    (
        "node_ok",
        "1 if Placement has everything that the node's drivers reported, else 0.",
        lambda node: float(node.ok),
    ),
    (
        "last_success_timestamp_seconds",
        "Time of the last period in which the node was fully reported.",
        lambda node: node.last_ok,
    ),
    (
        "reshapes_pending",
        "Drivers with a pending reshape.",
        lambda node: len(node.reshape_pending),
    ),
    (
        "draining",
        "Providers and inventories to be removed, which guests still use.",
        lambda node: len(node.texts(Severity.INFO)),
    ),
    (
        "conditions",
        "Conditions that need an operator.",
        lambda node: len(node.texts(Severity.ERROR)),
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class Facts(Collector):
    """Collects gauges; ``status`` returns that of ``status.json``, ``None`` before a period."""

    status: Callable[[], AgentStatus | None]
    nodes: Nodes
    loop: Loop

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges; called in the thread of the request."""
        status = self.status()
        yield from self._service(status)
        yield from self._nodes(status.nodes if status is not None else ())
        yield from self._trees()
        queue = self.loop.commands.qsize()
        yield _gauge(
            "loop_queue_length", "Jobs that wait for the agent's main loop.", (), [((), queue)]
        )

    def _service(self, status: AgentStatus | None) -> Iterator[Metric]:
        version = status.agent_version if status is not None else ""
        facts = (status.service if status is not None else None) or ServiceFacts()
        yield _gauge("build_info", "The agent's version.", ("version",), [((version,), 1)])
        yield _gauge(
            "interval_seconds",
            "Seconds between two periods.",
            (),
            [((), status.interval if status is not None else None)],
        )
        disabled = None if facts.disabled is None else float(facts.disabled)
        yield _gauge(
            "disabled", "1 if this host is disabled: it takes no new guests.", (), [((), disabled)]
        )
        why = [((facts.reason or "",), 1.0)] if facts.disabled else []
        yield _gauge("disabled_info", "Reason why this host is disabled.", ("reason",), why)
        checks = status.checks if status is not None else ()
        yield _gauge(
            "check_ok",
            "1 if the check of /readyz passes, else 0.",
            ("check",),
            [((check.name,), float(check.ok)) for check in checks],
        )

    def _nodes(self, nodes: Sequence[NodeStatus]) -> Iterator[Metric]:
        for name, text, value in _OF_NODES:
            yield _gauge(name, text, ("node",), [((node.node,), value(node)) for node in nodes])
        took = {name: spent for node in nodes for name, spent in (node.took or {}).items()}
        text = "Seconds of the last read of a driver's source, such as a libvirt call."
        rows = [((name,), spent) for name, spent in took.items()]
        yield _gauge("source_seconds", text, ("source",), rows)

    def _trees(self) -> Iterator[Metric]:
        trackers = list(self.nodes.trackers.values())
        yield _gauge(
            "providers",
            "Providers in the node's tree, and sharing providers.",
            ("node",),
            [((tracker.node,), len(tracker.view.snapshot)) for tracker in trackers],
        )
        epoch = time.time() - time.monotonic()
        verified = [((tracker.node,), tracker.root.verified_at) for tracker in trackers]
        yield _gauge(
            "last_verification_timestamp_seconds",
            "Time when the node's tree was last compared with Placement.",
            ("node",),
            [(labels, None if at is None else epoch + at) for labels, at in verified],
        )


def _gauge(name: str, text: str, labels: tuple[str, ...], rows: Rows) -> Metric:
    return gauge(f"{PREFIX}_{name}", text, labels, rows)


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
        return Measured(api, self.numbers.placement_called)

    def listen(
        self,
        service: Service,
        host: HostStatus,
        loop: Loop,
        status: Callable[[], AgentStatus | None],
    ) -> None:
        """Subscribe to service, host and drivers; ``status`` returns that of ``status.json``."""
        self._status = status
        service.listeners.append(self.numbers)
        host.subscribe(self.numbers.on_notice)
        self._listen_to_drivers(service.nodes.drivers)
        self.numbers.registry.register(Facts(status, service.nodes, loop))
        ProcessCollector(namespace=PREFIX, registry=self.numbers.registry)
        if self.settings.textfile is not None:
            service.listeners.append(self.note)

    def checks(self) -> Sequence[Check]:
        """See :class:`Exposition`; the checks of ``status.json``."""
        status = self._status()
        return status.checks if status is not None else ()

    def stuck(self) -> str | None:
        """See :class:`Exposition`."""
        status = self._status()
        if status is None:
            return None
        return stuck(status.updated, status.interval, self.clock())

    def _listen_to_drivers(self, drivers: Iterable[LoadedDriver]) -> None:
        for loaded in drivers:
            loaded.calls.on_call = partial(self.numbers.driver_called, loaded.name)
