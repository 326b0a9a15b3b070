"""A real libvirtd that is killed or hung: the driver says so, while it is so, and recovers.

It hangs for ever: whoever returns at all has not waited for it.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivers.errors import DriverNotReady
from drivers.libvirt.driver import LibvirtDriver
from tests.hosts import context
from tests.integration.test_libvirt_real import report
from tests.servers.libvirtd import PrivateLibvirtd, private_libvirtd
from tests.waiting import eventually, without_error

DEADLINE = 1.0


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
    recovers(driver)  # a busy machine may take longer than the deadline, once
    yield driver
    driver.cleanup_host("host")


@pytest.fixture
def cold(libvirtd: PrivateLibvirtd, tmp_path: Path) -> Iterator[LibvirtDriver]:
    """One that has not connected yet."""
    driver = make(libvirtd, tmp_path)
    yield driver
    driver.cleanup_host("host")


def failure(driver: LibvirtDriver) -> str:
    """What a period says."""
    with pytest.raises(DriverNotReady) as caught:
        report(driver)
    return str(caught.value)


def recovers(driver: LibvirtDriver) -> None:
    without_error(lambda: report(driver), DriverNotReady)


def workers() -> int:
    return sum(thread.name == "libvirt" for thread in threading.enumerate())


def one_worker_remains() -> None:
    """Once the calls that hung have ended."""
    eventually(lambda: workers() == 1)


def test_a_daemon_that_hung_or_was_killed_is_used_again(libvirtd, driver):
    libvirtd.sigstop()
    assert libvirtd.uri in failure(driver)
    later = [failure(driver) for _ in range(20)]
    assert all("still waiting" in said for said in later), "nobody waits a second time"
    assert workers() == 1
    libvirtd.sigcont()
    recovers(driver)
    one_worker_remains()
    libvirtd.kill9()
    assert libvirtd.uri in failure(driver)
    libvirtd.start()
    recovers(driver)
    libvirtd.sigstop()
    failure(driver)
    libvirtd.kill9()
    libvirtd.start()
    recovers(driver)
    one_worker_remains()
    libvirtd.sigstop()
    driver.cleanup_host("host")  # which does not wait
    libvirtd.sigcont()


def test_a_daemon_that_hangs_or_is_down_before_the_first_connection(libvirtd, cold):
    libvirtd.sigstop()
    assert "connection" in failure(cold)
    assert "still waiting" in failure(cold)
    libvirtd.sigcont()
    libvirtd.stop()
    eventually(lambda: "no connection to libvirt" in failure(cold))
    libvirtd.start()
    recovers(cold)


def test_keepalive_ends_a_call_that_has_a_longer_deadline(libvirtd, tmp_path):
    more = "call_timeout = 3600\nkeepalive_interval = 1\nkeepalive_count = 1\n"
    patient = LibvirtDriver(context(tmp_path, f"{libvirtd.group}{more}"))
    report(patient)
    libvirtd.sigstop()
    failure(patient)
    libvirtd.sigcont()
    recovers(patient)
    patient.cleanup_host("host")


LEAVING = """
import sys
from pathlib import Path
from drivers.errors import DriverNotReady
from drivers.libvirt.connection.host import Host, load_binding
from drivers.libvirt.connection.session import Deadlines

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
