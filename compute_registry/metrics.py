"""Metrics and health of compute-registry; loaded only if [monitoring] enables them."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import prometheus_client
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from agent import version
from agent.errors import RegistryError
from agent.metrics.exposition import BUCKETS, Exposition, gauge
from agent.opts import MonitoringSettings
from compute_registry.store import SqlRegistry

PREFIX = "compute_registry"


class RegistryMonitoring(Exposition, Collector):
    """Counters, gauges and health of one instance; gauges are read at each scrape.

    ``broker`` returns the problem of the connection to the message bus, or an empty text.
    """

    def __init__(
        self, settings: MonitoringSettings, store: SqlRegistry, broker: Callable[[], str]
    ) -> None:
        super().__init__(settings)
        self.store, self.broker = store, broker
        self.registry = CollectorRegistry()
        counter = partial(prometheus_client.Counter, namespace=PREFIX, registry=self.registry)
        seconds = partial(Histogram, namespace=PREFIX, registry=self.registry, buckets=BUCKETS)
        text = "Calls over RPC, including heartbeats."
        self.calls = counter("rpc_calls", text, ["method", "outcome"])
        self.call_times = seconds("rpc_call_seconds", "Duration of calls over RPC.", ["method"])
        text = "Duration of database transactions."
        self.database_times = seconds("database_transaction_seconds", text)
        text = "Transactions that the database refused or did not answer."
        self.database_failures = counter("database_failures", text)
        store.listener = self._count_transaction
        self.registry.register(self)
        ProcessCollector(namespace=PREFIX, registry=self.registry)

    @property
    def collected(self) -> CollectorRegistry:
        """See :class:`Exposition`."""
        return self.registry

    def checks(self) -> dict[str, str]:
        """Return the results of the checks, which are run now."""
        problem = ""
        try:
            self.store.list_services(limit=1)
        except RegistryError as err:
            problem = str(err)
        return {"database": problem, "broker": self.broker()}

    def count_call(self, method: str, outcome: str, seconds: float) -> None:
        """Count a call over RPC."""
        self.calls.labels(method, outcome).inc()
        self.call_times.labels(method).observe(seconds)

    def _count_transaction(self, seconds: float, answered: bool) -> None:
        self.database_times.observe(seconds)
        if not answered:
            self.database_failures.inc()

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges, in the thread of the scrape."""
        yield gauge(f"{PREFIX}_build_info", "The version.", ("version",), [((version(),), 1)])
        rows = [((name,), float(not text)) for name, text in self.checks().items()]
        text = "1 if this check of /readyz passes, else 0."
        yield gauge(f"{PREFIX}_check_ok", text, ("check",), rows)
        text = "Hosts by state and status; absent while the database does not answer."
        with suppress(RegistryError):
            yield gauge(f"{PREFIX}_hosts", text, ("state", "status"), self.store.counts().items())
