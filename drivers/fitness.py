"""Checks whether a class can be a driver of this agent; errors say how to mend it."""

import inspect
from collections.abc import Iterator, Mapping, Sequence

from drivers.abilities import LEGACY, OPTIONAL, methods
from drivers.api import API_VERSION, OLDEST_API_VERSION, ComputeDriver
from drivers.legacy import older_methods

_NOVAS = ("update_provider_tree", *methods(*LEGACY))
_METHODS = ("get_available_nodes", "update_provider_tree", *methods(*OPTIONAL))
_CALLED: Mapping[str, tuple[tuple[object, ...], str]] = {
    "get_available_nodes": ((), "(self)"),
    "update_provider_tree": (
        ("tree", "node", None),
        "(self, provider_tree, nodename, allocations=None)",
    ),
}
"""The arguments that the agent passes, and the signature that accepts them."""


def class_problem(candidate: object) -> str | None:
    """Return why the candidate can't be used as a driver's class, or ``None``."""
    return next(_problems(candidate), None)


def capabilities_problem(capabilities: object) -> str | None:
    """Return why these capabilities can't be mapped to traits, or ``None``."""
    if not isinstance(capabilities, Mapping):
        return f"capabilities is {capabilities!r}, not a mapping of names to True or False"
    for name, able in capabilities.items():
        if not isinstance(name, str) or not isinstance(able, bool):
            return f"capabilities has {name!r}: {able!r}: a name, and True or False, are needed"
    return None


def uses_older_methods(driver_class: type[ComputeDriver]) -> bool:
    """Return whether the class does not define ``update_provider_tree`` itself."""
    return driver_class.update_provider_tree is ComputeDriver.update_provider_tree


def _problems(candidate: object) -> Iterator[str]:
    if not (inspect.isclass(candidate) and issubclass(candidate, ComputeDriver)):
        yield _no_subclass(candidate)
        return
    yield from _version_problems(candidate.api_version)
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
    for name in _CALLED:
        yield from _signature_problems(candidate, name)


def _no_subclass(candidate: object) -> str:
    problem = f"{candidate!r} is not a subclass of drivers.api.ComputeDriver"
    if inspect.isclass(candidate) and any(hasattr(candidate, name) for name in _NOVAS):
        return (
            f"{problem}, though it has methods of a Nova driver: derive it from ComputeDriver"
            " (`computectl driver port-check FILE` says what else has to change)"
        )
    return problem


def _version_problems(version: object) -> Iterator[str]:
    if not _is_version(version):
        yield f"api_version is {version!r}: a tuple of two whole numbers is needed, like (1, 0)"
        return
    assert isinstance(version, tuple)
    if version > API_VERSION:
        yield (
            f"written for version {_dotted(version)} of the driver API, "
            f"this agent has {_dotted(API_VERSION)}: upgrade compute-agent"
        )
    if version < OLDEST_API_VERSION:
        yield (
            f"written for version {_dotted(version)} of the driver API, this agent supports"
            f" {_dotted(OLDEST_API_VERSION)} and later: upgrade the driver"
        )


def _is_version(version: object) -> bool:
    return (
        isinstance(version, tuple)
        and len(version) == 2
        and all(type(number) is int and number >= 0 for number in version)
    )


def _kind_problems(candidate: type[ComputeDriver]) -> Iterator[str]:
    """Find methods whose body would not run when the agent calls them as plain methods."""
    for name in _METHODS:
        method = getattr(candidate, name, None)
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            yield f"{candidate.__name__}.{name} is `async def`: it has to be a plain `def`"
    if inspect.isgeneratorfunction(candidate.update_provider_tree):
        yield f"{candidate.__name__}.update_provider_tree has a `yield` in it: it returns nothing"


def _signature_problems(candidate: type[ComputeDriver], name: str) -> Iterator[str]:
    """Find methods that can't be called with the agent's arguments."""
    arguments, expected = _CALLED[name]
    try:
        signature = inspect.signature(getattr(candidate, name))
        bound_already = isinstance(
            inspect.getattr_static(candidate, name), staticmethod | classmethod
        )
        signature.bind(*(() if bound_already else ("self",)), *arguments)
    except TypeError as err:
        yield f"{candidate.__name__} has to define {name}{expected}: {err}"
    except ValueError:
        return  # implemented in C: it has no signature to inspect


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
