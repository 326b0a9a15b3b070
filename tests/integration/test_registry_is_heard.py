"""What keeps a registry from hearing hosts takes no host down, and keeps none up afterwards."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.registry.checks import HeartbeatMessage
from agent.registry.client import RegistryClient
from tests.registries import registry, url_in
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess

DOWN_AFTER = 10
SILENT = 20.0
"""Seconds in which the broker delivers nothing."""
ALARM = "set_vm_memory_high_watermark"
FULL = """
import threading
from pathlib import Path
start = threading.Thread.start
def limited(thread):
    if Path({full!r}).exists():
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = limited
"""
"""As under TasksMax: while the file exists."""
Change = Callable[[RabbitMQ, Path], object]
OUTAGES: dict[str, tuple[Change, Change]] = {
    "the broker's memory is full": (
        lambda broker, _: broker.control(ALARM, "0.000001"),
        lambda broker, _: broker.control(ALARM, "absolute", "512MB"),
    ),
    "the broker hangs": (
        lambda broker, _: broker.send(signal.SIGSTOP),
        lambda broker, _: broker.send(signal.SIGCONT),
    ),
    "no thread can be started": (
        lambda _, full: full.touch(),
        lambda _, full: full.unlink(),
    ),
}


@pytest.mark.parametrize(
    "outage",
    [
        "the broker hangs",
        "no thread can be started",
        pytest.param("the broker's memory is full", marks=pytest.mark.faults),
    ],
)
def test_a_host_is_down_after_the_outage_and_not_because_of_it(
    own_broker: RabbitMQ, tmp_path: Path, transport: Callable[[str], Any], outage: str
) -> None:
    begin, end = OUTAGES[outage]
    more = f"connection = {url_in(tmp_path)}\nservice_down_time = {DOWN_AFTER}\nreport_interval = 1"
    instance = RegistryProcess(tmp_path, transport_url=own_broker.url, more=more)
    full = tmp_path / "full"
    instance.code = FULL.format(full=str(full)) + instance.code
    with (
        instance as process,
        registry(tmp_path, DOWN_AFTER) as store,
    ):
        process.wait_for(lambda: "Serving RPC calls" in process.log)
        agent = RegistryClient(transport(own_broker.url), 5)
        agent.heartbeat(HeartbeatMessage("host1", "a", "6.5", []))
        begin(own_broker, full)
        try:
            until = time.monotonic() + SILENT
            while time.monotonic() < until:
                assert store.get_service("host1").is_up(DOWN_AFTER)
                time.sleep(0.5)
        finally:
            end(own_broker, full)

        def is_down() -> bool:
            return not store.get_service("host1").is_up(DOWN_AFTER)

        process.wait_for(is_down)  # its agent is gone, and the registry hears again
