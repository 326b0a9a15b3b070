"""Placement's MariaDB fails over to a replica that lacks the last transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.site import Site
from tests.integration.foreign import with_a_stranger
from tests.servers.databases import ReplicatedMariaDB
from tests.servers.forwarder import Forwarder
from tests.servers.placement_workers import PlacementWorkers

pytestmark = [
    pytest.mark.faults,
    pytest.mark.needs("mariadb"),
]


@dataclass
class Cluster:
    """Placement is behind ``address``, wherever the primary is."""

    primary: ReplicatedMariaDB
    replica: ReplicatedMariaDB
    address: Forwarder

    def replicated(self) -> None:
        """All so far, and nothing of what comes."""
        self.replica.catch_up_with(self.primary)
        self.replica.lag()

    def fail_over(self) -> None:
        """What only the dead one had is lost."""
        self.replica.promote()
        self.address.move(self.replica.port)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with (
        ReplicatedMariaDB() as primary,
        ReplicatedMariaDB() as replica,
        Forwarder(primary.port) as address,
    ):
        replica.follow(primary)
        yield Cluster(primary, replica, address)


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    url = cluster.primary.create("placement").replace(
        f":{cluster.primary.port}/", f":{cluster.address.port}/"
    )
    with PlacementWorkers(tmp_path / "placement", url) as placement:
        site = Site.on(placement, tmp_path / "host")
        yield site
        site.agent.kill()


@pytest.mark.parametrize("lost", ["all that the agent wrote", "its last changes"])
def test_what_was_lost_is_written_again(site: Site, cluster: Cluster, lost: str) -> None:
    site.write()
    with_a_stranger(site.placement, site.root)
    if lost == "all that the agent wrote":
        cluster.replicated()
    site.agent.start()
    site.converges()
    if lost == "its last changes":
        cluster.replicated()
    for _ in range(3):
        site.change()
        site.converges()
    cluster.primary.kill9()
    site.change()
    site.agent.until_logged(": 500 The server")
    cluster.fail_over()
    site.converges()
    site.change()
    site.converges()
