"""Metrics and health of compute-registry; loaded only if [monitoring] enables them."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import prometheus_client
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from agent import version
from agent.metrics.exposition import SHORT, Exposition, gauge
from agent.registry.errors import RegistryError
from agent.reporting.reports import Check
from compute_registry.store import SqlRegistry

PREFIX = "compute_registry"


class RegistryNumbers:
    """Counters and histograms of the registry; thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(prometheus_client.Counter, namespace=PREFIX, registry=self.registry)
        seconds = partial(Histogram, namespace=PREFIX, registry=self.registry, buckets=SHORT)
        text = "Calls over RPC, including heartbeats."
        self.calls = counter("rpc_calls", text, ["method", "outcome"])
        self.call_times = seconds("rpc_call_seconds", "Duration of calls over RPC.", ["method"])
        text = "Duration of database transactions."
        self.database_times = seconds("database_transaction_seconds", text)
        text = "Transactions that the database refused or did not answer."
        self.database_failures = counter("database_failures", text)

    def count_call(self, method: str, outcome: str, seconds: float) -> None:
        """Count a call over RPC."""
        self.calls.labels(method, outcome).inc()
        self.call_times.labels(method).observe(seconds)

    def count_transaction(self, seconds: float, answered: bool) -> None:
        """Count a database transaction."""
        self.database_times.observe(seconds)
        if not answered:
            self.database_failures.inc()


@dataclass(frozen=True, slots=True, eq=False)
class RegistryFacts(Collector):
    """Gauges of the registry, read at each scrape."""

    checks: Callable[[], list[Check]]
    store: SqlRegistry

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, in the thread of the scrape."""
        checks = self.checks()
        yield gauge(f"{PREFIX}_build_info", "The version.", ("version",), [((version(),), 1)])
        rows = [((check.name,), float(check.ok)) for check in checks]
        text = "1 if this check of /readyz passes, else 0."
        yield gauge(f"{PREFIX}_check_ok", text, ("check",), rows)
        text = "Hosts by state and status; absent while the database does not answer."
        with suppress(RegistryError):
            yield gauge(f"{PREFIX}_hosts", text, ("state", "status"), self.store.counts().items())


@dataclass(slots=True)
class RegistryMonitoring(Exposition):
    """Metrics and health of one instance; created before the parts that it monitors."""

    numbers: RegistryNumbers = field(default_factory=RegistryNumbers)
    store: SqlRegistry | None = None
    broker: Callable[[], str] = lambda: ""
    """Returns the problem of the connection to the message bus, or an empty text."""

    @property
    def collected(self) -> CollectorRegistry:
        """See :class:`Exposition`."""
        return self.numbers.registry

    def observe(self, store: SqlRegistry, broker: Callable[[], str]) -> None:
        """Report the health of the database of ``store`` and of the ``broker`` from now on."""
        self.store, self.broker = store, broker
        facts = RegistryFacts(self.checks, store)
        self.numbers.registry.register(facts)
        ProcessCollector(namespace=PREFIX, registry=self.numbers.registry)

    def checks(self) -> list[Check]:
        """Return the results of the checks, which are run now."""
        return [Check("database", self._database()), Check("broker", self.broker())]

    def _database(self) -> str:
        if self.store is None:
            return "not connected yet"
        try:
            self.store.list_services(limit=1)
        except RegistryError as err:
            return str(err)
        return ""
