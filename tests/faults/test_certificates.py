"""Certificates that expire under a running agent, and are renewed: nothing is restarted."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.registry.client import RegistryClient
from tests.faults.site import Site, recorded
from tests.integration.switched import eventually, has_trait
from tests.servers.registry import RegistryProcess
from tests.servers.tls import Authority, SecureMariaDB, SecureRabbitMQ, TlsProxy

pytestmark = pytest.mark.faults

LONG = 180.0
EXPIRED = ".*certificate has expired"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def test_an_expired_certificate_of_placement_is_named_until_it_is_renewed(
    site: Site, authority: Authority
) -> None:
    with TlsProxy(authority, site.placement.port) as proxy:
        site.agent.placement_url = proxy.url
        site.begin(f"[placement]\ncafile = {authority.ca}\n[DEFAULT]\n")
        authority.expire()
        proxy.read_certificate()
        site.change()
        site.agent.until_logged(
            f"the certificate of 127.0.0.1:{proxy.port} is not accepted: certificate has expired"
        )
        authority.issue()
        proxy.read_certificate()
        site.converges()


@dataclass
class Centre:
    """Both servers have a certificate of their own, of the same authority."""

    broker: SecureRabbitMQ
    database: SecureMariaDB
    registry: RegistryProcess
    client: RegistryClient
    bus: str
    """Lines of a configuration."""


@pytest.fixture
def centre(
    site: Site, authority: Authority, tmp_path: Path, transport: Callable[[str], Any]
) -> Iterator[Centre]:
    other = Authority(tmp_path / "other")
    with (
        SecureRabbitMQ(authority, "everybody", "secret") as broker,
        SecureMariaDB(other) as mariadb,
    ):
        connection = mariadb.secured("registry", "registry", "secret")
        bus = f"[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = {authority.ca}\n"
        registry = RegistryProcess(
            tmp_path / "registry",
            transport_url=broker.secure_url,
            more=f"connection = {connection}\n{bus}",
        )
        with registry:
            # Without TLS: this one is to see what the others do.
            plain = broker.secure_url.replace(str(broker.secure_port), str(broker.port))
            client = RegistryClient(transport(plain), timeout=5)
            yield Centre(broker, mariadb, registry, client, bus)
            site.agent.kill()


@pytest.mark.parametrize("whose", ["broker", "database"])
@pytest.mark.needs("rabbitmq", "mariadb")
def test_that_of_the_broker_and_of_the_registrys_database(site, centre: Centre, whose: str) -> None:
    broken = centre.broker if whose == "broker" else centre.database
    site.begin(
        f"transport_url = {centre.broker.secure_url}\n"
        f"[registry]\naccess = rpc\nreport_interval = 1\n{centre.bus}"
    )
    eventually(lambda: recorded(centre.client, disabled=True))
    site.agent.until(lambda: has_trait(site.placement, site.root))

    broken.authority.expire()
    broken.read_certificate()
    site.changes()
    assert has_trait(site.placement, site.root), "the record was forgotten"
    if whose == "broker":
        told = f"AMQP server on 127.0.0.1:{centre.broker.secure_port} is unreachable: {EXPIRED}"
    else:
        told = f"127.0.0.1:{centre.database.port}/registry: {EXPIRED}"
    centre.registry.wait_for(lambda: re.search(told, centre.registry.log))
    site.agent.until(lambda: re.search(told, site.agent.log))

    broken.authority.issue()
    broken.read_certificate()
    eventually(lambda: recorded(centre.client, disabled=False), LONG)
    site.agent.until(lambda: not has_trait(site.placement, site.root), LONG)
    site.changes()
    if whose == "database":
        assert centre.registry.log.count("The database does not answer") == 1
