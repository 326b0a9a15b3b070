"""What every command does beside its work: examples in its help, errors in one line."""

import argparse
import traceback
from functools import partial
from typing import ClassVar, NoReturn

from cliff.command import Command

from agent.cli.app import ComputeCtl
from agent.cli.shared.errors import UNUSABLE, explained, refused
from agent.cli.shared.screen import Terminal
from reportclient.plain_text import plain

DEFAULT_FILES = "/etc/compute-agent/compute-agent.conf"


class OperatorCommand(Command):
    """Subclasses say what they do; this says what went wrong."""

    examples: ClassVar[str]

    app: ComputeCtl

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

    def went_wrong(self, err: Exception, files: str = DEFAULT_FILES) -> int:
        """Tell it, with the next step; the exit code.  ``files``: those of the configuration."""
        if self.app.options.debug:
            traceback.print_exc(file=self.app.stderr)
        failure = explained(err, files)
        self.tell(str(failure))
        return failure.code

    def _refuse(self, parser: argparse.ArgumentParser, message: str) -> NoReturn:
        self.tell(str(refused(message, parser)))
        raise SystemExit(UNUSABLE)
