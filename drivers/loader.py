"""Loads drivers by their names in the configuration, and checks them.

The only module that imports stevedore.  A driver's defects are found here, once; errors name its
entry point.
"""

import inspect
import logging
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from typing import Any

from stevedore.driver import DriverManager
from stevedore.extension import Extension

from drivers.abilities import LEGACY, OPTIONAL, Configurable, methods
from drivers.api import API_VERSION, OLDEST_API_VERSION, ComputeDriver, DriverContext
from drivers.deadline import WITHIN, Calls
from drivers.errors import DriverError, DriverLoadFailed, DriverNotFound, DriverNotReady
from drivers.legacy import older_methods, policy_from
from drivers.loaded import LoadedDriver, capabilities_problem
from drivers.opts import CALL_OPTS, register, where_read
from reportclient.model import meant

LOG = logging.getLogger("compute_agent.drivers")

__all__ = ["GROUP", "LoadedDriver", "driver_from", "installed", "load_drivers", "not_found"]

GROUP = "compute_agent.drivers"
_NOVAS = ("update_provider_tree", *LEGACY)
_METHODS = ("get_available_nodes", *_NOVAS, *methods(*OPTIONAL))


def load_drivers(names: Sequence[str], context: DriverContext) -> list[LoadedDriver]:
    """Create the drivers of these entry points, in this order.

    Each driver's options are registered on ``context.conf`` before the driver is created.

    :raises DriverNotFound: no driver of this name is installed; the message lists those that are.
    :raises DriverLoadFailed: the driver is installed but can't be used; the message names the
        entry point, and the cause is chained.
    :raises DriverNotReady: the driver's import or constructor hangs or raises DriverNotReady.
    """
    within = call_timeout(context.conf)
    extensions = [_extension(name, within) for name in names]
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
        raise DriverLoadFailed(_text(extension, origin, problem))
    within = call_timeout(context.conf)

    def make() -> tuple[ComputeDriver, str | None]:
        _register_options(extension.plugin, context.conf)
        created: ComputeDriver = extension.plugin(context)
        return created, capabilities_problem(created.capabilities)

    try:
        driver, problem = Calls(within)(f"{extension.plugin.__name__}()", make)
    except DriverNotReady as err:  # a later attempt may succeed
        raise DriverNotReady(_text(extension, origin, str(err))) from err
    except DriverError as err:
        text = f"can't be created: {where_read(str(err))}"
        raise DriverLoadFailed(_text(extension, origin, text)) from err.__cause__ or err
    if problem is not None:
        raise DriverLoadFailed(_text(extension, origin, problem))
    if uses_older_methods(type(driver)):
        LOG.warning(
            "Driver %s reports by %s, which is deprecated but still supported:"
            " define update_provider_tree instead, see docs/porting.rst",
            extension.name,
            " and ".join(older_methods(driver)),
        )
    return LoadedDriver.from_driver(extension.name, driver, within)


def call_timeout(conf: Any) -> float:
    """Return ``[compute] driver_timeout`` in seconds; its default if ``conf`` is ``None``."""
    if conf is None:
        return WITHIN
    conf.register_opts(CALL_OPTS, "compute")
    return float(conf.compute.driver_timeout)


def _text(extension: Extension[Any], origin: str | None, problem: str) -> str:
    origin = origin or installed().get(extension.name) or _origin(extension.entry_point)
    return f"driver {extension.name!r} = {origin}: {problem}"


def _extension(name: str, within: float) -> Extension[Any]:
    try:
        manager: DriverManager[Any] = Calls(within)(
            "import", lambda: DriverManager(GROUP, name, on_load_failure_callback=_reraise)
        )
    except DriverNotReady as err:
        raise DriverNotReady(f"driver {name!r} = {installed().get(name)}: {err}") from err
    except DriverError as err:
        origins = installed()
        if name not in origins:
            raise DriverNotFound(f"compute_driver: {not_found(name, origins)}") from None
        raise DriverLoadFailed(
            f"driver {name!r} = {origins[name]}: can't be imported: {err}"
        ) from err.__cause__ or err
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
    every = ", ".join(available) or "none"
    return f"no driver {name!r} is installed{meant(name, available)} (installed: {every})"


def _origin(point: metadata.EntryPoint) -> str:
    # An entry point of stevedore comes from its cache and has no distribution.
    dist = point.dist
    return point.value if dist is None else f"{point.value} ({dist.name} {dist.version})"


# -- which classes can be drivers


def class_problem(candidate: object) -> str | None:
    """Return why the candidate can't be used as a driver's class, or ``None``."""
    return next(_problems(candidate), None)


def uses_older_methods(driver_class: type[ComputeDriver]) -> bool:
    """Return whether the class does not define ``update_provider_tree`` itself."""
    return driver_class.update_provider_tree is ComputeDriver.update_provider_tree


def _problems(candidate: object) -> Iterator[str]:
    if not (inspect.isclass(candidate) and issubclass(candidate, ComputeDriver)):
        yield _no_subclass(candidate)
        return
    if problem := _version_problem(candidate.api_version):
        yield problem
    missing = sorted(getattr(candidate, "__abstractmethods__", ()))
    if uses_older_methods(candidate) and not older_methods(candidate):
        missing.append("update_provider_tree")
    if missing:
        yield f"{candidate.__name__} does not define {' and '.join(missing)}"
    # A driver has an ability only with all of its methods: fewer would never be called.
    for names in map(methods, OPTIONAL):
        lacking = [name for name in names if not hasattr(candidate, name)]
        for name in [name for name in names if name not in lacking] if lacking else ():
            yield f"{candidate.__name__} defines {name} but not {lacking[0]}: define both or none"
    yield from _kind_problems(candidate)


def _no_subclass(candidate: object) -> str:
    problem = f"{candidate!r} is not a subclass of drivers.api.ComputeDriver"
    if inspect.isclass(candidate) and any(hasattr(candidate, name) for name in _NOVAS):
        return (
            f"{problem}, though it has methods of a Nova driver: derive it from ComputeDriver"
            " (docs/porting.rst says what else has to change)"
        )
    return problem


def _version_problem(version: object) -> str | None:
    numbers = version if isinstance(version, tuple) else ()
    if len(numbers) != 2 or any(type(number) is not int or number < 0 for number in numbers):
        return f"api_version is {version!r}: a tuple of two whole numbers is needed, like (1, 0)"
    if OLDEST_API_VERSION <= numbers <= API_VERSION:
        return None
    older = "compute-agent" if numbers > API_VERSION else "the driver"
    written, oldest, newest = (
        ".".join(map(str, each)) for each in (numbers, OLDEST_API_VERSION, API_VERSION)
    )
    return (
        f"written for version {written} of the driver API, this agent supports {oldest} to"
        f" {newest}: upgrade {older}"
    )


def _kind_problems(candidate: type[ComputeDriver]) -> Iterator[str]:
    """Find methods whose body would not run when the agent calls them as plain methods."""
    for name in _METHODS:
        method = getattr(candidate, name, None)
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            yield f"{candidate.__name__}.{name} is `async def`: it has to be a plain `def`"
    if inspect.isgeneratorfunction(candidate.update_provider_tree):
        yield f"{candidate.__name__}.update_provider_tree has a `yield` in it: it returns nothing"
