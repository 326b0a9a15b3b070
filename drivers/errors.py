"""Errors that a driver may raise, and how the agent reacts to each; errors in files."""

import traceback
from collections.abc import Iterable
from dataclasses import dataclass

from reportclient.plain_text import error_text


class DriverError(Exception):
    """Base class of errors that concern a driver."""


class DriverNotReady(DriverError):
    """The backend can't answer now: the agent skips the node until the next period.

    What was reported before stays in Placement.
    """


class ReshapeNeeded(DriverError):
    """Inventory has to move between providers or classes together with its allocations.

    Raise it from ``update_provider_tree`` when ``allocations`` is ``None``.  The
    agent then calls again with a fresh tree and with the allocations.
    """


class ReshapeFailed(DriverError):
    """The allocations can't be moved.  At its start the agent exits; later it skips the reshape.

    Nova's drivers pass the reason as ``error``.
    """

    def __init__(self, *args: object, error: object = None) -> None:
        super().__init__(*args, *(() if error is None else (error,)))


class DriverFault(DriverError):
    """The driver raised another exception, a defect: its type, and the driver's last line."""

    def __init__(self, err: BaseException) -> None:
        text, kind = error_text(err), type(err).__name__
        text = text if text.startswith(kind) else f"{kind}: {text}"
        place = _last_line(err)
        super().__init__(f"{text} ({place})" if place else text)


class DriverNotFound(DriverError):
    """No driver of this name is installed."""


class DriverLoadFailed(DriverError):
    """The driver is installed but can't be used; the cause is chained."""


_CALLERS = ("agent", "computectl", "driverkit", "drivers", "reportclient")
"""Packages of this project, which call drivers."""
_DRIVERS = ("drivers.libvirt", "driverkit.scripted")
"""Drivers among them."""
_LOADING = ("importlib", "oslo_config", "stevedore")
"""Libraries that import drivers and register their options."""


def _last_line(err: BaseException) -> str:
    """Return file and line where the driver's own code was left, as ``mine/disks.py, line 7``.

    The driver is the package of the first frame that is no caller's and no loader's.
    """
    package, place = "", ""
    for frame, line in traceback.walk_tb(err.__traceback__):
        module: str = frame.f_globals.get("__name__", "")
        top = module.partition(".")[0]
        if top in (*_CALLERS, *_LOADING) and not module.startswith(_DRIVERS):
            continue
        package = package or top
        if top == package:
            parts = frame.f_code.co_filename.split("/")
            depth = module.count(".") + 1 + (parts[-1] == "__init__.py")
            place = f"{'/'.join(parts[-depth:])}, line {line}"
    return place


# -- errors in files

Path = tuple[str | int, ...]
"""Mapping keys and list indexes from the top of a file to a value."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error in a file; ``path`` names the value, empty if the error is about the whole file."""

    file: str
    line: int
    path: str
    text: str

    def __str__(self) -> str:
        path = f"{self.path}: " if self.path else ""
        return f"{self.file}:{self.line}: {path}{self.text}"


class BadFile(Exception):
    """The file can't be used; ``diagnostics`` has all of its errors."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        super().__init__()
        self.diagnostics = tuple(diagnostics)

    def __str__(self) -> str:
        more = f" (and {len(self.diagnostics) - 1} more)" if self.diagnostics[1:] else ""
        return f"{self.diagnostics[0]}{more}"


def path_text(path: Path) -> str:
    """Return the path as text, such as ``providers[0].traits``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")
