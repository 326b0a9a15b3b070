"""Runs the kit on an installed driver in a child process, and yields verdicts as they arrive.

If the driver hangs, exits or crashes the interpreter, only the rules not judged by then are lost.
At the end all processes of the child's session are killed.
"""

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from computectl.shared.errors import PROBLEMS, CommandError
from driverkit.rulebook import RULES, Rule

KEPT, SKIPPED, NOT_JUDGED, BROKEN = "kept", "skipped", "not judged", "broken"
_WORST_LAST = (SKIPPED, KEPT, NOT_JUDGED, BROKEN)
LIMIT = 600.0
"""Seconds without output of the kit after which its process is killed."""
END_WITHIN = 10.0
CHECKED = "COMPUTE_AGENT_DRIVER_CHECK"
"""Variable in the child's environment: JSON with an ``Installed`` and a file descriptor."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a rule; ``seen`` is the evidence, or why the rule was skipped."""

    rule: Rule
    verdict: str
    seen: str = ""

    @property
    def mend(self) -> str:
        """How to mend the driver; empty unless the rule is broken."""
        return self.rule.mend if self.verdict == BROKEN else ""


@dataclass(frozen=True, slots=True)
class Installed:
    """An installed driver, by the name of its entry point, and its configuration."""

    name: str
    host: str
    config_files: Sequence[str] = ()
    config_dirs: Sequence[str] = ()
    fixtures: str | None = None
    """Path of a Python file with a subclass of ``DriverContract`` that has fixtures."""
    directory: str = "."
    """The driver's working directory; relative paths in its options start there."""


def check(driver: Installed, *, real_placement: bool = False) -> Iterator[Verdict]:
    """Yield a verdict for each rule, in the order of the rules, as soon as it is known.

    :raises CommandError: pytest, an extra, is not installed, or could not run.
    """
    if importlib.util.find_spec("pytest") is None:
        step = "the kit needs it: pip install 'compute-agent[kit]'"
        raise CommandError("pytest is not installed", step)
    with tempfile.TemporaryDirectory(prefix="driver-check-") as name:
        directory = Path(name)
        reader, writer = os.pipe()
        with _running(directory, driver, writer, real_placement=real_placement) as child:
            run = _Run(driver.name, reader, child)
            yield from run.verdicts()
        if not run.started:
            what = f"the kit did not run: {_tail(directory / 'output')}"
            raise CommandError(what, "nothing was judged", PROBLEMS)


@contextmanager
def _running(
    directory: Path, driver: Installed, writer: int, *, real_placement: bool
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the kit, without any other configuration, cache or plugins of pytest.

    At the end kill its process and all that the driver started.
    """
    (directory / "pytest.ini").write_text("[pytest]\npython_classes = *\n")
    arguments = ["-c", str(directory / "pytest.ini"), "--rootdir", str(directory)]
    arguments += ["--basetemp", str(directory / "tmp"), "-p", "no:cacheprovider"]
    arguments += ["-p", "driverkit.testing.plugin", "-p", "driverkit.testing.verdicts", "--quiet"]
    arguments += ["--disable-warnings"]
    arguments += ["--pyargs", driver.fixtures or "driverkit.testing.installed"]
    arguments += ["--real-placement"] if real_placement else []
    environment = {key: it for key, it in os.environ.items() if not key.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    environment[CHECKED] = json.dumps({"driver": asdict(driver), "verdicts": writer})
    with (directory / "output").open("wb") as output:
        child = subprocess.Popen(  # noqa: S603  # our own module
            [sys.executable, "-m", "pytest", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=environment,
            pass_fds=[writer],
            start_new_session=True,
        )
        os.close(writer)
        try:
            yield child
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


@dataclass(slots=True)
class _Run:
    """A run of the kit in a child process, and the lines that it has sent."""

    driver: str
    reader: int
    child: subprocess.Popen[bytes]
    started: bool = False
    """Whether the child has sent any line."""
    current: str = ""
    """Name of the rule that is being judged."""
    lines: dict[str, list[Mapping[str, str]]] = field(default_factory=dict)

    def verdicts(self) -> Iterator[Verdict]:
        """Yield the verdict on each rule once the next rule begins, the rest at the end."""
        left = list(RULES.values())
        ended = ""
        with os.fdopen(self.reader, "rb") as pipe:
            while left and (line := self._line(pipe)):
                message = json.loads(line)
                self.started, self.current = True, message["rule"]
                if message.get("ended"):
                    ended = message["ended"]
                elif "verdict" in message:
                    self.lines.setdefault(self.current, []).append(message)
                while left[0].name != self.current and self.current in {rule.name for rule in left}:
                    yield self._verdict(left.pop(0), "it was left out")
        if not self.started:
            return
        ended = ended or self._end()
        for rule in left:
            yield self._verdict(rule, ended)

    def _line(self, pipe: IO[bytes]) -> bytes:
        ready, _, _ = select.select([pipe], [], [], LIMIT)
        return pipe.readline() if ready else b""

    def _end(self) -> str:
        try:
            code = self.child.wait(END_WITHIN)
        except subprocess.TimeoutExpired:
            return f"driver {self.driver} hung while {self.current} was judged"
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return (
            f"driver {self.driver} ended the process ({how}) while {self.current} was judged: "
            "it must neither call os._exit nor crash the interpreter"
        )

    def _verdict(self, rule: Rule, ended: str) -> Verdict:
        verdicts = self.lines.get(rule.name)
        if not verdicts:
            return Verdict(rule, BROKEN if rule.name == self.current else NOT_JUDGED, ended)
        worst = max(verdicts, key=lambda line: _WORST_LAST.index(line["verdict"]))
        return Verdict(rule, worst["verdict"], worst["seen"] if worst["verdict"] != KEPT else "")


def driver_under_check() -> tuple[Installed, int]:
    """Return, in the child, the driver and the file descriptor for verdicts."""
    checked = json.loads(os.environ[CHECKED])
    return Installed(**checked["driver"]), checked["verdicts"]


def _tail(output: Path) -> str:
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line[1:] for line in lines if line.startswith("E ")]  # as pytest marks them
    return " / ".join(line.strip() for line in (errors or lines)[-5:] if line.strip())
