"""A command line that can't be used: one line, with the spelling that may be meant."""

from __future__ import annotations

import argparse
import difflib
from typing import Any

from agent.cli.shared.errors import Trouble

_UNKNOWN = "unrecognized arguments: "


def refused(message: str, parser: argparse.ArgumentParser) -> Trouble:
    """What argparse has to say, as an error like all others."""
    if not message.startswith(_UNKNOWN):
        return Trouble(message.removeprefix("argument "), f"`{parser.prog} --help` shows how")
    word = message.removeprefix(_UNKNOWN).split(" ")[0]
    if not word.startswith("-"):
        return Trouble(f"{word} is one argument too many", f"`{parser.prog} --help` shows all")
    return no_option(word, parser)


def no_option(word: str, parser: argparse.ArgumentParser) -> Trouble:
    """There is none of this name; is a similar one meant?"""
    option, equals, value = word.partition("=")
    known = [name for name in parser._option_string_actions if name.startswith("--")]  # noqa: SLF001
    near = difflib.get_close_matches(option, known, 1)
    hint = f"is {near[0]}{equals}{value} meant?" if near else f"`{parser.prog} --help` lists all"
    return Trouble(f"there is no option {option}", hint)


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
            parser.error(f"{option_string} is there twice")
        setattr(namespace, self.dest, values)
