"""From the names in the configuration to drivers that are ready to be asked.

The only place that knows stevedore.  What can be wrong with somebody's driver is
found here, once, and said with the entry point's name: later nobody has to ask
whether a method is there.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

from stevedore.driver import DriverManager
from stevedore.extension import Extension

from drivers.api import (
    API_VERSION,
    ComputeDriver,
    Configurable,
    DriverContext,
)
from drivers.errors import DriverLoadFailed, DriverNotFound
from drivers.loaded import LoadedDriver, words

__all__ = ["GROUP", "LoadedDriver", "driver_from", "installed", "load", "not_found"]

GROUP = "compute_agent.drivers"


def load(names: Sequence[str], context: DriverContext) -> list[LoadedDriver]:
    """Make the drivers of these entry points, in this order; a name given twice counts once.

    The options of each are registered on ``context.conf`` before it is made.

    :raises DriverNotFound: none of this name is installed; the message lists those that are.
    :raises DriverLoadFailed: it is installed but can't be used; the message names the
        entry point, and the cause is chained.
    """
    found = installed()
    for name in names:
        if name not in found:
            raise DriverNotFound(not_found(name, found))
    return [
        driver_from(_extension(name, found[name]), context, found[name])
        for name in dict.fromkeys(names)
    ]


def installed() -> dict[str, str]:
    """``{name: "module:attr (distribution version)"}`` of every driver; imports none."""
    origins: dict[str, list[str]] = {}
    for point in metadata.entry_points(group=GROUP):
        origins.setdefault(point.name, []).append(_origin(point))
    return {name: " and ".join(dict.fromkeys(origins[name])) for name in sorted(origins)}


def driver_from(
    extension: Extension[Any], context: DriverContext, origin: str | None = None
) -> LoadedDriver:
    """Check the class of an extension that was imported, and make the driver.

    :raises DriverLoadFailed: naming the entry point and what is wrong with it.
    """
    where = f"driver {extension.name!r} = {origin or _origin(extension.entry_point)}"
    problem = _problem(extension.plugin)
    if problem is not None:
        raise DriverLoadFailed(f"{where}: {problem}")
    try:
        _register_options(extension.plugin, context.conf)
        driver = extension.plugin(context)
        capabilities: object = driver.capabilities
    except (Exception, SystemExit) as err:
        raise DriverLoadFailed(f"{where}: can't be made: {_said(err)}") from err
    if not isinstance(capabilities, Mapping):
        raise DriverLoadFailed(
            f"{where}: capabilities is {capabilities!r}, not a mapping of names to True or False"
        )
    return LoadedDriver.of(extension.name, driver)


def _extension(name: str, origin: str) -> Extension[Any]:
    try:
        found: DriverManager[Any] = DriverManager(GROUP, name, on_load_failure_callback=_reraise)
    except (Exception, SystemExit) as err:
        raise DriverLoadFailed(
            f"driver {name!r} = {origin}: can't be imported: {_said(err)}"
        ) from err
    return found.extensions[0]


def _reraise(_manager: object, _point: metadata.EntryPoint, err: BaseException) -> None:
    raise err


def _problem(candidate: object) -> str | None:
    """Why this is no class of a driver for this agent, or ``None``."""
    if not (inspect.isclass(candidate) and issubclass(candidate, ComputeDriver)):
        return f"{candidate!r} is not a subclass of drivers.api.ComputeDriver"
    if tuple(candidate.api_version) > API_VERSION:
        return (
            f"written for version {_dotted(candidate.api_version)} of the driver API, "
            f"this agent has {_dotted(API_VERSION)}: upgrade compute-agent"
        )
    missing = sorted(getattr(candidate, "__abstractmethods__", ()))
    if missing:
        return f"{candidate.__name__} does not define {' and '.join(missing)}"
    return None


def _register_options(driver_class: type[ComputeDriver], conf: Any) -> None:
    if conf is None or not issubclass(driver_class, Configurable):
        return
    for group, options in driver_class.list_opts():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)


def not_found(name: str, found: Iterable[str]) -> str:
    """That there is no such driver, and which there are."""
    near = difflib.get_close_matches(name, found, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"no driver {name!r} is installed{hint} (installed: {', '.join(found) or 'none'})"


def _origin(point: metadata.EntryPoint) -> str:
    # What stevedore hands out comes from its cache and has no distribution.
    dist = point.dist
    return point.value if dist is None else f"{point.value} ({dist.name} {dist.version})"


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


def _said(err: BaseException) -> str:
    said, kind = words(err), type(err).__name__
    return said if said.startswith(kind) else f"{kind}: {said}"
