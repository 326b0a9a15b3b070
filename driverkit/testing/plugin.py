"""The pytest plugin: an option, and the fixtures that DriverContract uses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from driverkit.context import Options, driver_context_in, options_of
from driverkit.placement.server import PlacementServer, PlacementServerError, empty
from drivers.api import DriverContext
from reportclient.http import API, PlacementAPI, token_adapter
from reportclient.testing.fake_placement import FakePlacement

OPTION = "--real-placement"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--real-placement``."""
    parser.getgroup("compute-agent drivers").addoption(
        OPTION,
        action="store_true",
        help="let DriverContract report to a real Placement, started for this run, instead "
        "of the one in memory; needs compute-agent[dev]",
    )


@pytest.fixture
def driver_config() -> str:
    """Return the text of the driver's configuration file; override it to set options."""
    return ""


@pytest.fixture
def driver_options(request: pytest.FixtureRequest) -> Options:
    """Return ``[(group, [options])]`` to register: of all drivers in the test's module."""
    return options_of(vars(request.module).values())


@pytest.fixture
def driver_context(tmp_path: Path, driver_options: Options, driver_config: str) -> DriverContext:
    """Return a context for the driver: a host name, a state path, and ``conf``."""
    return driver_context_in(tmp_path, driver_options, driver_config)


@pytest.fixture(scope="session")
def driver_placement_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlacementServer | None]:
    """The real Placement of this run; ``None`` without ``--real-placement``."""
    if not request.config.getoption(OPTION):
        yield None
        return
    server = _started(tmp_path_factory.mktemp("placement"))
    yield server
    server.stop()


@pytest.fixture
def driver_placement(driver_placement_server: PlacementServer | None) -> Iterator[API]:
    """The API of an empty Placement: the fake in memory, or the real one."""
    if driver_placement_server is None:
        yield FakePlacement()
        return
    api = PlacementAPI(token_adapter(driver_placement_server.url, driver_placement_server.token))
    empty(api)
    yield api


def _started(directory: Path) -> PlacementServer:
    try:
        server = PlacementServer(directory)
        server.start()
    except (PlacementServerError, OSError) as err:
        pytest.fail(f"{OPTION} (needs compute-agent[dev]): {err}", pytrace=False)
    return server
