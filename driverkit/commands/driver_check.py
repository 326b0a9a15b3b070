"""``computectl driver check``: check an installed driver by the rules of the kit."""

import argparse
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

from agent.reporting.reports import errors
from computectl.drawing.text_tree import draw_tree
from computectl.shared.commands import Columns, DrawnOrListed, Table, argument
from computectl.shared.errors import PROBLEMS, CommandError
from computectl.shared.screen import Screen, folded
from driverkit.broken import DriverRaised, Hung
from driverkit.check import (
    BROKEN,
    KEPT,
    NOT_JUDGED,
    SKIPPED,
    Installed,
    Verdict,
    check,
)
from driverkit.rulebook import RULES
from driverkit.stage import Stage
from driverkit.trace import Outcome, Trace, traces
from drivers import loader
from drivers.api import DriverContext
from drivers.errors import DriverNotFound
from reportclient.testing.fake_placement import FakePlacement

COLUMNS: Columns = {
    "rule": lambda verdict: verdict.rule.name,
    "verdict": lambda verdict: verdict.verdict,
    "says": lambda verdict: verdict.rule.says,
    "seen": lambda verdict: verdict.seen,
    "mend": lambda verdict: verdict.mend,
}
STYLES = {BROKEN: "red", NOT_JUDGED: "red", SKIPPED: "yellow", KEPT: None}
VERDICT_WIDTH = max(map(len, STYLES))
NAME_WIDTH = max(map(len, RULES))
LEFT = VERDICT_WIDTH + NAME_WIDTH + 4
MEND = "    mend: "


class Verdicts:
    """Verdicts as they arrive; ``seen`` has those that arrived."""

    def __init__(self, verdicts: Iterator[Verdict]) -> None:
        self._verdicts = verdicts
        self.seen: list[Verdict] = []

    def __iter__(self) -> Iterator[Verdict]:
        for verdict in self._verdicts:
            self.seen.append(verdict)
            yield verdict


class Traces(list[Trace]):
    """Periods of a driver, for ``--trace``."""


