"""A real libvirtd that is killed or hung: the driver says so in bounded time, and recovers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drivers.errors import DriverNotReady
from drivers.libvirt.driver import LibvirtDriver
from tests.integration.test_libvirt_real import report
from tests.servers.libvirtd import PrivateLibvirtd, missing, private_libvirtd
from tests.unit.libvirt.test_settings import context

pytestmark = [
    pytest.mark.real_libvirt,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

DEADLINE = 1.0
SLACK = 10.0
"""For a machine that is busy; a call without a deadline would take for ever."""


@pytest.fixture
def libvirtd() -> Iterator[PrivateLibvirtd]:
    with private_libvirtd() as daemon:
        yield daemon


def make(libvirtd: PrivateLibvirtd, directory: Path, more: str = "") -> LibvirtDriver:
    text = f"""
{libvirtd.group}
connection_timeout = {DEADLINE}
call_timeout = {DEADLINE}
{more}
"""
    return LibvirtDriver(context(directory, text))


@pytest.fixture
def driver(libvirtd: PrivateLibvirtd, tmp_path: Path) -> Iterator[LibvirtDriver]:
    """One that has reported, with a first call that may take long (QEMU is probed)."""
    warm = LibvirtDriver(context(tmp_path, libvirtd.group))
    report(warm)
    warm.cleanup_host("host")
    driver = make(libvirtd, tmp_path)
    report(driver)
    yield driver
    driver.cleanup_host("host")


def failure(driver: LibvirtDriver) -> tuple[str, float]:
    """What a period says, and how long it took."""
    started = time.monotonic()
    with pytest.raises(DriverNotReady) as caught:
        report(driver)
    return str(caught.value), time.monotonic() - started


def recovers(driver: LibvirtDriver, within: float) -> None:
    eventually(lambda: report(driver), within)


def eventually(what: Callable[[], object], within: float) -> None:
    give_up = time.monotonic() + within
    while True:
        try:
            what()
        except DriverNotReady:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)
        else:
            return


def workers() -> int:
    return sum(thread.name == "libvirt" for thread in threading.enumerate())


def test_killed_and_started_again(libvirtd, driver):
    libvirtd.kill9()
    said, took = failure(driver)
    assert libvirtd.uri in said
    assert took < DEADLINE + SLACK
    quick = [failure(driver)[1] for _ in range(50)]
    assert sorted(quick)[25] < DEADLINE / 2, "a dead daemon costs milliseconds, not a deadline"
    libvirtd.start()
    recovers(driver, within=60)
    assert workers() == 1


def test_a_daemon_that_is_started_after_the_agent(libvirtd, tmp_path):
    driver = make(libvirtd, tmp_path)
    libvirtd.stop()
    said, took = failure(driver)
    assert "no connection to libvirt" in said
    assert took < DEADLINE + SLACK
    libvirtd.start()
    recovers(driver, within=60)
    driver.cleanup_host("host")


def test_hung_within_a_call_and_running_again(libvirtd, driver):
    libvirtd.sigstop()
    said, took = failure(driver)
    assert libvirtd.uri in said
    assert took < DEADLINE + SLACK
    later = [failure(driver) for _ in range(20)]
    assert all("still waiting" in said for said, _ in later)
    assert sorted(took for _, took in later)[10] < DEADLINE / 2, "nobody waits a second time"
    assert workers() == 1
    libvirtd.sigcont()
    recovers(driver, within=60)
    assert workers() == 1


def test_hung_before_the_first_connection(libvirtd, tmp_path):
    driver = make(libvirtd, tmp_path)
    libvirtd.sigstop()
    said, took = failure(driver)
    assert "connection" in said
    assert took < DEADLINE + SLACK
    assert "still waiting" in failure(driver)[0]
    libvirtd.sigcont()
    recovers(driver, within=60)
    driver.cleanup_host("host")


def test_hung_then_killed_and_started_again(libvirtd, driver):
    libvirtd.sigstop()
    failure(driver)
    libvirtd.kill9()
    libvirtd.start()
    recovers(driver, within=60)
    assert workers() == 1


def test_keepalive_ends_a_call_that_has_a_longer_deadline(libvirtd, tmp_path):
    text = f"""
{libvirtd.group}
call_timeout = 60
keepalive_interval = 1
keepalive_count = 1
"""
    patient = LibvirtDriver(context(tmp_path, text))
    report(patient)
    libvirtd.sigstop()
    _, took = failure(patient)
    assert took < 50
    libvirtd.sigcont()
    recovers(patient, within=60)
    patient.cleanup_host("host")


def test_closing_does_not_wait_for_a_hung_daemon(libvirtd, driver):
    libvirtd.sigstop()
    started = time.monotonic()
    driver.cleanup_host("host")
    assert time.monotonic() - started < DEADLINE + SLACK
    libvirtd.sigcont()


LEAVING = """
import sys
from pathlib import Path
from drivers.errors import DriverNotReady
from drivers.libvirt.host import Host, load_binding
from drivers.libvirt.session import Deadlines

host = Host(sys.argv[1], load_binding(), Deadlines(connect=1, call=1))
host.hostname()
print("connected", flush=True)
sys.stdin.readline()
try:
    host.hostname()
except DriverNotReady:
    print("not ready", flush=True)
"""


def test_a_process_with_a_stuck_call_can_end(libvirtd):
    process = subprocess.Popen(
        [sys.executable, "-c", LEAVING, libvirtd.uri],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "connected\n"
        libvirtd.sigstop()
        said, _ = process.communicate("go on\n", timeout=60)
        assert said == "not ready\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
