"""Base classes of commands: help with examples, one-line errors, output as text or table."""

import argparse
import json
import re
import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from cliff.command import Command
from cliff.lister import Lister

from agent import errors as registry
from agent.config import ConfigError
from agent.nodes.identity import IdentityError, IdentityNotReady
from agent.reporting.condition import Condition, Severity
from agent.state.document import Damaged, Unusable
from computectl.app import ComputeCtl
from computectl.shared.command_session import Session
from computectl.shared.errors import PROBLEMS, RERUN, RESTART, UNUSABLE, CommandError
from computectl.shared.screen import Screen, Terminal, folded
from drivers.errors import DriverError
from reportclient import errors as placement
from reportclient.candidates.request import BadQuery
from reportclient.candidates.request_filter import CannotForbid
from reportclient.plain_text import plain

DEFAULT_FILES = "/etc/compute-agent/compute-agent.conf"


Argument = tuple[tuple[str, ...], Mapping[str, Any]]


def argument(*names: str, **more: Any) -> Argument:
    """Return an argument of a command, for :meth:`argparse.ArgumentParser.add_argument`."""
    return names, more


def positive(text: str) -> int:
    """Return a number of at least 1; a ``type`` for argparse."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


_NEXT_STEPS: Sequence[tuple[type[Exception], str, int]] = (
    (ConfigError, "correct it, or give another file with --config-file", UNUSABLE),
    (IdentityNotReady, "run computectl as root or as the user of compute-agent", UNUSABLE),
    (IdentityError, "compute-agent reports nothing until this is corrected", UNUSABLE),
    (DriverError, "see compute_driver, and the driver's options, in {files}", UNUSABLE),
    (BadQuery, "no request was sent; --help shows the syntax", UNUSABLE),
    (CannotForbid, "use --include-disabled to include disabled hosts", UNUSABLE),
    *((kind, "see [placement] in {files}", UNUSABLE) for kind in placement.OF_OPTIONS),
    (placement.TooOld, "upgrade Placement", UNUSABLE),
    (placement.TooNew, "upgrade compute-agent", UNUSABLE),
    (placement.Unreachable, "check that Placement is up, and [placement] in {files}", PROBLEMS),
    (placement.PlacementError, "nothing was changed", PROBLEMS),
    (registry.UnknownHost, "computectl service list shows all hosts", UNUSABLE),
    (registry.ReasonRefused, "nothing was changed", UNUSABLE),
    (registry.InputRefused, "nothing was changed", UNUSABLE),
    (registry.StillUp, "nothing was deleted", UNUSABLE),
    (registry.Attached, "its agent follows nova-compute", UNUSABLE),
    (registry.HostTaken, "give one of the two agents another [DEFAULT] host", UNUSABLE),
    (Damaged, RESTART, PROBLEMS),
    (Unusable, RERUN, PROBLEMS),
    (registry.SignatureRefused, "see master_key and host_key of [registry] in {files}", UNUSABLE),
    (
        registry.RegistryUnavailable,
        "see [registry] and transport_url; is compute-registry up?",
        PROBLEMS,
    ),
    (registry.RegistryError, "check it with computectl service show, and try again", PROBLEMS),
)
"""Types of errors, each with next step and exit code; the first match counts."""


def as_command_error(err: Exception, files: str) -> CommandError:
    """Return any error as a :class:`CommandError`; ``files``: names of configuration files."""
    if isinstance(err, CommandError):
        return err
    # The class is in agent.bus.messaging, which is slow to import only for this check.
    if type(err).__name__ == "TransportUnavailable":
        return CommandError(str(err), f"see transport_url in {files}", UNUSABLE)
    for kind, step, code in _NEXT_STEPS:
        if isinstance(err, kind):
            return CommandError(str(err), step.format(files=files), code)
    if isinstance(err, OSError) and err.strerror:
        return CommandError(f"{err.filename or 'the output'}: {err.strerror}", RERUN, PROBLEMS)
    step = "internal error: please report the output of --debug"
    return CommandError(f"{type(err).__name__}: {err}", step, PROBLEMS)


class OperatorCommand(Command):
    """Base class of commands: reports errors in one line on stderr."""

    examples: ClassVar[str]
    arguments: ClassVar[Sequence["Argument"]] = ()
    """Arguments of the command, made by :func:`argument`."""

    app: ComputeCtl
    files = DEFAULT_FILES
    """Names of the configuration files, for error messages."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; print an error and return its exit code."""
        try:
            return int(self.take_action(parsed_args))
        except BrokenPipeError:
            raise
        except Exception as err:  # noqa: BLE001  printed in one line
            return self.report_failure(err)

    @abstractmethod
    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Run the command and return the exit code."""

    def session(self) -> Session:
        """Return a session with the configuration.  :raises agent.config.ConfigError: invalid."""
        given = self.app.options
        session = Session.from_config_files(given.config_file, given.config_dir)
        self.files = ", ".join(session.conf.config_file or [self.files])
        return session

    def get_description(self) -> str:
        """Return the docstring, each paragraph wrapped."""
        width = Screen.for_stream(self.app.stdout).width
        paragraphs = super().get_description().split("\n\n")
        return "\n\n".join(folded(" ".join(each.split()), width, 0) for each in paragraphs)

    def get_epilog(self) -> str:
        """Return the examples; cliff's epilog would search all installed distributions."""
        text = f"examples:\n{self.examples}"
        if max(map(len, text.splitlines())) > Screen.for_stream(self.app.stdout).width:
            text = re.sub(r"(?<=\S) {2,}", "\n      ", text)  # comments below their commands
        return text

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser, with one-line errors and the examples unwrapped."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.allow_abbrev = False  # osc-placement has --resource with another meaning
        parser.error = partial(self.app.refuse, parser)  # type: ignore[method-assign]
        for names, more in self.arguments:
            parser.add_argument(*names, **more)
        return parser

    def print_on_stderr(self, text: str) -> None:
        """Print a line on stderr."""
        self.app.stderr.write(f"{self.app.NAME}: {plain(text)}\n")

    def progress(self, text: str) -> None:
        """On a terminal, replace the line of progress; an empty text clears it."""
        if self.app.stderr.isatty() and isinstance(self.app.stderr, Terminal):
            self.app.stderr.replace_line(text)

    def report_failure(self, err: Exception) -> int:
        """Print an error with its next step; return the exit code."""
        if self.app.options.debug:
            traceback.print_exc(file=self.app.stderr)
        return self.app.print_failure(as_command_error(err, self.files))


