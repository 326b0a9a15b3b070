"""Run the kit on an installed driver, in a process of its own, and read its verdicts as they come.

A driver that hangs, exits or crashes the interpreter takes nothing with it but what had
not been judged by then; nothing that it started is left behind.
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

from driverkit.author_file import author_file
from driverkit.rulebook import RULES, Rule

KEPT, SKIPPED, NOT_JUDGED, BROKEN = "kept", "skipped", "not judged", "broken"
_WORST_LAST = (SKIPPED, KEPT, NOT_JUDGED, BROKEN)
LIMIT = 600.0
END_WITHIN = 10.0
CHECKED = "COMPUTE_AGENT_DRIVER_CHECK"
"""Of the child's environment: an ``Installed`` as JSON, and where verdicts go."""
_PLUGINS = ("driverkit.testing.plugin", "driverkit.testing.verdicts")


class NoPytest(Exception):
    """The kit is made of pytest's tests, and pytest is not installed."""


class CheckFailed(Exception):
    """pytest could not run; the text has its last words."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a rule; ``seen`` shows why it is broken, or was skipped."""

    rule: Rule
    verdict: str
    seen: str = ""

    @property
    def mend(self) -> str:
        """How to mend the driver, if it breaks the rule."""
        return self.rule.mend if self.verdict == BROKEN else ""


@dataclass(frozen=True, slots=True)
class Installed:
    """A driver by the name of its entry point, and the configuration that it reads."""

    name: str
    host: str
    config_files: Sequence[str] = ()
    config_dirs: Sequence[str] = ()
    fixtures: str | None = None
    """A file with a class that derives from ``DriverContract``, for its fixtures."""
    directory: str = "."
    """Where the driver works: its options may name files from there on."""


def check(
    driver: Installed, *, real_placement: bool = False, limit: float = LIMIT
) -> Iterator[Verdict]:
    """A verdict for each rule, in the order of the rules, each as soon as it is known.

    ``limit``: seconds without any word of the kit, after which it is ended.

    :raises NoPytest: say so; it is an extra.
    :raises CheckFailed: nothing could be judged.
    """
    if importlib.util.find_spec("pytest") is None:
        raise NoPytest("pytest is not installed")
    with tempfile.TemporaryDirectory(prefix="driver-check-") as name:
        directory = Path(name)
        reader, writer = os.pipe()
        arguments = _arguments(directory, driver, real_placement=real_placement)
        with _running(arguments, directory, driver, writer) as child:
            run = _Run(driver.name, reader, child, limit)
            yield from run.verdicts()
        if not run.heard:
            raise CheckFailed(f"the kit did not run: {_tail(directory / 'output')}")


def _arguments(directory: Path, driver: Installed, *, real_placement: bool) -> list[str]:
    # Nothing of this run is anybody else's: no configuration, no cache, no other plugins.
    (directory / "pytest.ini").write_text("[pytest]\n")
    arguments = ["-c", str(directory / "pytest.ini"), "--rootdir", str(directory)]
    arguments += ["--basetemp", str(directory / "tmp"), "-p", "no:cacheprovider"]
    arguments += ["--quiet", "--pyargs", "driverkit.testing.installed"]
    authors = author_file(driver.fixtures).modules if driver.fixtures else ()
    arguments += [word for plugin in (*_PLUGINS, *authors) for word in ("-p", plugin)]
    return [*arguments, "--real-placement"] if real_placement else arguments


@contextmanager
def _running(
    arguments: Sequence[str], directory: Path, driver: Installed, writer: int
) -> Iterator[subprocess.Popen[bytes]]:
    """The kit at work; at the end it is gone, with all that the driver started."""
    with (directory / "output").open("wb") as output:
        child = subprocess.Popen(  # noqa: S603  # our own module
            [sys.executable, "-m", "pytest", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=_environment(os.environ, driver, writer),
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
    """The child's verdicts until now."""

    driver: str
    reader: int
    child: subprocess.Popen[bytes]
    limit: float
    heard: bool = False
    begun: str = ""
    """The rule that is being looked at."""
    lines: dict[str, list[Mapping[str, str]]] = field(default_factory=dict)

    def verdicts(self) -> Iterator[Verdict]:
        """Each rule once another one has begun, and the rest at the end."""
        left = list(RULES.values())
        ended = ""
        with os.fdopen(self.reader, "rb") as pipe:
            while left and (line := self._line(pipe)):
                said = json.loads(line)
                self.heard, self.begun = True, said["rule"]
                if said.get("ended"):
                    ended = said["ended"]
                elif "verdict" in said:
                    self.lines.setdefault(self.begun, []).append(said)
                while left[0].name != self.begun and self.begun in {rule.name for rule in left}:
                    yield self._verdict(left.pop(0), "it was left out")
        if not self.heard:
            return
        ended = ended or self._end()
        for rule in left:
            yield self._verdict(rule, ended)

    def _line(self, pipe: IO[bytes]) -> bytes:
        ready, _, _ = select.select([pipe], [], [], self.limit)
        return pipe.readline() if ready else b""

    def _end(self) -> str:
        try:
            code = self.child.wait(END_WITHIN)
        except subprocess.TimeoutExpired:
            return f"driver {self.driver} hung while {self.begun} was looked at"
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return (
            f"driver {self.driver} ended the process ({how}) while {self.begun} was looked at: "
            "it must neither call os._exit nor crash the interpreter"
        )

    def _verdict(self, rule: Rule, ended: str) -> Verdict:
        said = self.lines.get(rule.name)
        if not said:
            return Verdict(rule, BROKEN if rule.name == self.begun else NOT_JUDGED, ended)
        worst = max(said, key=lambda line: _WORST_LAST.index(line["verdict"]))
        return Verdict(rule, worst["verdict"], worst["seen"] if worst["verdict"] != KEPT else "")


def _environment(base: Mapping[str, str], driver: Installed, writer: int) -> dict[str, str]:
    ours = {key: value for key, value in base.items() if not key.startswith("PYTEST_")}
    first = [str(author_file(driver.fixtures).folder)] if driver.fixtures else []
    path = os.pathsep.join([*first, *(item for item in sys.path if item)])
    checked = json.dumps({"driver": asdict(driver), "verdicts": writer})
    return {
        **ours,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": path,
        CHECKED: checked,
    }


def checked_here() -> tuple[Installed, int]:
    """In the child: the driver, and the descriptor that verdicts are written to."""
    said = json.loads(os.environ[CHECKED])
    return Installed(**said["driver"]), said["verdicts"]


def _tail(output: Path) -> str:
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line[1:] for line in lines if line.startswith("E ")]  # as pytest marks them
    return " / ".join(line.strip() for line in (errors or lines)[-5:] if line.strip())
