"""A private server owns every port that it looks at: a machine's own servers do not stop it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.servers.databases import MariaDB, PostgreSQL
from tests.servers.process import Server
from tests.servers.prometheus import Prometheus
from tests.servers.rabbitmq import RabbitMQ

DEFAULT_PORTS = (3306, 4369, 5432, 5672, 9090, 25672, *range(35672, 35683))
"""Of MariaDB, epmd, PostgreSQL, AMQP, Prometheus, and RabbitMQ's nodes and commands."""
SERVERS: dict[str, Callable[[Path], Server]] = {
    "rabbitmq": lambda _: RabbitMQ(),
    "mariadb": lambda _: MariaDB(),
    "postgresql": lambda _: PostgreSQL(),
    "prometheus": lambda directory: Prometheus(directory, {}),
}


@pytest.fixture(autouse=True)
def _taken() -> Iterator[None]:
    """Somebody holds each of these ports, if not a server of this machine then this test."""
    with ExitStack() as stack:
        for port in DEFAULT_PORTS:
            holder = stack.enter_context(socket.socket())
            with suppress(OSError):
                holder.bind(("", port))
                holder.listen()
        yield


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(name)) for name in SERVERS]
)
def test_a_private_server_starts_while_the_default_ports_are_taken(
    name: str, tmp_path: Path
) -> None:
    with SERVERS[name](tmp_path) as server:
        if isinstance(server, RabbitMQ):
            assert "guest" in server.control("list_users")
