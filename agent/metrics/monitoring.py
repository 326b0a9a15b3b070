"""An agent's numbers and health, put together: who tells them."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry, ProcessCollector

from agent.loop import Loop
from agent.metrics.calls import Measured
from agent.metrics.exposition import Exposition, said
from agent.metrics.facts import Facts
from agent.metrics.numbers import PREFIX, Numbers
from agent.metrics.server import Answer
from agent.service import Service
from agent.switching.host_status import HostStatus
from agent.told.health import stuck
from agent.told.status_schema import AgentStatus
from drivers.loader import LoadedDriver
from reportclient.http import API

STARTING = "no period was done yet"


@dataclass(slots=True)
class Monitoring(Exposition):
    """One agent's; made before the parts that it listens to."""

    numbers: Numbers = field(default_factory=Numbers)
    clock: Callable[[], float] = time.time
    _status: Callable[[], AgentStatus | None] = lambda: None

    @property
    def collected(self) -> CollectorRegistry:
        """See :class:`Exposition`."""
        return self.numbers.registry

    def measured(self, api: API) -> API:
        """The same API to Placement; its calls are counted."""
        return Measured(api, self.numbers.placement_called)

    def listen(
        self,
        service: Service,
        host: HostStatus,
        loop: Loop,
        status: Callable[[], AgentStatus | None],
    ) -> None:
        """From now on all of them are heard; ``status`` is what ``status.json`` says."""
        self._status = status
        service.listeners.append(self.numbers)
        host.subscribe(self.numbers.hear)
        self._hear_drivers(service.nodes.drivers)
        self.numbers.registry.register(Facts(status, service.nodes, loop))
        ProcessCollector(namespace=PREFIX, registry=self.numbers.registry)
        if self.settings.textfile is not None:
            service.listeners.append(self.note)

    def healthz(self, _: str = "") -> Answer:
        """Whether it lives and makes progress; what it reports to may be away."""
        status = self._status()
        why = stuck(status.updated, status.interval, self.clock()) if status is not None else None
        return said([why] if why else [], ["ok"])

    def readyz(self, _: str = "") -> Answer:
        """Whether all parts are well, each in a line: what ``computectl status`` says."""
        status = self._status()
        if status is None:
            return said([STARTING])
        why = stuck(status.updated, status.interval, self.clock())
        lines = [str(one) for one in status.checks]
        wrong = [*([why] if why else []), *(str(one) for one in status.checks if not one.ok)]
        return said([why, *lines] if why else lines if wrong else [], lines)

    def _hear_drivers(self, drivers: Iterable[LoadedDriver]) -> None:
        for loaded in drivers:
            loaded.calls.told = partial(self.numbers.driver_called, loaded.name)
