"""What is read when somebody asks: the status that the agent tells, its trees, its queue."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from agent.loop import Loop
from agent.metrics.families import Rows, gauge
from agent.metrics.numbers import PREFIX
from agent.nodes.nodes import Nodes
from agent.told.conditions import Severity
from agent.told.status_schema import AgentStatus, NodeStatus, ServiceFacts


@dataclass(frozen=True, slots=True, eq=False)
class Facts(Collector):
    """A collector; ``status`` is what ``status.json`` says, ``None`` before the first period."""

    status: Callable[[], AgentStatus | None]
    nodes: Nodes
    loop: Loop

    def collect(self) -> Iterator[Metric]:
        """In the thread of whoever asks."""
        status = self.status()
        yield from self._service(status)
        yield from self._nodes(status.nodes if status is not None else ())
        yield from self._trees()
        queue = self.loop.commands.qsize()
        yield _gauge("loop_queue_length", "What waits for the loop's thread.", (), [((), queue)])

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
        yield _gauge("disabled", "Whether this host takes no new guests.", (), [((), disabled)])
        why = [((facts.reason or "",), 1.0)] if facts.disabled else []
        yield _gauge("disabled_info", "Why this host takes no new guests.", ("reason",), why)
        checks = status.checks if status is not None else ()
        yield _gauge(
            "check_ok",
            "Whether this part of the agent's health is well, as /readyz says it.",
            ("check",),
            [((one.name,), float(one.ok)) for one in checks],
        )

    def _nodes(self, nodes: Iterable[NodeStatus]) -> Iterator[Metric]:
        values: dict[tuple[str, str], Callable[[NodeStatus], float | None]] = {
            ("node_ok", "Whether all of the node is reported."): lambda one: float(one.ok),
            (
                "last_success_timestamp_seconds",
                "When all of the node was last reported.",
            ): lambda one: one.last_ok,
            (
                "reshapes_pending",
                "Drivers that wait for a reshape.",
            ): lambda one: float(len(one.reshape_pending)),
            (
                "draining",
                "Providers and inventories that are kept for the guests that use them.",
            ): lambda one: float(len(one.texts(Severity.INFO))),
            (
                "conditions",
                "What somebody should see to.",
            ): lambda one: float(len(one.texts(Severity.ERROR))),
        }
        known = list(nodes)
        for (name, text), value in values.items():
            yield _gauge(name, text, ("node",), [((one.node,), value(one)) for one in known])
        took = {name: spent for one in known for name, spent in (one.took or {}).items()}
        yield _gauge(
            "source_seconds",
            "How long a driver's source, such as a call of libvirt's, took the last time.",
            ("source",),
            [((name,), spent) for name, spent in took.items()],
        )

    def _trees(self) -> Iterator[Metric]:
        trackers = list(self.nodes.trackers.values())
        yield _gauge(
            "providers",
            "Providers of the node's tree, and those that share with it.",
            ("node",),
            [((one.node,), len(one.view.snapshot)) for one in trackers],
        )
        ago = time.time() - time.monotonic()
        verified = [((one.node,), one.root.verified_at) for one in trackers]
        yield _gauge(
            "last_verification_timestamp_seconds",
            "When the tree was last compared with what Placement has.",
            ("node",),
            [(labels, None if at is None else ago + at) for labels, at in verified],
        )


def _gauge(name: str, text: str, labels: tuple[str, ...], rows: Rows) -> Metric:
    return gauge(f"{PREFIX}_{name}", text, labels, rows)