SEVERITY_STYLES: Mapping[Severity, str | None] = {
    Severity.ERROR: "red",
    Severity.DEGRADED: "yellow",
    Severity.WARNING: "yellow",
    Severity.INFO: None,
}
"""How conditions are painted on a terminal."""

Answer = TypeVar("Answer")
Columns = Mapping[str, Callable[[Any], Any]]
"""The columns of a table, each with the function that takes its cell from a row."""
Table = tuple[Columns, Iterable[Any]]
"""Columns and rows.  Cells may be lists and dicts; names of columns are never changed."""


TEXT = "text"
"""Name of the text format, which is the default of ``-f``."""


class DrawnOrListed(OperatorCommand, Lister, Generic[Answer]):
    """Base class of commands whose result is printed as text or as a table."""

    wraps: ClassVar[bool] = False
    """Whether long lines of the text are wrapped."""

    @abstractmethod
    def execute(self, options: argparse.Namespace) -> Answer:
        """Run the command and return its result."""

    @abstractmethod
    def draw(self, answer: Answer, screen: Screen, options: argparse.Namespace) -> Iterable[str]:
        """Return the lines of the result as text; each is printed when it is there."""

    @abstractmethod
    def table(self, answer: Answer) -> Table:
        """Return the result as columns and rows, for programs."""

    def conditions(self, answer: Answer) -> Iterable[Condition]:
        """Return the conditions to print on stderr after the result."""
        return ()

    def exit_code(self, answer: Answer, options: argparse.Namespace) -> int:
        """Print the conditions on stderr; return 1 if one of them is an error, else 0."""
        conditions = list(self.conditions(answer))
        for condition in conditions:
            self.print_on_stderr(condition.sentence)
        return PROBLEMS if any(it.severity is Severity.ERROR for it in conditions) else 0

    # -- cliff's side

    @property
    def formatter_default(self) -> str:
        """Return the default format (cliff's property)."""
        return TEXT

    def _load_formatter_plugins(self) -> Any:
        plugins = super()._load_formatter_plugins()
        names = [TEXT, *plugins.names()]
        plugins.names = lambda: names  # type: ignore[method-assign]  # the choices of -f
        return plugins

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Print the result as text or as a table, then its conditions; return the exit code."""
        in_columns = parsed_args.columns or parsed_args.sort_columns
        if in_columns and parsed_args.formatter == TEXT:
            parsed_args.formatter = "table"
        answer = self.execute(parsed_args)
        if parsed_args.formatter == TEXT:
            self.print_drawn(answer, parsed_args)
        else:
            self._list(answer, parsed_args)
        self.app.stdout.flush()
        return self.exit_code(answer, parsed_args)

    def print_drawn(self, answer: Answer, options: argparse.Namespace) -> None:
        """Print the result as text."""
        screen = Screen.for_stream(self.app.stdout)
        for text in self.draw(answer, screen, options):
            self.app.stdout.write(f"{screen.fold(text) if self.wraps else text}\n")
            self.app.stdout.flush()

    def _list(self, answer: Answer, options: argparse.Namespace) -> None:
        plugin = self._formatter_plugins[options.formatter].obj
        assert plugin is not None
        self.formatter = plugin
        columns, rows = self.table(answer)
        cells = [[value_of(row) for value_of in columns.values()] for row in rows]
        if options.formatter not in ("json", "yaml"):
            cells = [[_as_text(cell) for cell in row] for row in cells]
        try:
            self.produce_output(options, tuple(columns), cells)
        except ValueError as err:
            raise CommandError(str(err), "give columns of this command to -c") from err


def _as_text(cell: Any) -> Any:
    """Return a value as the text of a table's cell."""
    if isinstance(cell, list) and not any(isinstance(each, dict) for each in cell):
        return plain(" ".join(map(str, cell)))
    if isinstance(cell, dict | list):
        return json.dumps(cell)
    if isinstance(cell, str):
        return plain(cell)
    return "" if cell is None else cell
