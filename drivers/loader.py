"""Loads drivers by their names in the configuration, and checks them.

The only module that imports stevedore.  A driver's defects are found here, once; errors name its
entry point.
"""

import difflib
import logging
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Any

from stevedore.driver import DriverManager
from stevedore.extension import Extension

from drivers.api import ComputeDriver, Configurable, DriverContext
from drivers.deadline import WITHIN, Calls
from drivers.errors import DriverLoadFailed, DriverNotFound, DriverNotReady
from drivers.fitness import capabilities_problem, class_problem, uses_older_methods
from drivers.legacy import older_methods, policy_from
from drivers.loaded import LoadedDriver
from drivers.opts import CALL_OPTS, register, where_read
from reportclient.plain_text import error_text

LOG = logging.getLogger(__name__)

__all__ = ["GROUP", "LoadedDriver", "driver_from", "installed", "load_drivers", "not_found"]

GROUP = "compute_agent.drivers"


def load_drivers(names: Sequence[str], context: DriverContext) -> list[LoadedDriver]:
    """Create the drivers of these entry points, in this order; duplicates are ignored.

    Each driver's options are registered on ``context.conf`` before the driver is created.

    :raises DriverNotFound: no driver of this name is installed; the message lists those that are.
    :raises DriverLoadFailed: the driver is installed but can't be used; the message names the
        entry point, and the cause is chained.
    :raises DriverNotReady: the driver's import or constructor hangs or raises DriverNotReady.
    """
    within = call_timeout(context.conf)
    extensions = [_extension(name, within) for name in dict.fromkeys(names)]
    return [driver_from(extension, context) for extension in extensions]


def installed() -> dict[str, str]:
    """Return ``{name: "module:attr (distribution version)"}`` of every driver; import none.

    This reads the metadata of all installed packages, which is slow: call it for messages only.
    """
    origins: dict[str, list[str]] = {}
    for point in metadata.entry_points(group=GROUP):
        origins.setdefault(point.name, []).append(_origin(point))
    return {name: " and ".join(dict.fromkeys(origins[name])) for name in sorted(origins)}


def driver_from(
    extension: Extension[Any], context: DriverContext, origin: str | None = None
) -> LoadedDriver:
    """Check the class of an imported extension, and create the driver.

    ``origin`` describes the entry point in errors; without it, it is looked up.

    :raises DriverLoadFailed: the class or its constructor has a defect.
    :raises DriverNotReady: the constructor hangs or raises DriverNotReady.
    """
    problem = class_problem(extension.plugin)
    if problem is not None:
        raise _failed(extension, origin, problem)
    within = call_timeout(context.conf)

    def make() -> ComputeDriver:
        _register_options(extension.plugin, context.conf)
        created: ComputeDriver = extension.plugin(context)
        return created

    try:
        driver = Calls(within)(f"{extension.plugin.__name__}()", make)
        problem = capabilities_problem(driver.capabilities)
    except DriverNotReady as err:  # a later attempt may succeed
        raise DriverNotReady(_text(extension, origin, str(err))) from err
    except (Exception, SystemExit) as err:
        raise _failed(extension, origin, f"can't be created: {_described(err)}") from err
    if problem is not None:
        raise _failed(extension, origin, problem)
    _warn_of_older_methods(extension.name, driver)
    return LoadedDriver.from_driver(extension.name, driver, within)


def call_timeout(conf: Any) -> float:
    """Return ``[compute] driver_timeout`` in seconds; its default if ``conf`` is ``None``."""
    if conf is None:
        return WITHIN
    conf.register_opts(CALL_OPTS, "compute")
    return float(conf.compute.driver_timeout)


def _warn_of_older_methods(name: str, driver: ComputeDriver) -> None:
    if uses_older_methods(type(driver)):
        LOG.warning(
            "Driver %s reports by %s, which is deprecated but still supported:"
            " define update_provider_tree instead, see docs/porting.rst",
            name,
            " and ".join(older_methods(driver)),
        )


def _failed(extension: Extension[Any], origin: str | None, problem: str) -> DriverLoadFailed:
    return DriverLoadFailed(_text(extension, origin, problem))


def _text(extension: Extension[Any], origin: str | None, problem: str) -> str:
    origin = origin or installed().get(extension.name) or _origin(extension.entry_point)
    return f"driver {extension.name!r} = {origin}: {problem}"


def _extension(name: str, within: float) -> Extension[Any]:
    def read() -> DriverManager[Any]:
        return DriverManager(GROUP, name, on_load_failure_callback=_reraise)

    try:
        manager = Calls(within)("import", read)
    except DriverNotReady as err:
        raise DriverNotReady(f"driver {name!r} = {installed().get(name)}: {err}") from err
    except (Exception, SystemExit) as err:
        origins = installed()
        if name not in origins:
            raise DriverNotFound(not_found(name, origins)) from None
        raise DriverLoadFailed(
            f"driver {name!r} = {origins[name]}: can't be imported: {_described(err)}"
        ) from err
    return manager.extensions[0]


def _reraise(_manager: object, _point: metadata.EntryPoint, err: BaseException) -> None:
    raise err


def _register_options(driver_class: type[ComputeDriver], conf: Any) -> None:
    if conf is None:
        return
    if uses_older_methods(driver_class):
        policy_from(conf)  # registers the options, and finds wrong values at the start
    if issubclass(driver_class, Configurable):
        register(conf, driver_class.list_opts())


def not_found(name: str, available: Iterable[str]) -> str:
    """Return the message for a driver that is not installed; it lists the ``available`` ones."""
    near = difflib.get_close_matches(name, available, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"no driver {name!r} is installed{hint} (installed: {', '.join(available) or 'none'})"


def _origin(point: metadata.EntryPoint) -> str:
    # An entry point of stevedore comes from its cache and has no distribution.
    dist = point.dist
    return point.value if dist is None else f"{point.value} ({dist.name} {dist.version})"


def _described(err: BaseException) -> str:
    text, kind = where_read(error_text(err)), type(err).__name__
    return text if text.startswith(kind) else f"{kind}: {text}"
