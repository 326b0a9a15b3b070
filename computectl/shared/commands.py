"""Base of all commands: help with examples, errors in one line, drawing or listing."""

import argparse
import json
import traceback
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from cliff.command import Command
from cliff.lister import Lister

from agent.reporting.conditions import Condition, errors
from computectl.app import ComputeCtl
from computectl.shared.command_session import Session
from computectl.shared.errors import (
    NOT_WELL,
    UNUSABLE,
    CommandError,
    argument_error,
    as_command_error,
)
from computectl.shared.screen import Screen, Terminal
from reportclient.plain_text import plain

DEFAULT_FILES = "/etc/compute-agent/compute-agent.conf"


Argument = tuple[tuple[str, ...], Mapping[str, Any]]


def argument(*names: str, **more: Any) -> Argument:
    """An argument of a command, as :meth:`argparse.ArgumentParser.add_argument` takes it."""
    return names, more


def positive(words: str) -> int:
    """For argparse: a number of at least 1."""
    number = int(words)
    if number < 1:
        raise ValueError(words)
    return number


class OperatorCommand(Command):
    """Subclasses say what they do; this says what went wrong."""

    examples: ClassVar[str]
    arguments: ClassVar[Sequence["Argument"]] = ()
    """What it takes beside the options of all commands; made by :func:`argument`."""

    app: ComputeCtl
    files = DEFAULT_FILES
    """Those that the configuration came from, for what is said of it."""

    @abstractmethod
    def perform(self, options: argparse.Namespace) -> int:
        """Do it; the exit code."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Never raises but for --debug."""
        try:
            return self.perform(parsed_args)
        except BrokenPipeError:
            raise
        except Exception as err:  # noqa: BLE001  a person reads it: one line
            return self.report_failure(err)

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """The same; cliff wants it to be there."""
        return self.perform(parsed_args)

    def session(self) -> Session:
        """The configuration.  :raises agent.config.ConfigError: it is bad."""
        session = self.app.session()
        self.files = ", ".join(session.conf.config_file or [self.files])
        return session

    def get_epilog(self) -> str:
        """Short: cliff would look through all distributions to say where a command is from."""
        return f"examples:\n{self.examples}"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """With the examples as they are written."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.error = partial(self._refuse, parser)  # type: ignore[method-assign]
        for names, more in self.arguments:
            parser.add_argument(*names, **more)
        return parser

    def print_on_stderr(self, text: str) -> None:
        """Print a line on stderr."""
        self.app.stderr.write(f"{self.app.NAME}: {plain(text)}\n")

    def progress(self, words: str) -> None:
        """On a terminal, a line that the next one replaces; empty words end it."""
        if self.app.stderr.isatty() and isinstance(self.app.stderr, Terminal):
            self.app.stderr.replace_line(words)

    def report_failure(self, err: Exception) -> int:
        """Tell it, with the next step; the exit code."""
        if self.app.options.debug:
            traceback.print_exc(file=self.app.stderr)
        failure = as_command_error(err, self.files)
        self.print_on_stderr(str(failure))
        return failure.code

    def _refuse(self, parser: argparse.ArgumentParser, message: str) -> NoReturn:
        self.print_on_stderr(str(argument_error(message, parser)))
        raise SystemExit(UNUSABLE)


Answer = TypeVar("Answer")
Table = tuple[Sequence[str], list[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class _Formatters:
    """cliff's own, and more names: those of the drawings."""

    plugins: Any
    drawn: Sequence[str]

    def names(self) -> list[str]:
        return [*self.drawn, *self.plugins.names()]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.plugins)

    def __getitem__(self, name: str) -> Any:
        return self.plugins[name]


class DrawnOrListed(OperatorCommand, Lister, Generic[Answer]):
    """Subclasses ask, draw and list; this chooses, and says what went wrong."""

    drawn: ClassVar[str]
    """The name of the drawing among the formats; it is the default."""
    pictures: ClassVar[Sequence[str]] = ()
    """Names of formats that are drawn as well, whole and without a width."""

    @abstractmethod
    def execute(self, session: Session, options: argparse.Namespace) -> Answer:
        """Everything that has to be read."""

    @abstractmethod
    def draw(self, answer: Answer, screen: Screen, options: argparse.Namespace) -> str:
        """The answer for people."""

    @abstractmethod
    def table(self, answer: Answer) -> Table:
        """The answer for programs: columns and rows; lists and dicts may be in cells."""

    def conditions(self, answer: Answer, options: argparse.Namespace) -> Iterable[Condition]:  # noqa: ARG002
        """Return the conditions, which are printed on stderr after the answer."""
        return ()

    def exit_code(self, answer: Answer, options: argparse.Namespace) -> int:
        """The exit code, by the conditions, which are told here."""
        found = list(self.conditions(answer, options))
        for one in found:
            self.print_on_stderr(one.sentence)
        return NOT_WELL if errors(found) else 0

    # -- cliff's side

    @property
    def formatter_default(self) -> str:
        """The default format, by cliff's name."""
        return self.drawn

    def _load_formatter_plugins(self) -> Any:
        return _Formatters(super()._load_formatter_plugins(), (self.drawn, *self.pictures))

    def obtain_answer(self, options: argparse.Namespace) -> Answer:
        """Return the result of :meth:`execute`."""
        return self.execute(self.session(), options)

    def perform(self, options: argparse.Namespace) -> int:
        """Drawn or listed; what is wrong is told after it."""
        answer = self.obtain_answer(options)
        if options.formatter in (self.drawn, *self.pictures):
            text = self.draw(answer, Screen.for_stream(self.app.stdout), options)
            self.app.stdout.write(f"{text}\n")
        else:
            self._list(answer, options)
        self.app.stdout.flush()
        return self.exit_code(answer, options)

    def _list(self, answer: Answer, options: argparse.Namespace) -> None:
        plugin = self._formatter_plugins[options.formatter].obj
        assert plugin is not None
        self.formatter = plugin
        columns, rows = self.table(answer)
        if options.formatter not in ("json", "yaml"):
            rows = [[_as_text(cell) for cell in row] for row in rows]
        try:
            self.produce_output(options, columns, rows)
        except ValueError as err:
            raise CommandError(str(err), "name columns of the list with -c") from err


class Offline(DrawnOrListed[Answer]):
    """For those who have no agent yet: without any configuration, good or bad."""

    @abstractmethod
    def execute_offline(self, options: argparse.Namespace) -> Answer:
        """Everything that has to be done or read."""

    def execute(self, session: Session, options: argparse.Namespace) -> Answer:  # noqa: ARG002
        """The same."""
        return self.execute_offline(options)

    def obtain_answer(self, options: argparse.Namespace) -> Answer:
        """The same."""
        return self.execute_offline(options)


def _as_text(cell: Any) -> Any:
    """Return a value as the text of a table's cell."""
    if isinstance(cell, dict):
        return json.dumps(cell)
    if isinstance(cell, list):
        return plain(" ".join(map(str, cell)))
    if isinstance(cell, str):
        return plain(cell)
    return "" if cell is None else cell
