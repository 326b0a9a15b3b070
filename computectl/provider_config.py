"""``computectl provider-config``: look at provider files before the agent does."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cliff.command import Command

from agent.provider_config.entries import COMPUTE_NODE, Entry
from agent.provider_config.files import Loaded, ignored_files, parse_files, read_files
from agent.provider_config.schema import published
from computectl.shared.command_session import Session
from computectl.shared.commands import DrawnOrListed, Table, argument
from computectl.shared.errors import UNUSABLE
from computectl.shared.screen import Screen, counted
from drivers.diagnostics import BadFile, Diagnostic
from reportclient.model import Inventory

COLUMNS = ("kind", "file", "line", "path", "text")


@dataclass(frozen=True, slots=True)
class Checked:
    """``loaded`` is ``None`` where the files can't be used."""

    where: Path
    loaded: Loaded | None
    errors: tuple[Diagnostic, ...] = ()

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return the warnings of valid files."""
        return () if self.loaded is None else self.loaded.warnings


class CheckFiles(DrawnOrListed[Checked]):
    """Check provider files as the agent does, without the agent and without Placement.

    Says what they add to which provider, or all that is wrong with them, each with its
    file, line and path. Exits with 2 if the agent would not accept them.
    """

    drawn = "words"
    examples = """\
  computectl provider-config check                  those of this host
  computectl provider-config check new.yaml         one file
  computectl provider-config check provider_config/ the *.yaml of a directory, together
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

    def execute(self, session: Session, options: argparse.Namespace) -> Checked:
        """Read them, and nothing else."""
        where = options.files or session.settings.provider_config
        try:
            return Checked(
                where, parse_files(read_files(where, required=True), ignored_files(where))
            )
        except BadFile as err:
            return Checked(where, None, err.diagnostics)

    def draw(self, answer: Checked, screen: Screen, options: argparse.Namespace) -> str:  # noqa: ARG002
        return "\n".join(_lines(answer, screen))

    def table(self, answer: Checked) -> Table:
        found = [("error", one) for one in answer.errors]
        found += [("warning", one) for one in answer.warnings]
        return COLUMNS, [(kind, one.file, one.line, one.path, one.text) for kind, one in found]

    def exit_code(self, answer: Checked, options: argparse.Namespace) -> int:
        """Each error and each warning on a line of its own, and then what to do."""
        if options.formatter == self.drawn:
            for warning in answer.warnings:
                self.print_on_stderr(f"warning: {warning}")
            for error in answer.errors:
                self.print_on_stderr(str(error))
        return UNUSABLE if answer.errors else 0


class ShowSchema(Command):
    """Print the JSON schema of provider files, for editors and other programs."""

    def get_epilog(self) -> str:
        """Without a look through all distributions."""
        return ""

    def take_action(self, parsed_args: argparse.Namespace) -> None:  # noqa: ARG002
        self.app.stdout.write(published())


def _lines(answer: Checked, screen: Screen) -> Iterator[str]:
    if answer.loaded is None:
        many, those = len(answer.errors), "them" if len(answer.errors) > 1 else "it"
        where = screen.paint(str(answer.where), "bold")
        kept = "the agent would go on with what it has"
        yield f"{where}: {counted(many, 'error')}; correct {those}: {kept}"
        return
    files = counted(len(answer.loaded.files), "file")
    yield f"{screen.paint(str(answer.where), 'bold')}: {files}, can be used"
    for entry in answer.loaded.entries.all():
        yield f"  {_whom(entry)} ({entry.place})"
        for name, record in sorted(entry.inventory.items()):
            yield f"    inventory of {name}: {', '.join(_amounts(record))}"
        if entry.traits:
            yield f"    traits: {', '.join(sorted(entry.traits))}"


def _whom(entry: Entry) -> str:
    if entry.identifier == COMPUTE_NODE and entry.by == "uuid":
        return "each root that no other entry describes"
    return f"the provider with the {entry.by} {entry.identifier}"


def _amounts(record: Inventory) -> Iterator[str]:
    """The total, and what is not Placement's default."""
    default = Inventory(record.total).with_defaults(None).as_dict()
    for name, amount in record.as_dict().items():
        if name == "total" or amount != default[name]:
            shown = f"{amount:g}" if isinstance(amount, float) else amount
            yield f"{name} {shown}"
