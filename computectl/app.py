"""computectl: the operator's command.

Exit codes: 0 success; 1 Placement can't be reached, or a problem was found; 2 the
configuration, the credentials or an argument can't be used; 3 ``plan --exit-code`` found
changes.  Each error is one line on stderr, with the next step.
"""

import argparse
import ast
import itertools
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import metadata, util
from pathlib import Path
from typing import Any, NoReturn, TextIO

from cliff.app import App
from cliff.commandmanager import CommandManager

from agent import version
from computectl.shared.errors import (
    PROBLEMS,
    RERUN,
    CommandError,
    argument_error,
    meant,
    unknown_option_error,
)
from computectl.shared.screen import Screen, Terminal, folded

NAME = "computectl"
DESCRIPTION = "Inspect and operate compute-agent and what it reports to Placement."


class Commands(CommandManager):
    """The commands of the entry points; a command's module is imported when the command runs."""

    def load_commands(self, namespace: str) -> None:
        """Register the names of the entry points without importing their modules."""
        self.group_list.append(namespace)
        points = metadata.entry_points(group=namespace)
        self.commands.update({point.name.replace("_", " "): point for point in points})

    def find_command(self, argv: list[str]) -> Any:
        """Return the command's class, its name, and the further arguments; no abbreviations.

        :raises ValueError: there is no such command.
        """
        words = list(itertools.takewhile(lambda word: not word.startswith("-"), argv))
        for number in range(len(words), 0, -1):
            if (name := " ".join(words[:number])) in self.commands:
                return self.commands[name].load(), name, argv[number:]
        raise ValueError(" ".join(words))


class ComputeCtl(App):
    """The application: global options, output streams, logging."""

    NAME = NAME
    LOG = logging.getLogger(NAME)

    def __init__(self) -> None:
        super().__init__(DESCRIPTION, version(), Commands(NAME), deferred_help=True)

    def _set_streams(
        self, stdin: TextIO | None, stdout: TextIO | None, stderr: TextIO | None
    ) -> None:
        """Wrap stdout and stderr so that control characters are escaped."""
        super()._set_streams(stdin, stdout, stderr)
        self.stdout, self.stderr = Terminal.around(self.stdout), Terminal.around(self.stderr)

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        """Return the parser of the global options; some of cliff's have no use here."""
        parser = argparse.ArgumentParser(
            prog=NAME, description=description, add_help=False, allow_abbrev=False
        )
        parser.error = partial(self.refuse, parser)  # type: ignore[method-assign]
        # Deferred, so that "tree --help" is the help of tree.
        parser.add_argument(
            "-h",
            "--help",
            dest="deferred_help",
            action="store_true",
            help="show this help and exit",
        )
        parser.add_argument("--version", action="version", version=f"{NAME} {version}")
        parser.add_argument(
            "--config-file",
            action="append",
            default=[],
            metavar="FILE",
            help="the agent's configuration; may be repeated. Default: the files that "
            "compute-agent reads, such as /etc/compute-agent/compute-agent.conf",
        )
        parser.add_argument(
            "--config-dir",
            action="append",
            default=[],
            metavar="DIR",
            help="a directory of *.conf files; may be repeated",
        )
        parser.add_argument(
            "--debug", action="store_true", help="log everything, with tracebacks of errors"
        )
        return parser

    def refuse(self, parser: argparse.ArgumentParser, message: str) -> NoReturn:
        """Print an error of argparse, and exit."""
        raise SystemExit(self.print_failure(argument_error(message, parser)))

    def print_failure(self, failure: CommandError) -> int:
        """Print an error in one line on stderr; return the exit code."""
        self.stderr.write(f"{NAME}: {failure}\n")
        return failure.code

    def configure_logging(self) -> None:
        """Log everything with ``--debug``; otherwise only computectl's own messages."""
        if self.options.debug:
            logging.basicConfig(level=logging.DEBUG, stream=self.stderr)
            return
        logging.getLogger().addHandler(logging.NullHandler())
        handler = logging.StreamHandler(self.stderr)
        handler.setFormatter(logging.Formatter(f"{NAME}: %(message)s"))
        self.LOG.addHandler(handler)

    def interact(self) -> NoReturn:
        """Print the help if no command was given."""
        sys.exit(self.run_subcommand(["help"]))

    def print_help_if_requested(self) -> None:
        """Print the help without loading the commands."""
        if self.options.deferred_help:
            self.interact()

    def _print_help(self, group: str) -> int:
        """Print the commands of a group, such as ``service``; of all, below the options."""
        screen = Screen.for_stream(self.stdout)
        if not group:
            self.stdout.write(f"{self.parser.format_help()}\ncommands:\n")
        for name, point in sorted(self.command_manager):
            if name.startswith(group):
                text = _summary(point.value)
                self.stdout.write(f"{folded(f'  {name:<24}{text}', screen.width, 26)}\n")
        return 0

    def run_subcommand(self, argv: list[str]) -> int:
        """Run a command; an unknown one is reported in one line on stderr."""
        helps = argv[0] == "help"
        try:
            self.command_manager.find_command(argv[1:] if helps else argv)
        except ValueError as err:
            given, names = str(err), list(self.command_manager.commands)
            first = given.partition(" ")[0]
            group = [name for name in names if first and name.startswith(f"{first} ")]
            if helps and (group or not given):
                return self._print_help(f"{first} " if group else "")
            if not given:
                return self.print_failure(unknown_option_error(argv[0], self.parser))
            hint = f"there are {', '.join(group)}" if group else meant(given, names)
            hint = hint or f"`{NAME} --help` lists all"
            return self.print_failure(CommandError(f"there is no command {given}", hint))
        return int(super().run_subcommand(argv))


def _summary(command: str) -> str:
    """Return the first sentence of a ``module:Class`` from its source: all imports take 0.3 s."""
    module, _, name = command.partition(":")
    spec = util.find_spec(module)
    assert spec is not None and spec.origin is not None
    source = ast.parse(Path(spec.origin).read_bytes())
    classes = (each for each in source.body if isinstance(each, ast.ClassDef))
    text = next((ast.get_docstring(each) or "" for each in classes if each.name == name), "")
    return f"{text[:1].upper()}{text[1:]}".partition("\n")[0].rstrip(".")


def main(args: Sequence[str] | None = None) -> None:
    """The console script."""
    null = os.open(os.devnull, os.O_WRONLY)
    for name in ("stdout", "stderr"):  # None if they were closed
        setattr(sys, name, getattr(sys, name) or os.fdopen(null, "w", closefd=False))
    app = ComputeCtl()
    try:
        code = app.run(list(sys.argv[1:] if args is None else args))
    except SystemExit as end:  # of --help, --version and wrong arguments
        code = int(end.code or 0)
    try:
        sys.stdout.flush()
    except OSError as err:
        if not (code or isinstance(err, BrokenPipeError)):  # whose reader has closed the pipe
            code = app.print_failure(CommandError(f"the output: {err.strerror}", RERUN, PROBLEMS))
        os.dup2(null, sys.stdout.fileno())  # else Python reports an error at exit
    sys.exit(code)
