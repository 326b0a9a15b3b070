"""The pytest plugin: an option, and the fixtures that DriverContract uses."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from driverkit.placement.server import PlacementServer, PlacementServerError, empty
from drivers.abilities import Configurable
from drivers.api import DriverContext
from drivers.opts import register
from reportclient.http import API, PlacementAPI, token_adapter
from reportclient.testing.fake_placement import FakePlacement

OPTION = "--real-placement"
HOST = "host1"
Options = Sequence[tuple[str, Sequence[Any]]]


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
    """Return a context for the driver: a host name, a state path, and ``conf``.

    :raises oslo_config.cfg.Error: ``driver_config`` is not a configuration, or options contradict.
    """
    state_path = tmp_path / "state"
    state_path.mkdir(parents=True, exist_ok=True)
    file = tmp_path / "agent.conf"
    file.write_text(driver_config, encoding="utf-8")
    conf = configuration([str(file)])
    register(conf, driver_options)
    return DriverContext(HOST, state_path, conf)


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


def configuration(files: Iterable[str], directories: Iterable[str] = ()) -> Any:
    """Return the configuration of these files only; no default files are read."""
    conf = cfg.ConfigOpts()
    conf(
        [],
        project="driver-kit",
        default_config_files=[*files],
        default_config_dirs=[*directories],
    )
    return conf


def options_of(namespace: Iterable[Any]) -> list[tuple[str, list[Any]]]:
    """Return the options of all driver classes among the values of a module's namespace."""
    classes = (value for value in namespace if inspect.isclass(value))
    drivers = (cls for cls in classes if hasattr(cls, "get_available_nodes"))
    return [
        option
        for driver in dict.fromkeys(drivers)
        if issubclass(driver, Configurable)
        for option in driver.list_opts()
    ]
