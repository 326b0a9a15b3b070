"""``computectl provider-config``: check provider files, and print their schema."""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cliff.show import ShowOne

from agent.provider_config.entries import COMPUTE_NODE, Entries, published
from agent.provider_config.files import ProviderFiles, read_files
from agent.reporting.changes import amounts
from computectl.shared.commands import TEXT, Columns, DrawnOrListed, Table, argument
from computectl.shared.errors import UNUSABLE
from computectl.shared.screen import Screen, counted
from drivers.errors import BadFile, Diagnostic

COLUMNS: Columns = {
    "kind": lambda row: row[0],
    "file": lambda row: row[1].file,
    "line": lambda row: row[1].line,
    "path": lambda row: row[1].path,
    "text": lambda row: row[1].text,
}
"""Rows are ``error`` or ``warning``, and the diagnostic."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked file or directory; ``entries`` is ``None`` if there are errors."""

    where: Path
    entries: Entries | None
    errors: Sequence[Diagnostic] = ()
    warnings: Sequence[Diagnostic] = ()


class CheckFiles(DrawnOrListed[Checked]):
    """Check provider files as the agent does; needs neither the agent nor Placement.

    Shows what the files add to which provider, or all errors, each with file, line and path.
    Exits with 2 if the agent would not accept the files.
    """

    examples = """\
  computectl provider-config check                  this host's files
  computectl provider-config check new.yaml         one file
  computectl provider-config check provider_config/ all *.yaml files of a directory
  computectl provider-config check -f json new.yaml errors and warnings, for programs
"""
    arguments = (
        argument(
            "files",
            nargs="?",
            type=Path,
            metavar="FILE|DIR",
            help="default: [compute] provider_config_location",
        ),
    )

    def execute(self, options: argparse.Namespace) -> Checked:
        session = self.session()
        settings = session.settings
        where = options.files or settings.provider_config
        files = ProviderFiles.from_location(where, settings.state_path, writing=False)
        required = options.files is not None or files.required
        try:
            entries = read_files(where, required=required)
        except BadFile as err:
            return Checked(where, None, errors=err.diagnostics)
        return Checked(where, entries, warnings=entries.warnings)

    def draw(self, answer: Checked, screen: Screen, options: argparse.Namespace) -> Iterator[str]:
        if answer.entries is None:
            where = screen.paint(str(answer.where), "bold")
            errors = counted(len(answer.errors), "error")
            yield f"{where}: {errors}"
            yield "  until corrected, a running agent keeps the entries that it has"
            return
        number = len(answer.entries.files)
        files = f"{counted(number, 'file')}, can be used" if number else "no provider files"
        yield f"{screen.paint(str(answer.where), 'bold')}: {files}"
        for entry in answer.entries.all():
            every = entry.identifier == COMPUTE_NODE and entry.by == "uuid"
            one = f"the provider with the {entry.by} {entry.identifier}"
            target = "each root that no other entry describes" if every else one
            yield f"  {target} ({entry.place})"
            for name, record in sorted(entry.inventory.items()):
                yield f"    inventory of {name}: {', '.join(amounts(record))}"
            if entry.traits:
                yield f"    traits: {', '.join(sorted(entry.traits))}"

    def table(self, answer: Checked) -> Table:
        errors = [("error", error) for error in answer.errors]
        return COLUMNS, errors + [("warning", warning) for warning in answer.warnings]

    def exit_code(self, answer: Checked, options: argparse.Namespace) -> int:
        """Print warnings and errors on stderr; return 2 if there are errors."""
        if options.formatter == TEXT:
            for warning in answer.warnings:
                self.print_on_stderr(f"warning: {warning}")
            for error in answer.errors:
                self.print_on_stderr(str(error))
        return UNUSABLE if answer.errors else 0


class ShowSchema(ShowOne):
    """Print the JSON schema of provider files, for editors and other programs."""

    formatter_default = "json"

    def get_epilog(self) -> str:
        """Return no epilog; cliff's would search all installed distributions."""
        return ""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        schema = json.loads(published())
        return tuple(schema), tuple(schema.values())
