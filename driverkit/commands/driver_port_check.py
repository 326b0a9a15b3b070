"""``computectl driver port-check``: list the required changes in a driver written for Nova."""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from computectl.shared.commands import DrawnOrListed, Table, argument
from computectl.shared.errors import PROBLEMS, CommandError
from computectl.shared.screen import Screen
from driverkit.porting.advice import Diagnostic, diagnostics
from driverkit.porting.driver_source import DriverSource
from driverkit.porting.nova_api import DROP, FINE, LOOK, MUST

COLUMNS = {name: attrgetter(name) for name in ("line", "verdict", "what", "advice")}
STYLES = {MUST: "red", LOOK: "yellow"}
MEANINGS = {
    MUST: "to change: it fails in this agent",
    LOOK: "to look at: it works, but may mean something else",
    DROP: "to remove: this agent does not use it",
    FINE: "fine as it is",
}


@dataclass(frozen=True, slots=True)
class Checked:
    """The advice for one file."""

    path: str
    diagnosed: list[Diagnostic]


class PortCheck(DrawnOrListed[Checked]):
    """List what has to change in a driver that was written for Nova.

    Reads the source and does not run it. Checks only the code that the agent would call;
    methods that the agent never calls are listed once. Exits with 1 if something has to change.
    """

    drawn = "lines"
    examples = """\
  computectl driver port-check nova/virt/mine/driver.py
  computectl driver port-check -f json driver.py
"""

    arguments = (argument("path", metavar="FILE", help="the driver's source"),)

    def execute(self, options: argparse.Namespace) -> Checked:
        """Read and check the file.  :raises CommandError: it is not the source of a driver."""
        path: str = options.path
        try:
            source = DriverSource.parse(Path(path).read_text(encoding="utf-8"))
        except OSError as err:
            raise CommandError(f"{path}: {err.strerror}", "name the file of a driver") from err
        except SyntaxError as err:
            raise CommandError(f"{path}:{err.lineno}: {err.msg}", "it has to be Python 3") from err
        except ValueError as err:
            what = f"{path} is no Python source: {err}"
            raise CommandError(what, "name the file of a driver") from err
        if not source.classes:
            raise CommandError(
                f"{path} has no class that derives from ComputeDriver or defines"
                " get_available_nodes",
                "name the file that has the driver's class",
            )
        return Checked(path, diagnostics(source))

    def draw(self, answer: Checked, screen: Screen, options: argparse.Namespace) -> Iterator[str]:  # noqa: ARG002
        """Yield the advice in the format of compilers: file, line, text."""
        for diagnostic in answer.diagnosed:
            verdict = screen.paint(diagnostic.verdict, STYLES.get(diagnostic.verdict))
            advice = f": {diagnostic.advice}" if diagnostic.advice else ""
            place = f"{answer.path}:{diagnostic.line}"
            yield f"{place}: {verdict}: {diagnostic.what}{advice}"
        counts = Counter(diagnostic.verdict for diagnostic in answer.diagnosed)
        yield ""
        for verdict, meaning in MEANINGS.items():
            if counts[verdict]:
                yield f"{verdict}: {counts[verdict]} {meaning}"

    def table(self, answer: Checked) -> Table:
        """Return a row for each diagnostic."""
        return COLUMNS, answer.diagnosed

    def exit_code(self, answer: Checked, options: argparse.Namespace) -> int:  # noqa: ARG002
        """Return 1 if changes are required, else 0."""
        return PROBLEMS if any(f.verdict == MUST for f in answer.diagnosed) else 0
