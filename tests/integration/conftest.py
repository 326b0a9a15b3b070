"""A host whose commands call the registry of a fleet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compute_registry.store import SqlRegistry
from tests import registries
from tests.integration.agent_host import DOWN_AFTER, Here
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ


@pytest.fixture
def host(placement: RealPlacement, tmp_path: Path) -> Here:
    """Its commands only; nothing was reported yet."""
    (tmp_path / "state").mkdir()
    return Here.configured(tmp_path, placement.url)


@pytest.fixture
def registry(host: Here, broker: RabbitMQ, tmp_path: Path) -> Iterator[SqlRegistry]:
    """That of the fleet, which the host's commands call."""
    host.join_fleet(broker.url)
    with registries.served(tmp_path, broker, DOWN_AFTER) as store:
        yield store
