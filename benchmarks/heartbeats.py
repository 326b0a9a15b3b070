"""Measure the CPU time of a heartbeat at the centre, beside a service's in Nova.

    python -m benchmarks.heartbeats [--hosts N] [--rounds N] [--rate N]
        [--reference PYTHON]

Starts a RabbitMQ, a database and one compute-registry, and sends the heartbeats of many hosts with
the agent's own ``Heartbeat``, evenly, ``--rate`` in a second.  With the interpreter of an
environment that has nova, a nova-conductor with one worker follows on the same broker and MariaDB,
and services that call it as ``servicegroup`` does: ``report_count`` is increased and the service
saved.  Prints milliseconds of CPU by process.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from agent.bus import messaging
from agent.loop import Loop
from agent.registry.client import RegistryClient
from agent.switching.heartbeat import Heartbeat
from agent.switching.host_status import VERSION_6, HostStatus, status_document
from agent.switching.machine import Event
from benchmarks.compare import REPOSITORY
from benchmarks.fleet import meter
from benchmarks.nova_service import Nova
from tests.servers.databases import MariaDB
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess

AT_ONCE = 16
"""Threads that send heartbeats."""
SETTLE = 2.0
"""Seconds after the last heartbeat, in which the registry records it."""
Parts = Mapping[str, Sequence[int]]
"""Process ids by part."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.heartbeats")
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=10, help="heartbeats of each host")
    parser.add_argument("--rate", type=float, default=200.0, help="heartbeats in a second")
    parser.add_argument("--reference", metavar="PYTHON", help="interpreter with nova")
    options = parser.parse_args(argv)
    with RabbitMQ() as broker, tempfile.TemporaryDirectory() as directory:
        print(f"{'':44} {'service':>8} {'database':>8} {'RabbitMQ':>8}   ms of CPU")
        with MariaDB() as database:
            _measure_registry(options, broker, database, Path(directory))
        if options.reference:
            with MariaDB() as database:
                _measure_conductor(options, broker, database, Path(directory))


def _measure_registry(
    options: argparse.Namespace, broker: RabbitMQ, database: MariaDB, directory: Path
) -> None:
    place = directory / "registry"
    place.mkdir()
    more = f"connection = {database.create('registry')}\n"
    with RegistryProcess(place, transport_url=broker.url, more=more) as registry:
        registry.wait_for(lambda: "Serving RPC calls" in registry.log)
        client = RegistryClient(messaging.transport(broker.url))
        hosts = [_host(client, directory, number) for number in range(options.hosts)]
        parts = {
            "service": [registry.pid],
            "database": [database.pid or 0],
            "RabbitMQ": broker.pids,
        }
        beats = [host.beat for host in hosts]
        with _measured("first heartbeat of a host", parts, len(beats)):
            _send(beats, options.rate)
        for host in hosts:
            host.status.handle(Event.FOUND_ENABLED)
        _send(beats, options.rate)
        answered = [partial(_beat_answered, host) for host in hosts]
        with _measured("answered heartbeat that changes nothing", parts, len(answered)):
            _send(answered, options.rate)
        beats *= options.rounds
        with _measured("heartbeat that changes nothing", parts, len(beats)):
            _send(beats, options.rate)
        lost = [host.host for host in hosts if host.status.registry_lost]
        down = [each.host for each in client.list_services() if not each.is_up()]
        if lost or down:
            raise SystemExit(f"not answered: {lost}; down: {down}")


def _host(client: RegistryClient, directory: Path, number: int) -> Heartbeat:
    place = directory / f"host{number}"
    place.mkdir()
    root = str(uuid.uuid4())
    return Heartbeat(
        lambda: client,
        place.name,
        f"{place.name} (boot {root}, /var/lib/compute-agent)",
        lambda: (root,),
        HostStatus(status_document(place), Loop(), lambda *_: ()),
        lambda: VERSION_6,
    )


def _beat_answered(host: Heartbeat) -> None:
    host.follow(host.connect, host.every)  # after a reload the next heartbeat has to be answered
    host.beat()


def _measure_conductor(
    options: argparse.Namespace, broker: RabbitMQ, database: MariaDB, directory: Path
) -> None:
    place = directory / "nova"
    libraries = place / "libraries"  # nova's environment may lack the database's client
    libraries.mkdir(parents=True)
    found = importlib.util.find_spec("pymysql")
    assert found is not None
    (libraries / "pymysql").symlink_to(Path(str(found.origin)).parent)
    urls = database.create("nova"), database.create("api")
    nova = Nova(options.reference, place, broker.url, "", urls, str(libraries))
    nova.prepare()
    with nova.conductor() as conductor:
        command = [options.reference, "-W", "ignore", "-m", "benchmarks.nova_heartbeats"]
        numbers = [options.hosts, options.rounds, options.rate]
        with subprocess.Popen(
            [*command, str(place / "nova.conf"), *map(str, numbers)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as services:
            assert services.stdin is not None
            assert services.stdout is not None
            services.stdout.readline()  # all services are created
            parts = {
                "service": [conductor],
                "database": [database.pid or 0],
                "RabbitMQ": broker.pids,
            }
            with _measured("Nova: report_state", parts, options.hosts * options.rounds):
                services.stdin.write("\n")
                services.stdin.flush()
                services.stdout.readline()


@contextmanager
def _measured(what: str, parts: Parts, count: int) -> Iterator[None]:
    before = {name: meter.cpu(pids) for name, pids in parts.items()}
    yield
    time.sleep(SETTLE)
    costs = [1000 * (meter.cpu(pids) - before[name]) / count for name, pids in parts.items()]
    print(f"{what:44}" + "".join(f" {cost:8.2f}" for cost in costs), flush=True)


def _send(beats: Sequence[Callable[[], object]], rate: float) -> None:
    """Call each of them, evenly, ``rate`` in a second."""
    began = time.monotonic()
    slots = threading.Semaphore(AT_ONCE)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number, beat in enumerate(beats):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            slots.acquire()
            pool.submit(beat).add_done_callback(lambda _: slots.release())


if __name__ == "__main__":
    main()
