"""What goes wrong in a command, as one line: what it is, and what to do next."""

from __future__ import annotations

from agent.config import ConfigError
from agent.nodes.identity import IdentityError
from drivers.errors import DriverError
from reportclient.errors import (
    AuthenticationFailed,
    Forbidden,
    PlacementError,
    TooOld,
    Unreachable,
)
from reportclient.plain_text import plain
from reportclient.query.terms import BadQuery
from reportclient.request_filter import CannotForbid

NOT_WELL, UNUSABLE, CHANGES = 1, 2, 3
"""Exit codes; 3 only where it was asked for."""


class Trouble(Exception):
    """``next_step`` says who has to do what; ``code`` is the exit code."""

    def __init__(self, what: str, next_step: str, code: int = UNUSABLE) -> None:
        super().__init__(what)
        self.next_step = next_step
        self.code = code

    def __str__(self) -> str:
        return plain(" ".join(f"{super().__str__().rstrip('. ')}; {self.next_step}".split()))


def explained(err: Exception, files: str) -> Trouble:  # noqa: PLR0911  one return a kind
    """The same as a :class:`Trouble`; ``files`` are those that the configuration came from."""
    if isinstance(err, Trouble):
        return err
    if isinstance(err, ConfigError):
        return Trouble(str(err), "mend that, or name another file with --config-file")
    if isinstance(err, IdentityError):
        return Trouble(str(err), "compute-agent reports nothing until then")
    if isinstance(err, DriverError):
        return Trouble(str(err), f"see compute_driver, and the driver's options, in {files}")
    if isinstance(err, BadQuery):
        return Trouble(str(err), "nothing was asked; --help shows how it is written")
    if isinstance(err, CannotForbid):
        return Trouble(str(err), "--include-disabled asks for disabled hosts as well")
    if isinstance(err, PlacementError):
        return _placement(err, files)
    return Trouble(
        f"{type(err).__name__}: {err}",
        "this should not happen: please report what --debug prints",
        NOT_WELL,
    )


def _placement(err: PlacementError, files: str) -> Trouble:
    if isinstance(err, AuthenticationFailed):
        return Trouble(str(err), f"see [placement] in {files}")
    if isinstance(err, Forbidden):
        return Trouble(str(err), f"see [placement] in {files}")
    if isinstance(err, TooOld):
        return Trouble(str(err), "upgrade Placement")
    if isinstance(err, Unreachable):
        return Trouble(str(err), f"is Placement up, and [placement] in {files} right?", NOT_WELL)
    return Trouble(str(err), "nothing was changed", NOT_WELL)
