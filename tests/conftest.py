"""Fixtures that all tests share.  Servers start when a test first asks for one."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from agent.bus import messaging
from tests import profiles
from tests.servers.fault_proxy import FaultProxy
from tests.servers.libvirtd import PrivateLibvirtd, private_libvirtd
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ
from tests.stranger import FakePlacement

pytest_plugins = ["tests.needs", "tests.sharing", "tests.tiers"]

settings.load_profile(profiles.NAME)


@pytest.fixture(autouse=True)
def _threads_of_earlier_tests_are_silent(request: pytest.FixtureRequest) -> Iterator[None]:
    """A connection whose broker is gone looks for it until the process ends, a call that hung
    ends at last: what these log is no test's that runs then."""
    plugin = request.config.pluginmanager.getplugin("logging-plugin")
    assert plugin is not None
    earlier = {each for each in threading.enumerate() if each is not threading.main_thread()}

    def is_of_this_test(_: logging.LogRecord) -> bool:
        return threading.current_thread() not in earlier

    for handler in (plugin.caplog_handler, plugin.report_handler):
        handler.addFilter(is_of_this_test)
    yield
    for handler in (plugin.caplog_handler, plugin.report_handler):
        handler.removeFilter(is_of_this_test)


@pytest.fixture(autouse=True)
def _what_a_test_sets_up_for_logging_ends_with_it() -> Iterator[None]:
    """A program that a test runs in this process logs to a stream that is closed then."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in [each for each in root.handlers if each not in before]:
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(scope="session")
def placement_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlacement]:
    """The session's Placement; tests want ``placement``."""
    with RealPlacement(tmp_path_factory.mktemp("placement")) as server:
        yield server


@pytest.fixture
def placement(placement_server: RealPlacement) -> RealPlacement:
    """A real, empty Placement that answers: ``url``, ``request``, ``stranger``, ``mark``
    and ``since`` for the requests it got."""
    placement_server.start()  # a test may have stopped it
    placement_server.empty()
    return placement_server


@pytest.fixture
def fake_placement() -> FakePlacement:
    """Placement in memory, by the same rules."""
    return FakePlacement()


@pytest.fixture(params=["fake", "real"])
def any_placement(request: pytest.FixtureRequest) -> FakePlacement | RealPlacement:
    """The one in memory, then a real one: by the names that both have."""
    name = "fake_placement" if request.param == "fake" else "placement"
    placement: FakePlacement | RealPlacement = request.getfixturevalue(name)
    return placement


@pytest.fixture
def proxy(placement: RealPlacement) -> Iterator[FaultProxy]:
    """Before ``placement``: requests pass it, and can be harmed."""
    with FaultProxy(placement.port) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def libvirtd() -> Iterator[PrivateLibvirtd]:
    """A libvirtd of this module's tests only."""
    with private_libvirtd() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def broker() -> Iterator[RabbitMQ]:
    """A RabbitMQ of this module's tests only."""
    with RabbitMQ() as broker:
        yield broker


@pytest.fixture
def own_broker() -> Iterator[RabbitMQ]:
    """A RabbitMQ of this test only."""
    with RabbitMQ() as broker:
        yield broker


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Any]]:
    """Make message transports by URL, given up with the test: their threads poll for ever."""
    if "own_broker" in request.fixturenames:
        # It has to outlive them: a call under way looks for its broker until it is back.
        request.getfixturevalue("own_broker")
    made: list[Any] = []

    def make(url: str) -> Any:
        made.append(messaging.transport(url))
        return made[-1]

    yield make
    for each in made:
        each.cleanup()


@pytest.fixture
def own_placement(tmp_path: Path) -> Iterator[RealPlacement]:
    """A Placement of this test only, not started: to configure, stop, freeze or kill."""
    server = RealPlacement(tmp_path / "placement")
    yield server
    server.stop()
