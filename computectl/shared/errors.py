"""Errors of commands, one line each: what failed, and the next step."""

import argparse
import difflib
from collections.abc import Sequence

from reportclient.plain_text import plain

PROBLEMS, UNUSABLE, CHANGES = 1, 2, 3
"""Exit codes: problems, unusable input, and changes with ``plan --exit-code``."""

RERUN = "correct this, and run the command again"
RESTART = "start or restart compute-agent, which replaces it"


class CommandError(Exception):
    """An error of a command; ``next_step`` is for the operator, ``code`` the exit code."""

    def __init__(self, what: str, next_step: str, code: int = UNUSABLE) -> None:
        super().__init__(what)
        self.next_step = next_step
        self.code = code

    def __str__(self) -> str:
        return plain(" ".join(f"{super().__str__().rstrip('. ')}; {self.next_step}".split()))


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
    if word == "--force":
        return CommandError("nothing is forced", f"`{parser.prog} --help` says what is in the way")
    option, equals, value = word.partition("=")
    options = [name for name in parser._option_string_actions if name.startswith("--")]  # noqa: SLF001
    hint = meant(option, options, equals + value) or f"`{parser.prog} --help` lists all"
    return CommandError(f"there is no option {option}", hint)


def meant(word: str, names: Sequence[str], value: str = "") -> str:
    """Return a hint at the names that begin with a word, or at the most similar one, if any."""
    near = [each for each in names if word and each.startswith(word)]
    near = near or difflib.get_close_matches(word, names, 1)
    if len(near) > 1:
        return f"there are {', '.join(near)}"
    return f"is {near[0]}{value} meant?" if near else ""
