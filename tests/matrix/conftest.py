"""The site that each test breaks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.matrix.site import Site
from tests.servers import rabbitmq
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.faults)


@pytest.fixture
def site(tmp_path: Path, placement: RealPlacement) -> Iterator[Site]:
    """Not begun: a test sets what it wants before."""
    site = Site.on(placement, tmp_path / "host")
    yield site
    site.agent.kill()


@pytest.fixture
def broker(own_broker: RabbitMQ) -> RabbitMQ:
    if missing := rabbitmq.missing():
        pytest.skip(missing)
    return own_broker
