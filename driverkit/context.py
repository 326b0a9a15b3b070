"""The DriverContext of a driver under test: options registered, values from a text."""

import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

from drivers.api import Configurable, DriverContext
from drivers.opts import register

HOST = "host1"
Options = Sequence[tuple[str, Sequence[Any]]]


def driver_context_in(directory: Path, options: Options, text: str) -> DriverContext:
    """State path and configuration file are made in ``directory``; nobody else's are read.

    :raises oslo_config.cfg.Error: the text can't be read, or options contradict each other.
    """
    state_path = directory / "state"
    state_path.mkdir(parents=True, exist_ok=True)
    file = directory / "agent.conf"
    file.write_text(text, encoding="utf-8")
    conf = configuration([str(file)])
    register(conf, options)
    return DriverContext(HOST, state_path, conf)


def configuration(files: Iterable[str], directories: Iterable[str] = ()) -> Any:
    """The configuration of these files, and of no others."""
    conf = cfg.ConfigOpts()
    conf(
        [],
        project="driver-kit",
        default_config_files=[*files],
        default_config_dirs=[*directories],
    )
    return conf


def options_of(namespace: Iterable[Any]) -> list[tuple[str, list[Any]]]:
    """The options of all classes of drivers among these things."""
    classes = (thing for thing in namespace if inspect.isclass(thing))
    drivers = (it for it in classes if hasattr(it, "get_available_nodes"))
    return [
        option
        for driver in dict.fromkeys(drivers)
        if issubclass(driver, Configurable)
        for option in driver.list_opts()
    ]
