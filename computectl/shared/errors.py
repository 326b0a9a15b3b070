"""Errors of commands, one line each: what failed, and the next step."""

import argparse
import difflib
from collections.abc import Sequence
from typing import Any

from agent.config import ConfigError
from agent.nodes.identity import IdentityError, IdentityNotReady
from drivers.errors import DriverError
from reportclient import errors as placement
from reportclient.candidates.request import BadQuery
from reportclient.plain_text import plain
from reportclient.request_filter import CannotForbid

PROBLEMS, UNUSABLE, CHANGES = 1, 2, 3
"""Exit codes: problems, unusable input, and changes with ``plan --exit-code``."""


class CommandError(Exception):
    """An error of a command; ``next_step`` is for the operator, ``code`` the exit code."""

    def __init__(self, what: str, next_step: str, code: int = UNUSABLE) -> None:
        super().__init__(what)
        self.next_step = next_step
        self.code = code

    def __str__(self) -> str:
        return plain(" ".join(f"{super().__str__().rstrip('. ')}; {self.next_step}".split()))


_NEXT_STEPS: Sequence[tuple[type[Exception], str, int]] = (
    (ConfigError, "correct it, or give another file with --config-file", UNUSABLE),
    (IdentityNotReady, "run computectl as root or as the user of compute-agent", UNUSABLE),
    (IdentityError, "compute-agent reports nothing until this is corrected", UNUSABLE),
    (DriverError, "see compute_driver, and the driver's options, in {files}", UNUSABLE),
    (BadQuery, "no request was sent; --help shows the syntax", UNUSABLE),
    (CannotForbid, "use --include-disabled to include disabled hosts", UNUSABLE),
    (placement.AuthenticationFailed, "see [placement] in {files}", UNUSABLE),
    (placement.Forbidden, "see [placement] in {files}", UNUSABLE),
    (placement.TooOld, "upgrade Placement", UNUSABLE),
    (placement.TooNew, "upgrade compute-agent", UNUSABLE),
    (placement.Unreachable, "check that Placement is up, and [placement] in {files}", PROBLEMS),
    (placement.PlacementError, "nothing was changed", PROBLEMS),
)
"""Types of errors, each with next step and exit code; the first match counts."""


def as_command_error(err: Exception, files: str) -> CommandError:
    """Return any error as a :class:`CommandError`; ``files``: names of configuration files."""
    if isinstance(err, CommandError):
        return err
    for kind, step, code in _NEXT_STEPS:
        if isinstance(err, kind):
            return CommandError(str(err), step.format(files=files), code)
    step = "internal error: please report the output of --debug"
    return CommandError(f"{type(err).__name__}: {err}", step, PROBLEMS)


_UNKNOWN = "unrecognized arguments: "


def argument_error(message: str, parser: argparse.ArgumentParser) -> CommandError:
    """Return argparse's error as a command error."""
    if not message.startswith(_UNKNOWN):
        return CommandError(message.removeprefix("argument "), f"`{parser.prog} --help` shows how")
    word = message.removeprefix(_UNKNOWN).split(" ")[0]
    if not word.startswith("-"):
        return CommandError(f"unexpected argument {word}", f"`{parser.prog} --help` shows all")
    return unknown_option_error(word, parser)


def unknown_option_error(word: str, parser: argparse.ArgumentParser) -> CommandError:
    """Return the error for an unknown option, with a similar one as a suggestion."""
    option, equals, value = word.partition("=")
    options = [name for name in parser._option_string_actions if name.startswith("--")]  # noqa: SLF001
    near = difflib.get_close_matches(option, options, 1)
    hint = f"is {near[0]}{equals}{value} meant?" if near else f"`{parser.prog} --help` lists all"
    return CommandError(f"there is no option {option}", hint)


class Once(argparse.Action):
    """An option that is refused if given twice; argparse would take the last value."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the value; an error if the option was given before."""
        if option_string and getattr(namespace, self.dest) != self.default:
            parser.error(f"{option_string} is given twice")
        setattr(namespace, self.dest, values)
