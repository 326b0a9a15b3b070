"""The pytest plugin: one option, and the fixtures that DriverContract builds upon."""

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
    """The option that chooses a real Placement."""
    parser.getgroup("compute-agent drivers").addoption(
        OPTION,
        action="store_true",
        help="let DriverContract report to a real Placement, started for this run, instead "
        "of the one in memory; needs compute-agent[dev]",
    )


@pytest.fixture
def driver_config() -> str:
    """The text of the configuration file that the driver sees; override it to set options."""
    return ""


@pytest.fixture
def driver_options(request: pytest.FixtureRequest) -> Options:
    """``[(group, [options])]`` to register: those of all drivers that the test's module names."""
    return options_of(vars(request.module).values())


@pytest.fixture
def driver_context(tmp_path: Path, driver_options: Options, driver_config: str) -> DriverContext:
    """The agent's context for a driver: a host, a state path, and ``conf``."""
    return driver_context_in(tmp_path, driver_options, driver_config)


@pytest.fixture(scope="session")
def driver_placement_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlacementServer | None]:
    """The real Placement of this run, if it was asked for."""
    if not request.config.getoption(OPTION):
        yield None
        return
    server = _started(tmp_path_factory.mktemp("placement"))
    yield server
    server.stop()


@pytest.fixture
def driver_placement(driver_placement_server: PlacementServer | None) -> Iterator[API]:
    """An empty Placement."""
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
