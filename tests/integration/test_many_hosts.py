"""Many hosts switched off and on through compute-registry, with everything killed on the way.

Hosts are threads of a few processes (``tests.servers.fleet_hosts``), and their first reports are
written to Placement and disk (``tests.servers.fleet``); all else is real.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.bus import messaging
from agent.bus.rpcapi import ComputeAgentAPI
from agent.errors import RegistryUnavailable
from agent.registry.client import RegistryClient
from agent.registry.record import ServiceRecord
from agent.switching.host_status import saved_status, status_document
from compute_registry.control import Control
from tests.integration.switched import DISABLED
from tests.servers.databases import MariaDB
from tests.servers.fleet import Fleet
from tests.servers.fleet_hosts import CALLED
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess
from tests.waiting import eventually, without_error

HOSTS = 1000
OPERATORS = 8
ANSWER_WITHIN = 5.0
"""Seconds; a host that lost its queue with the broker does not answer, and follows later."""
DOWN_AFTER = 120
SLOW = f"report_interval = 20\nservice_down_time = {DOWN_AFTER}\n"
"""Fewer heartbeats, as docs/registry.rst advises where there are many hosts."""

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.faults,
    pytest.mark.needs("rabbitmq", "mariadb"),
]


@dataclass
class Operators:
    """Several at once; each repeats a wish until the registry has acknowledged it."""

    control: Control
    refused: int = 0
    """Attempts of which nobody knows what they did."""

    def wish(self, hosts: list[str], *, enabled: bool, meanwhile: Callable[[], None]) -> None:
        """Switch them all; ``meanwhile`` is done once a third of them is through."""
        passed = threading.Semaphore(0)

        def one(host: str) -> None:
            self._one(host, enabled=enabled)
            passed.release()

        with ThreadPoolExecutor(OPERATORS) as pool:
            work = [pool.submit(one, host) for host in hosts]
            for _ in hosts[::3]:
                assert passed.acquire(timeout=180), "the operators are stuck"
            meanwhile()
            for each in work:
                each.result()

    def _one(self, host: str, *, enabled: bool) -> None:
        give_up = time.monotonic() + 240
        while True:
            try:
                self.control.switch(host, disabled=not enabled)
            except RegistryUnavailable:
                self.refused += 1
                assert time.monotonic() < give_up, "the registry never came back"
                time.sleep(0.2)
            else:
                return


@dataclass
class World:
    placement: RealPlacement
    broker: RabbitMQ
    registry: RegistryProcess
    fleet: Fleet
    client: RegistryClient
    operators: Operators

    def records(self) -> dict[str, ServiceRecord]:
        """Of a registry that is there; one that is just busy is asked again."""
        services = without_error(self.client.list_services, RegistryUnavailable, within=120)
        return {record.host: record for record in services}

    def are_all_up(self) -> bool:
        found = self.records().values()
        called = [each for each in found if each.host.endswith(CALLED)]
        return all(each.is_up(DOWN_AFTER) for each in found) and all(
            each.rpc_version for each in called
        )

    def with_trait(self) -> set[str]:
        """Roots, read from Placement; none if so many hosts keep it busy."""
        try:
            return {*self.placement.uuids(f"?required={DISABLED}").values()}
        except TimeoutError:
            return set()

    def candidates(self) -> set[str]:
        query = f"/allocation_candidates?resources=VCPU:1&root_required=!{DISABLED}"
        return set(self.placement.request("GET", query)["provider_summaries"])

    def disabled_on_disk(self) -> set[str]:
        directory = self.fleet.directory
        saved = {host: saved_status(status_document(directory / host)) for host in self.fleet.hosts}
        return {host for host, status in saved.items() if status.disabled}

    def kill_broker_and_registry(self) -> None:
        self.broker.kill9()
        self.registry.kill9()
        self.broker.start()
        self.registry.start()

    def kill_registry(self) -> None:
        self.registry.kill9()
        self.registry.start()


@pytest.fixture
def world(tmp_path: Path, placement: RealPlacement) -> Iterator[World]:
    for name in ("registry", "fleet"):
        (tmp_path / name).mkdir()
    with RabbitMQ() as broker, MariaDB() as database:
        url, bus = database.create("registry"), broker.url
        more = f"connection = {url}\n{SLOW}"
        with (
            RegistryProcess(tmp_path / "registry", transport_url=bus, more=more) as registry,
            Fleet(tmp_path / "fleet", placement, bus, url, HOSTS, more=SLOW) as fleet,
        ):
            transport = messaging.transport(bus)
            client = RegistryClient(transport, timeout=ANSWER_WITHIN)
            agents = ComputeAgentAPI(transport, timeout=ANSWER_WITHIN)
            operators = Operators(Control(client, agents))
            yield World(placement, broker, registry, fleet, client, operators)
            transport.cleanup()


def test_at_the_end_all_traits_equal_all_records(world: World) -> None:
    hosts = sorted(world.fleet.hosts)
    again, stay = hosts[::2], hosts[1::2]
    eventually(world.are_all_up, within=180, every=0.5)
    mark = world.placement.mark()
    world.operators.wish(hosts, enabled=False, meanwhile=world.kill_broker_and_registry)
    world.operators.wish(again, enabled=True, meanwhile=world.kill_registry)
    assert world.operators.refused, "nobody noticed that anything was killed"
    records = world.records()
    assert {host: not each.disabled for host, each in records.items()} == {
        **dict.fromkeys(again, True),
        **dict.fromkeys(stay, False),
    }, "a change that was acknowledged is lost"
    eventually(lambda: world.with_trait() == roots_of(records, stay), within=240, every=0.5)
    assert world.candidates() == roots_of(records, again)
    assert world.disabled_on_disk() == set(stay)
    writes = Counter(each.path for each in world.placement.since(mark) if each.is_write)
    assert max(writes.values()) <= 4, "a trait was written again and again"


def roots_of(records: dict[str, ServiceRecord], hosts: Iterable[str]) -> set[str]:
    return {root for host in hosts for root in records[host].roots}
