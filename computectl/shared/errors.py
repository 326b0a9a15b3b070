"""A command's errors, a line each: what failed, and the next step."""

import argparse
import difflib
from collections.abc import Sequence
from typing import Any

from agent.config import ConfigError
from agent.nodes.identity import IdentityError, IdentityNotReady
from drivers.errors import DriverError
from reportclient import errors as placement
from reportclient.plain_text import plain
from reportclient.query.terms import BadQuery
from reportclient.request_filter import CannotForbid

NOT_WELL, UNUSABLE, CHANGES = 1, 2, 3
"""Exit codes; 3 only where it was asked for."""


class CommandError(Exception):
    """``next_step`` says who has to do what; ``code`` is the exit code."""

    def __init__(self, what: str, next_step: str, code: int = UNUSABLE) -> None:
        super().__init__(what)
        self.next_step = next_step
        self.code = code

    def __str__(self) -> str:
        return plain(" ".join(f"{super().__str__().rstrip('. ')}; {self.next_step}".split()))


_NEXT_STEPS: Sequence[tuple[type[Exception], str, int]] = (
    (ConfigError, "correct it, or name another file with --config-file", UNUSABLE),
    (IdentityNotReady, "computectl has to run as root or as the user of compute-agent", UNUSABLE),
    (IdentityError, "compute-agent reports nothing until then", UNUSABLE),
    (DriverError, "see compute_driver, and the driver's options, in {files}", UNUSABLE),
    (BadQuery, "nothing was asked; --help shows the syntax", UNUSABLE),
    (CannotForbid, "--include-disabled asks for disabled hosts as well", UNUSABLE),
    (placement.AuthenticationFailed, "see [placement] in {files}", UNUSABLE),
    (placement.Forbidden, "see [placement] in {files}", UNUSABLE),
    (placement.TooOld, "upgrade Placement", UNUSABLE),
    (placement.TooNew, "upgrade compute-agent", UNUSABLE),
    (placement.Unreachable, "is Placement up, and [placement] in {files} right?", NOT_WELL),
    (placement.PlacementError, "nothing was changed", NOT_WELL),
)
"""What to do about an error of a kind, and the exit code; the first that fits."""


def as_command_error(err: Exception, files: str) -> CommandError:
    """The same as a :class:`CommandError`; ``files`` are those that the configuration came from."""
    if isinstance(err, CommandError):
        return err
    for kind, step, code in _NEXT_STEPS:
        if isinstance(err, kind):
            return CommandError(str(err), step.format(files=files), code)
    step = "this should not happen: please report what --debug prints"
    return CommandError(f"{type(err).__name__}: {err}", step, NOT_WELL)


_UNKNOWN = "unrecognized arguments: "


def argument_error(message: str, parser: argparse.ArgumentParser) -> CommandError:
    """Return argparse's error as a command error."""
    if not message.startswith(_UNKNOWN):
        return CommandError(message.removeprefix("argument "), f"`{parser.prog} --help` shows how")
    word = message.removeprefix(_UNKNOWN).split(" ")[0]
    if not word.startswith("-"):
        return CommandError(f"{word} is one argument too many", f"`{parser.prog} --help` shows all")
    return unknown_option_error(word, parser)


def unknown_option_error(word: str, parser: argparse.ArgumentParser) -> CommandError:
    """There is none of this name; is a similar one meant?"""
    option, equals, value = word.partition("=")
    known = [name for name in parser._option_string_actions if name.startswith("--")]  # noqa: SLF001
    near = difflib.get_close_matches(option, known, 1)
    hint = f"is {near[0]}{equals}{value} meant?" if near else f"`{parser.prog} --help` lists all"
    return CommandError(f"there is no option {option}", hint)


class Once(argparse.Action):
    """For what can be said once only: of a second value, argparse would take the last."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keep it, if there is none yet."""
        if option_string and getattr(namespace, self.dest) != self.default:
            parser.error(f"{option_string} is given twice")
        setattr(namespace, self.dest, values)
