"""What every command does beside its work: examples in its help, errors in one line."""

import argparse
import traceback
from abc import abstractmethod
from functools import partial
from typing import ClassVar, NoReturn

from cliff.command import Command

from agent.cli.app import ComputeCtl
from agent.cli.shared.command_session import Session
from agent.cli.shared.errors import UNUSABLE, explained, refused
from agent.cli.shared.screen import Terminal
from reportclient.plain_text import plain

DEFAULT_FILES = "/etc/compute-agent/compute-agent.conf"


class OperatorCommand(Command):
    """Subclasses say what they do; this says what went wrong."""

    examples: ClassVar[str]

    app: ComputeCtl
    files = DEFAULT_FILES
    """Those that the configuration came from, for what is said of it."""

    @abstractmethod
    def answer(self, options: argparse.Namespace) -> int:
        """Do it; the exit code."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Never raises but for --debug."""
        try:
            return self.answer(parsed_args)
        except BrokenPipeError:
            raise
        except Exception as err:  # noqa: BLE001  a person reads it: one line
            return self.went_wrong(err)

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
        return parser

    def tell(self, text: str) -> None:
        """One line on stderr."""
        self.app.stderr.write(f"{self.app.NAME}: {plain(text)}\n")

    def progress(self, words: str) -> None:
        """On a terminal, a line that the next one replaces; empty words end it."""
        if self.app.stderr.isatty() and isinstance(self.app.stderr, Terminal):
            self.app.stderr.replace_line(words)

    def went_wrong(self, err: Exception) -> int:
        """Tell it, with the next step; the exit code."""
        if self.app.options.debug:
            traceback.print_exc(file=self.app.stderr)
        failure = explained(err, self.files)
        self.tell(str(failure))
        return failure.code

    def _refuse(self, parser: argparse.ArgumentParser, message: str) -> NoReturn:
        self.tell(str(refused(message, parser)))
        raise SystemExit(UNUSABLE)
