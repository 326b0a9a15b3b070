"""Objects that the fixtures of the pytest plugin return."""

import inspect
from collections.abc import Iterable, Sequence
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

HOST = "host1"
Options = Sequence[tuple[str, Sequence[Any]]]


def context(directory: Path, options: Options, config: str) -> DriverContext:
    """Return a context for the driver, with files in ``directory``.

    :raises oslo_config.cfg.Error: ``config`` is not a configuration, or options contradict.
    """
    state_path = directory / "state"
    state_path.mkdir(parents=True, exist_ok=True)
    file = directory / "agent.conf"
    file.write_text(config, encoding="utf-8")
    conf = configuration([str(file)])
    register(conf, options)
    return DriverContext(HOST, state_path, conf)


def placement(server: PlacementServer | None) -> API:
    """Return the API of an empty Placement: the server's, or one in memory."""
    if server is None:
        return FakePlacement()
    api = PlacementAPI(token_adapter(server.url, server.token))
    empty(api)
    return api


def started(directory: Path, option: str) -> PlacementServer:
    """Return a started Placement, or fail with the name of the option that asks for it."""
    try:
        server = PlacementServer(directory)
        server.start()
    except (PlacementServerError, OSError) as err:
        pytest.fail(f"{option} (needs compute-agent[dev]): {err}", pytrace=False)
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