class CheckDriver(DrawnOrListed[Verdicts | Traces]):
    """Check an installed driver against the rules for drivers.

    The driver is created and called with the options of the agent's configuration, in a
    separate process with a temporary state path; it reports to a Placement in memory, never
    to the configured Placement. Exits with 1 if the driver breaks a rule.
    """

    examples = """\
  computectl driver check libvirt                    each rule, and how to repair a broken one
  computectl driver check libvirt --real-placement   with a Placement started for the check
  computectl driver check mine --fixtures tests/test_driver.py   with the fixtures of its tests
  computectl driver check libvirt --trace            what it says, and what becomes of it
  computectl driver check libvirt -f json            for programs
"""

    arguments = (
        argument("driver", metavar="NAME", help="name of the driver, as in compute_driver"),
        argument(
            "--real-placement",
            action="store_true",
            help="report to a real Placement, started for this check; requires compute-agent[dev]",
        ),
        argument(
            "--fixtures",
            metavar="FILE",
            help="a Python file with a class that derives from driverkit.testing.DriverContract: "
            "its fixtures (lose_backend, lose_device, make_big_driver, reshape_case, "
            "driver_config) make it possible to check the rules that need them",
        ),
        argument(
            "--trace",
            action="store_true",
            help="judge nothing: show two periods of the first node, with what the driver is "
            "shown, what it says, and what becomes of each claim",
        ),
    )

    def execute(self, options: argparse.Namespace) -> Verdicts | Traces:
        """Check or trace the driver.  :raises CommandError: an argument is invalid."""
        session = self.session()
        drivers = loader.installed()
        if options.driver not in drivers:
            raise DriverNotFound(loader.not_found(options.driver, drivers))
        conf, settings = session.conf, session.settings
        if options.trace:
            return _traced(options.driver, settings.host, conf)
        files, folders = _absolute(conf.config_file), _absolute(conf.config_dir)
        if options.fixtures is not None and not Path(options.fixtures).is_file():
            raise CommandError(
                f"{options.fixtures} is no file", "name the file with the test class"
            )
        fixtures = None if options.fixtures is None else _absolute([options.fixtures])[0]
        directory = str(Path.cwd())
        driver = Installed(options.driver, settings.host, files, folders, fixtures, directory)
        return Verdicts(check(driver, real_placement=options.real_placement))

    def draw(
        self,
        answer: Verdicts | Traces,
        screen: Screen,
        options: argparse.Namespace,  # noqa: ARG002
    ) -> Iterator[str]:
        """Yield each rule when its verdict arrives, with the violation and its repair."""
        if isinstance(answer, Verdicts):
            printed = set()
            for judged in answer:
                verdict = screen.paint(judged.verdict.ljust(VERDICT_WIDTH), STYLES[judged.verdict])
                text = judged.seen if judged.verdict == SKIPPED else judged.rule.says
                name = judged.rule.name.ljust(NAME_WIDTH)
                yield folded(f"{verdict}  {name}  {text}", screen.width, LEFT)
                # Often many rules can't be judged for the same reason: print it once.
                if judged.verdict == BROKEN or (
                    judged.verdict == NOT_JUDGED and judged.seen not in printed
                ):
                    yield from ("", textwrap.indent(judged.seen, "    "), "")
                    printed.add(judged.seen)
                if judged.mend:
                    yield from (folded(f"{MEND}{judged.mend}", screen.width, len(MEND)), "")
            return
        for trace in answer:
            if trace is not answer[0]:
                yield ""
            yield _drawn(trace, screen)

    def table(self, answer: Verdicts | Traces) -> Table:
        """Return a row for each rule, or for each claim."""
        if isinstance(answer, Traces):
            rows = ((trace.number, *outcome) for trace in answer for outcome in trace.outcomes)
            names = ("period", *Outcome._fields)
            return {name: itemgetter(place) for place, name in enumerate(names)}, rows
        return COLUMNS, answer

    def exit_code(self, answer: Verdicts | Traces, options: argparse.Namespace) -> int:
        """Return 1 if a rule is broken or could not be judged, or a period had errors."""
        if isinstance(answer, Traces):
            return PROBLEMS if any(errors(trace.conditions) for trace in answer) else 0
        broken = [seen.rule.name for seen in answer.seen if seen.verdict == BROKEN]
        unknown = [seen.rule.name for seen in answer.seen if seen.verdict == NOT_JUDGED]
        if not broken and not unknown:
            return 0
        for names, what in ((broken, "broken"), (unknown, "could not be judged")):
            if names:
                self.print_on_stderr(f"driver {options.driver}: {what}: {', '.join(names)}")
        return PROBLEMS


def _traced(driver: str, host: str, conf: Any) -> Traces:
    with tempfile.TemporaryDirectory(prefix="driver-check-") as state:
        context = DriverContext(host, Path(state), conf)
        (loaded,) = loader.load_drivers([driver], context)
        make = lambda: loaded.driver  # noqa: E731
        stage = Stage(FakePlacement(), context, make, loader.call_timeout(conf))
        try:
            return Traces(traces(stage))
        except (DriverRaised, Hung) as err:
            raise CommandError(str(err), "nothing was traced", PROBLEMS) from None
        finally:
            stage.close()


def _drawn(trace: Trace, screen: Screen) -> str:
    """Return a period as text."""
    width = max((len(it.outcome) for it in trace.outcomes), default=0)
    became = [
        f"{it.outcome.ljust(width)}  {it.provider}  {it.claim}{it.why and f': {it.why}'}"
        for it in trace.outcomes
    ]
    root = next(iter(trace.shown.children(None)), None)
    shown = draw_tree(trace.shown, root, screen=screen).splitlines() if root else []
    parts = [
        ("the driver was shown", shown),
        ("it said", trace.said or ["nothing"]),
        ("what became of it", became or ["nothing"]),
        ("conditions", [each.sentence for each in trace.conditions]),
    ]
    lines = [screen.paint(f"node {trace.node}, period {trace.number}", "bold")]
    for title, texts in parts:
        if texts:
            lines += ["", f"{title}:", *(f"    {text}" for text in texts)]
    return "\n".join([*lines, "", f"{trace.calls} calls to Placement"])


def _absolute(paths: Iterable[str] | None) -> list[str]:
    """Return absolute paths, since pytest runs in another directory."""
    return [str(Path(path).absolute()) for path in paths or ()]
