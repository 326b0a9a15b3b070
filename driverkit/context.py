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
    """Create a context with its state path and configuration file in ``directory``.

    :raises oslo_config.cfg.Error: the text is not a configuration, or options contradict.
    """
    state_path = directory / "state"
    state_path.mkdir(parents=True, exist_ok=True)
    file = directory / "agent.conf"
    file.write_text(text, encoding="utf-8")
    conf = configuration([str(file)])
    register(conf, options)
    return DriverContext(HOST, state_path, conf)


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
