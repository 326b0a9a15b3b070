"""The shipped units as systemd reads them; nothing is started."""

import subprocess
import sys
from pathlib import Path

import pytest

from reportclient.http import LIMIT
from tests.servers.process import completed
from tests.servers.systemd_host import PROGRAMS, UNITS

pytestmark = pytest.mark.needs("systemd-analyze")


@pytest.fixture(params=sorted(path.name for path in UNITS.glob("*.service")))
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A unit with a command that is there."""
    shipped = UNITS / request.param
    copy = tmp_path / shipped.name
    copy.write_text(shipped.read_text().replace(f"{PROGRAMS}/{shipped.stem}", sys.executable))
    return copy


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return completed("systemd-analyze", *arguments)


def test_systemd_knows_every_line(unit: Path) -> None:
    done = analyze("verify", unit)  # its exit code is 0 even for unknown keys
    assert (done.returncode, done.stderr) == (0, "")


def test_verify_would_see_an_unknown_line(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("WatchdogSec=", "WatchDogSecs="))
    assert "WatchDogSecs" in analyze("verify", unit).stderr


def test_a_service_takes_no_more_than_its_share_of_the_memory(unit: Path) -> None:
    """At the worst an answer unfolds to 27 times its bytes."""
    [line] = [line for line in unit.read_text().splitlines() if line.startswith("MemoryMax=")]
    assert int(line.removeprefix("MemoryMax=").removesuffix("M")) * 2**20 > 27 * LIMIT


def test_the_service_stays_shut_in(unit: Path) -> None:
    done = analyze("security", "--offline=true", "--threshold=15", unit)
    assert done.returncode == 0, done.stdout
