"""``computectl driver check``: hold an installed driver against the rules of the kit."""

import argparse
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from computectl.shared.command_session import Session
from computectl.shared.commands import DrawnOrListed, Table, argument
from computectl.shared.errors import NOT_WELL, CommandError
from computectl.shared.screen import Screen
from driverkit.check import (
    BROKEN,
    KEPT,
    NOT_JUDGED,
    SKIPPED,
    CheckFailed,
    Installed,
    NoPytest,
    Verdict,
    check,
)
from driverkit.rulebook import RULES
from drivers import loader
from drivers.errors import DriverNotFound

COLUMNS = ("rule", "verdict", "says", "seen", "mend")
STYLES = {BROKEN: "red", NOT_JUDGED: "red", SKIPPED: "yellow", KEPT: None}
VERDICT_WIDTH = max(map(len, STYLES))
NAME_WIDTH = max(map(len, RULES))
LEFT = VERDICT_WIDTH + NAME_WIDTH + 4
NARROWEST = 30
MEND = "    mend: "


class Verdicts:
    """Verdicts, printed as they come and kept."""

    def __init__(self, coming: Iterator[Verdict]) -> None:
        self._coming = coming
        self.seen: list[Verdict] = []

    def __iter__(self) -> Iterator[Verdict]:
        for verdict in self._coming:
            self.seen.append(verdict)
            yield verdict


class CheckDriver(DrawnOrListed[Verdicts]):
    """Check an installed driver against the rules for drivers.

    The driver is created and called with the options of the agent's configuration, in a
    separate process with a temporary state path; it reports to a Placement in memory, never
    to the configured Placement. Exits with 1 if the driver breaks a rule.
    """

    drawn = "text"
    examples = """\
  computectl driver check libvirt                    each rule, and how to mend what is broken
  computectl driver check libvirt --real-placement   against a Placement started for it
  computectl driver check mine --fixtures tests/test_driver.py   with what its own test can break
  computectl driver check libvirt -f json            for programs
"""

    arguments = (
        argument("driver", metavar="NAME", help="name of the driver, as in compute_driver"),
        argument(
            "--real-placement",
            action="store_true",
            help="report to a real Placement, started for this check; needs compute-agent[dev]",
        ),
        argument(
            "--fixtures",
            metavar="FILE",
            help="a Python file with a class that derives from driverkit.testing.DriverContract: "
            "its fixtures (lose_backend, lose_device, make_big_driver, reshape_case, "
            "driver_config) hold the installed driver to the rules that need them",
        ),
    )

    def execute(self, session: Session, options: argparse.Namespace) -> Verdicts:
        """Run the kit."""
        drivers = loader.installed()
        if options.driver not in drivers:
            raise DriverNotFound(loader.not_found(options.driver, drivers))
        conf, settings = session.conf, session.settings
        files, folders = _absolute(conf.config_file), _absolute(conf.config_dir)
        if options.fixtures is not None and not Path(options.fixtures).is_file():
            raise CommandError(
                f"{options.fixtures} is no file", "name the file with your test class"
            )
        given = None if options.fixtures is None else _absolute([options.fixtures])[0]
        here = str(Path.cwd())
        driver = Installed(options.driver, settings.host, files, folders, given, here)
        return Verdicts(_checked(driver, real_placement=options.real_placement))

    def draw(self, answer: Verdicts, screen: Screen, options: argparse.Namespace) -> str:  # noqa: ARG002
        """A line for each rule as it comes; below it what was seen and how to mend it."""
        line = None
        for text in _lines(answer, screen):
            if line is not None:
                self.app.stdout.write(f"{line}\n")
                self.app.stdout.flush()
            line = text
        return line or ""

    def table(self, answer: Verdicts) -> Table:
        """A row for each rule."""
        return COLUMNS, [
            [it.rule.name, it.verdict, it.rule.says, it.seen, it.mend] for it in answer
        ]

    def exit_code(self, answer: Verdicts, options: argparse.Namespace) -> int:
        """1 if a rule is broken, or could not be judged."""
        broken = [it.rule.name for it in answer.seen if it.verdict == BROKEN]
        unknown = [it.rule.name for it in answer.seen if it.verdict == NOT_JUDGED]
        if not broken and not unknown:
            return 0
        for names, what in ((broken, "broken"), (unknown, "could not be judged")):
            if names:
                self.print_on_stderr(f"driver {options.driver}: {what}: {', '.join(names)}")
        return NOT_WELL


def _checked(driver: Installed, *, real_placement: bool) -> Iterator[Verdict]:
    try:
        yield from check(driver, real_placement=real_placement)
    except NoPytest as err:
        raise CommandError(str(err), "the kit needs it: pip install 'compute-agent[kit]'") from None
    except CheckFailed as err:
        raise CommandError(str(err), "nothing was judged", NOT_WELL) from None


def _absolute(paths: Iterable[str] | None) -> list[str]:
    """For pytest, which is started somewhere else."""
    return [str(Path(path).absolute()) for path in paths or ()]


def _lines(verdicts: Verdicts, screen: Screen) -> Iterator[str]:
    told = set()
    for it in verdicts:
        word = screen.paint(it.verdict.ljust(VERDICT_WIDTH), STYLES[it.verdict])
        says = it.seen if it.verdict == SKIPPED else it.rule.says
        yield from _folded(f"{word}  {it.rule.name.ljust(NAME_WIDTH)}  ", says, screen, LEFT)
        # What keeps one rule from being judged keeps many.
        if it.verdict == BROKEN or (it.verdict == NOT_JUDGED and it.seen not in told):
            yield from ("", textwrap.indent(it.seen, "    "), "")
            told.add(it.seen)
        if it.mend:
            yield from (*_folded(MEND, it.mend, screen, len(MEND)), "")


def _folded(first: str, text: str, screen: Screen, indent: int) -> list[str]:
    """``indent`` is how wide ``first`` looks."""
    lines = textwrap.wrap(text, max(screen.width - indent, NARROWEST), break_on_hyphens=False)
    return [first + "".join(lines[:1]), *(" " * indent + line for line in lines[1:])]
