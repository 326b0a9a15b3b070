"""compute-registry and its database: killed, hung, split. Reports go on; then records are obeyed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.registry.client import RegistryClient
from tests.faults.site import Site, recorded
from tests.integration.switched import eventually, has_trait
from tests.servers.databases import MariaDB
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess

pytestmark = pytest.mark.faults


@dataclass
class Centre:
    registry: RegistryProcess
    database: MariaDB
    client: RegistryClient
    another: Callable[[], RegistryProcess]
    """A second one, over the same broker and database."""


@contextmanager
def registry_killed(centre: Centre) -> Iterator[None]:
    centre.registry.kill9()
    yield
    centre.registry.start()


@contextmanager
def one_of_two_killed(centre: Centre) -> Iterator[None]:
    """As in a rolling restart: another one serves the same records, and this one comes back."""
    with centre.another() as second:
        centre.registry.kill9()
        for disabled in (False, True):
            eventually(lambda: recorded(centre.client, disabled=disabled), within=180)
        centre.registry.start()
        second.kill9()
        yield


@contextmanager
def database_killed(centre: Centre) -> Iterator[None]:
    centre.database.kill9()
    yield
    centre.database.start()


@contextmanager
def database_hung(centre: Centre) -> Iterator[None]:
    """As behind a partition: connections stay, and nothing is answered."""
    with centre.database.hung():
        yield


@pytest.fixture
def centre(
    site: Site, broker: RabbitMQ, mariadb: MariaDB, tmp_path: Path, transport: Callable[[str], Any]
) -> Iterator[Centre]:
    more = f"connection = {mariadb.create('registry')}\n"

    def registry(name: str) -> RegistryProcess:
        return RegistryProcess(tmp_path / name, transport_url=broker.url, more=more)

    with registry("registry") as first:
        client = RegistryClient(transport(broker.url), timeout=5)
        yield Centre(first, mariadb, client, lambda: registry("second"))
        site.agent.kill()


@pytest.mark.parametrize(
    "fault",
    [registry_killed, one_of_two_killed, database_killed, database_hung],
    ids=lambda fault: fault.__name__,
)
def test_reports_go_on_and_the_record_is_obeyed_afterwards(
    site: Site, centre: Centre, broker: RabbitMQ, fault
) -> None:
    bus = f"transport_url = {broker.url}\n[registry]\naccess = rpc\nreport_interval = 1\n"
    site.begin(bus)
    eventually(lambda: recorded(centre.client, disabled=True))
    site.agent.until(lambda: has_trait(site.placement, site.root))
    with fault(centre):
        site.changes()
        assert has_trait(site.placement, site.root), "the record was forgotten"
    eventually(lambda: recorded(centre.client, disabled=False), within=180)
    site.agent.until(lambda: not has_trait(site.placement, site.root), 180)
    site.converges()
