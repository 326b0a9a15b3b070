"""compute-registry's numbers and health: loaded where [monitoring] switches them on."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from agent import version
from agent.metrics.exposition import SHORT, Exposition, gauge
from agent.registry.errors import RegistryError
from agent.registry.store import SqlRegistry
from agent.reporting.reports import Check
from compute_registry.rest.application import Application, StartResponse
from compute_registry.rest.request import Environ
from compute_registry.web import route_of

PREFIX = "compute_registry"
METHODS = frozenset({"DELETE", "GET", "HEAD", "PUT"})
OTHER = "other"
"""In place of what anybody may send: a label has few values."""


class RegistryNumbers:
    """Counters of the registry; any thread may count."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, namespace=PREFIX, registry=self.registry)
        seconds = partial(Histogram, namespace=PREFIX, registry=self.registry, buckets=SHORT)
        self.calls = counter(
            "rpc_calls", "Calls over RPC, heartbeats among them.", ["method", "outcome"]
        )
        self.call_times = seconds(
            "rpc_call_seconds", "How long it took to answer them.", ["method"]
        )
        self.requests = counter("http_requests", "Requests over HTTP.", ["method", "route", "code"])
        self.request_times = seconds(
            "http_request_seconds", "How long it took to answer them.", ["method", "route"]
        )
        self.database_times = seconds(
            "database_transaction_seconds", "How long transactions of the database took."
        )
        self.database_failures = counter(
            "database_failures", "Transactions that the database did not answer, or refused."
        )

    def called(self, method: str, outcome: str, seconds: float) -> None:
        """Each call over RPC."""
        self.calls.labels(method, outcome).inc()
        self.call_times.labels(method).observe(seconds)

    def transaction_done(self, seconds: float, answered: bool) -> None:
        """Each transaction."""
        self.database_times.observe(seconds)
        if not answered:
            self.database_failures.inc()

    def requested(self, method: str, route: str, code: str, seconds: float) -> None:
        """Each request over HTTP."""
        self.requests.labels(method, route, code).inc()
        self.request_times.labels(method, route).observe(seconds)


@dataclass(frozen=True, slots=True)
class MeasuredHttp:
    """The same application; its requests are counted."""

    application: Application
    numbers: RegistryNumbers

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        began, codes = time.monotonic(), ["500"]

        def start(status: str, *more: Any) -> Any:
            codes.append(status[:3])
            return start_response(status, *more)

        method, route = environ["REQUEST_METHOD"], route_of(environ) or OTHER
        try:
            return self.application(environ, start)
        finally:
            known = method if method in METHODS else OTHER
            self.numbers.requested(known, route, codes[-1], time.monotonic() - began)


@dataclass(frozen=True, slots=True, eq=False)
class RegistryFacts(Collector):
    """Gauges of the registry, read when metrics are asked for."""

    checks: Callable[[], list[Check]]
    store: SqlRegistry

    def collect(self) -> Iterator[Metric]:
        """In the thread of whoever asks."""
        yield gauge(f"{PREFIX}_build_info", "Its version.", ("version",), [((version(),), 1)])
        yield gauge(
            f"{PREFIX}_check_ok",
            "Whether this part of its health is well, as /readyz says it.",
            ("check",),
            [((one.name,), float(one.ok)) for one in self.checks()],
        )
        rows = [((*key,), number) for key, number in self._counted().items()]
        text = "Hosts, by whether they are up, and enabled; none where the database is away."
        yield gauge(f"{PREFIX}_hosts", text, ("state", "status"), rows)

    def _counted(self) -> dict[tuple[str, str], float]:
        try:
            records = self.store.list_services()
        except RegistryError:
            return {}
        found = {(up, on): 0.0 for up in ("up", "down") for on in ("enabled", "disabled")}
        for one in records:
            found["up" if one.is_up(self.store.down_after) else "down", one.status] += 1
        return found


@dataclass(slots=True)
class RegistryMonitoring(Exposition):
    """Metrics and health of one instance; created before the parts that it observes."""

    numbers: RegistryNumbers = field(default_factory=RegistryNumbers)
    store: SqlRegistry | None = None
    broker: Callable[[], str] = lambda: ""
    """What is wrong with the connection to the message bus."""

    @property
    def collected(self) -> CollectorRegistry:
        """See :class:`Exposition`."""
        return self.numbers.registry

    def measured(self, application: Application) -> Application:
        """The same application; its requests are counted."""
        return MeasuredHttp(application, self.numbers)

    def listen(self, store: SqlRegistry, broker: Callable[[], str]) -> None:
        """From now on both are asked."""
        self.store, self.broker = store, broker
        facts = RegistryFacts(self.checks, store)
        self.numbers.registry.register(facts)
        ProcessCollector(namespace=PREFIX, registry=self.numbers.registry)

    def checks(self) -> list[Check]:
        """See :class:`Exposition`; asked now."""
        return [Check("database", self._database()), Check("broker", self.broker())]

    def _database(self) -> str:
        if self.store is None:
            return "not open yet"
        try:
            self.store.list_services(limit=1)
        except RegistryError as err:
            return str(err)
        return ""
