"""Fixtures of the tests with faults: a scene in this process, and a site with an agent as a process."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.faults.scenario")

from tests.faults.scenario import Scene, after, before
from tests.faults.site import Site
from tests.servers.backup import back_up, restore
from tests.servers.databases import MariaDB
from tests.servers.fault_proxy import FaultProxy
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ


@pytest.fixture
def fresh(placement: RealPlacement, proxy: FaultProxy, tmp_path: Path) -> Scene:
    """Nothing has happened yet."""
    state = tmp_path / "state"
    state.mkdir()
    return Scene(placement, proxy, state)


@pytest.fixture(scope="session")
def settled(
    placement_server: RealPlacement, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Scene, Path]:
    """A settled scene and a copy of its Placement, made once."""
    placement_server.start()
    placement_server.empty()
    directory = tmp_path_factory.mktemp("settled")
    (directory / "state").mkdir()
    with FaultProxy(placement_server.port) as proxy:
        scene = Scene(placement_server, proxy, directory / "state")
        scene.settle()
    back_up(placement_server, directory / "backup.sqlite")
    return scene, directory / "backup.sqlite"


@pytest.fixture
def scene(settled: tuple[Scene, Path], fresh: Scene) -> Scene:
    """Everything is about to change; an agent of the scene starts from its saved view."""
    model, backup = settled
    restore(fresh.placement, backup)
    shutil.copytree(model.state, fresh.state, dirs_exist_ok=True, copy_function=os.link)
    fresh.driver.say(before())
    fresh.driver.say(after())
    fresh.strangers_child, fresh.consumer = model.strangers_child, model.consumer
    return fresh


@pytest.fixture
def site(tmp_path: Path, placement: RealPlacement) -> Iterator[Site]:
    """A host whose agent has not started: a test sets what it wants before."""
    site = Site.on(placement, tmp_path / "host")
    yield site
    site.agent.kill()


@pytest.fixture
def broker(own_broker: RabbitMQ) -> RabbitMQ:
    """Broken in each test, so another one in each."""
    return own_broker


@pytest.fixture
def mariadb() -> Iterator[MariaDB]:
    with MariaDB() as database:
        yield database
