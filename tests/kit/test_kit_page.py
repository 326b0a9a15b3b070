"""docs/driver-kit.rst is true: its driver, its test, and its transcripts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from driverkit.scripted.driver import DEFAULT_SCRIPT
from tests.integration.agent_host import AgentHost
from tests.integration.transcripts import Uuids, replayed
from tests.kit.installed import SETS_ALL_TRAITS, install
from tests.servers.process import completed

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "driver-kit.rst").read_text()
EXAMPLE = DOCS.parent / "examples" / "disks"


def files() -> dict[str, str]:
    """What the page includes."""
    names = re.findall(r"^\.\. literalinclude:: \.\./examples/disks/(\S+)$", PAGE, re.M)
    return {name: (EXAMPLE / name).read_text() for name in names}


def abridged(shown: str) -> list[str]:
    """The parts between lines that are left out, without their blank edges."""
    return [part.strip("\n") for part in re.split(r"(?m)^…$", shown) if part.strip()]


def run_pytest(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider"]
    command += ["--basetemp", "basetemp", *args]
    return completed(*command, cwd=directory, env=env)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with nothing but what the page shows."""
    for name, text in files().items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.timeout(900)
def test_the_pages_driver_passes_outside_of_this_repository(project: Path) -> None:
    done = run_pytest(project, "test_disks.py")
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = set(re.findall(r"SKIPPED .*? (?:fixture|with) (\w+)", done.stdout))
    assert skipped == {"thread_safe", "lose_device", "reshape_case"}


def test_a_class_without_make_driver_is_told_what_to_give(tmp_path: Path) -> None:
    text = "from driverkit.contract import DriverContract\nclass TestMine(DriverContract): pass\n"
    (tmp_path / "test_mine.py").write_text(text)
    done = run_pytest(tmp_path, "-k", "keep_their_names", "test_mine.py")
    assert done.returncode == 1
    assert "TestMine needs a fixture make_driver that returns a callable" in done.stdout


@pytest.mark.timeout(900)
def test_every_command_says_what_the_page_says(tmp_path: Path) -> None:
    host = AgentHost(tmp_path, "http://placement.example")
    host.configure()
    host.script(DEFAULT_SCRIPT.read_text())
    site = tmp_path / "site"
    deeds = {"install_bad": lambda: install(site, "all-traits", SETS_ALL_TRAITS)}

    def run(words: str) -> str:
        if words.startswith("pip "):
            return ""
        program, *args = words.split()
        assert program == "computectl"
        said = host.ctl(*args, PYTHONPATH=str(site))
        return said.out + said.err

    commands = []
    for command, output in replayed(PAGE, deeds, run):
        commands.append(command.words)
        said = Uuids().numbered(output)
        shown = abridged(Uuids().numbered(command.output))
        assert [part for part in shown if part not in said] == [], said
    assert [words for words in commands if "driver check" in words]
