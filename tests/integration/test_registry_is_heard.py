"""A broker that delivers nothing, though all stay connected to it, takes no host down."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.registry.checks import Report
from agent.registry.client import RegistryClient
from tests.registries import registry, url_in
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess

DOWN_AFTER = 10
SILENT = 20.0
"""Seconds in which the broker delivers nothing."""
ALARM = "set_vm_memory_high_watermark"
OUTAGES: dict[str, tuple[Callable[[RabbitMQ], object], Callable[[RabbitMQ], object]]] = {
    "its memory is full": (
        lambda broker: broker.control(ALARM, "0.000001"),
        lambda broker: broker.control(ALARM, "absolute", "512MB"),
    ),
    "it hangs": (
        lambda broker: broker.send(signal.SIGSTOP),
        lambda broker: broker.send(signal.SIGCONT),
    ),
}


@pytest.mark.parametrize(
    "outage", ["it hangs", pytest.param("its memory is full", marks=pytest.mark.faults)]
)
def test_no_host_is_down_because_the_broker_delivers_nothing(
    own_broker: RabbitMQ, tmp_path: Path, transport: Callable[[str], Any], outage: str
) -> None:
    begin, end = OUTAGES[outage]
    more = f"connection = {url_in(tmp_path)}\nservice_down_time = {DOWN_AFTER}\nreport_interval = 1"
    with (
        RegistryProcess(tmp_path, transport_url=own_broker.url, more=more) as process,
        registry(tmp_path, DOWN_AFTER) as store,
    ):
        process.wait_for(lambda: "Serving RPC calls" in process.log)
        agent = RegistryClient.over(transport(own_broker.url), 5)
        agent.heartbeat(Report("host1", "a", "6.5", []))
        begin(own_broker)
        try:
            until = time.monotonic() + SILENT
            while time.monotonic() < until:
                assert store.get_service("host1").is_up(DOWN_AFTER)
                time.sleep(0.5)
        finally:
            end(own_broker)

        def is_down() -> bool:
            return not store.get_service("host1").is_up(DOWN_AFTER)

        process.wait_for(is_down)  # its agent is gone, and the registry hears again
