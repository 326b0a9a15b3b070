"""Run the kit on an installed driver, in a process of its own, and read its verdicts.

A driver that hangs, exits or crashes the interpreter takes nothing with it but what had
not been judged by then.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from driverkit.rulebook import RULES, Rule

KEPT, SKIPPED, NOT_JUDGED, BROKEN = "kept", "skipped", "not judged", "broken"
_WORST_LAST = (SKIPPED, KEPT, NOT_JUDGED, BROKEN)
LIMIT = 1200.0
"""Seconds for all rules together."""
_PLUGINS = ("driverkit.testing.plugin", "driverkit.testing.verdicts")


class NoPytest(Exception):
    """The kit is made of pytest's tests, and pytest is not installed."""


class CheckFailed(Exception):
    """pytest could not run; the text has its last words."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a rule; ``seen`` shows why it is not kept, or was skipped."""

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


def check(
    driver: Installed, *, real_placement: bool = False, limit: float = LIMIT
) -> list[Verdict]:
    """A verdict for each rule, in the order of the rules.

    :raises NoPytest: say so; it is an extra.
    :raises CheckFailed: nothing could be judged.
    """
    if importlib.util.find_spec("pytest") is None:
        raise NoPytest("pytest is not installed")
    with tempfile.TemporaryDirectory(prefix="driver-check-") as name:
        directory = Path(name)
        ended = _run(_arguments(driver, directory, real_placement=real_placement), directory, limit)
        lines = list(_lines(directory / "verdicts"))
        if not lines:
            raise CheckFailed(f"the kit did not run: {_tail(directory / 'output')}")
    return list(_verdicts(lines, ended))


def _arguments(driver: Installed, directory: Path, *, real_placement: bool) -> list[str]:
    # Nothing of this run is anybody else's: no configuration, no cache, no other plugins.
    (directory / "pytest.ini").write_text("[pytest]\n")
    arguments = ["-c", str(directory / "pytest.ini"), "--rootdir", str(directory)]
    arguments += ["--basetemp", str(directory / "tmp"), "-p", "no:cacheprovider"]
    arguments += ["--quiet", "--pyargs", "driverkit.testing.installed"]
    arguments += [word for plugin in _PLUGINS for word in ("-p", plugin)]
    arguments += ["--installed-driver", driver.name, "--agent-host", driver.host]
    arguments += [word for file in driver.config_files for word in ("--agent-config-file", file)]
    arguments += [word for path in driver.config_dirs for word in ("--agent-config-dir", path)]
    arguments += ["--verdicts", str(directory / "verdicts")]
    return [*arguments, "--real-placement"] if real_placement else arguments


def _run(arguments: Sequence[str], directory: Path, limit: float) -> str:
    """Let it run; why it ended before its time, or nothing."""
    with (directory / "output").open("wb") as output:
        child = subprocess.Popen(  # noqa: S603  # our own module
            [sys.executable, "-m", "pytest", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=_environment(os.environ),
        )
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            return f"it took more than {limit:g} s"
        finally:
            child.kill()
            child.wait()
    return "" if code in (0, 1) else f"the process ended with {code}"


def _environment(base: Mapping[str, str]) -> dict[str, str]:
    ours = {key: value for key, value in base.items() if not key.startswith("PYTEST_")}
    path = os.pathsep.join(item for item in sys.path if item)
    return {**ours, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path}


def _lines(path: Path) -> Iterator[dict[str, str]]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return (json.loads(line) for line in text.splitlines())


def _verdicts(lines: Iterable[Mapping[str, str]], ended: str) -> Iterator[Verdict]:
    found: dict[str, list[Mapping[str, str]]] = {}
    for line in lines:
        found.setdefault(line["rule"], []).append(line)
    for name, rule in RULES.items():
        said = found.get(name, [{"verdict": NOT_JUDGED, "seen": ended}])
        worst = max(said, key=lambda line: _WORST_LAST.index(line["verdict"]))
        seen = worst["seen"] if worst["verdict"] != KEPT else ""
        yield Verdict(rule, worst["verdict"], seen)


def _tail(output: Path) -> str:
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    return " / ".join(line.strip() for line in lines[-5:] if line.strip())
