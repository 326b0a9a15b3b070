"""From the names in the configuration to drivers that are ready to be asked.

The only place that knows stevedore.  What can be wrong with somebody's driver is
found here, once, and said with the entry point's name: later nobody has to ask
whether a method is there.
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
from drivers.fitness import capabilities_problem, class_problem, speaks_the_older_way
from drivers.legacy import older_methods, policy_from
from drivers.loaded import LoadedDriver
from drivers.opts import CALL_OPTS, register, where_read
from reportclient.plain_text import error_text

LOG = logging.getLogger(__name__)

__all__ = ["GROUP", "LoadedDriver", "driver_from", "installed", "load", "not_found"]

GROUP = "compute_agent.drivers"


def load(names: Sequence[str], context: DriverContext) -> list[LoadedDriver]:
    """Make the drivers of these entry points, in this order; a name given twice counts once.

    The options of each are registered on ``context.conf`` before it is made.

    :raises DriverNotFound: none of this name is installed; the message lists those that are.
    :raises DriverLoadFailed: it is installed but can't be used; the message names the
        entry point, and the cause is chained.
    :raises DriverNotReady: its import or constructor hangs, or says that it is not ready now.
    """
    within = call_timeout(context.conf)
    extensions = [_extension(name, within) for name in dict.fromkeys(names)]
    return [driver_from(each, context) for each in extensions]


def installed() -> dict[str, str]:
    """``{name: "module:attr (distribution version)"}`` of every driver; imports none.

    It reads what each installed package offers, so it is asked where something is to be said.
    """
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
    problem = class_problem(extension.plugin)
    if problem is not None:
        raise _failed(extension, origin, problem)
    within = call_timeout(context.conf)

    def make() -> ComputeDriver:
        _register_options(extension.plugin, context.conf)
        made: ComputeDriver = extension.plugin(context)
        return made

    try:
        driver = Calls(within)(f"{extension.plugin.__name__}()", make)
        problem = capabilities_problem(driver.capabilities)
    except DriverNotReady as err:  # it may be another time
        raise DriverNotReady(_text(extension, origin, str(err))) from err
    except (Exception, SystemExit) as err:
        raise _failed(extension, origin, f"can't be made: {_said(err)}") from err
    if problem is not None:
        raise _failed(extension, origin, problem)
    _say_once_what_is_old(extension.name, driver)
    return LoadedDriver.of(extension.name, driver, within)


def call_timeout(conf: Any) -> float:
    """Seconds that each call of a driver may take, by the operator's option."""
    if conf is None:
        return WITHIN
    conf.register_opts(CALL_OPTS, "compute")
    return float(conf.compute.driver_timeout)


def _say_once_what_is_old(name: str, driver: ComputeDriver) -> None:
    if speaks_the_older_way(type(driver)):
        LOG.warning(
            "Driver %s says what it has by %s; that is deprecated and goes on to work:"
            " update_provider_tree can say all of it, see docs/porting.rst",
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
            f"driver {name!r} = {origins[name]}: can't be imported: {_said(err)}"
        ) from err
    return manager.extensions[0]


def _reraise(_manager: object, _point: metadata.EntryPoint, err: BaseException) -> None:
    raise err


def _register_options(driver_class: type[ComputeDriver], conf: Any) -> None:
    if conf is None:
        return
    if speaks_the_older_way(driver_class):
        policy_from(conf)  # their options exist now, and are found wrong now
    if issubclass(driver_class, Configurable):
        register(conf, driver_class.list_opts())


def not_found(name: str, there: Iterable[str]) -> str:
    """That there is no such driver, and which there are."""
    near = difflib.get_close_matches(name, there, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"no driver {name!r} is installed{hint} (installed: {', '.join(there) or 'none'})"


def _origin(point: metadata.EntryPoint) -> str:
    # What stevedore hands out comes from its cache and has no distribution.
    dist = point.dist
    return point.value if dist is None else f"{point.value} ({dist.name} {dist.version})"


def _said(err: BaseException) -> str:
    said, kind = where_read(error_text(err)), type(err).__name__
    return said if said.startswith(kind) else f"{kind}: {said}"
