"""The unit under a real systemd: one boot for all; the services start together."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent import opts
from tests.servers.nspawn import CHECKOUT, LIBRARIES, PYTHON, REPOSITORY, Container, missing
from tests.servers.placement import RealPlacement

UNIT = REPOSITORY / "etc" / "systemd" / "compute-agent.service"
OPERATE = REPOSITORY / "docs" / "operate.rst"
LAUNCHER = f"""#!/bin/sh
export LD_LIBRARY_PATH={PYTHON}/lib PYTHONPATH={CHECKOUT}:{LIBRARIES}
exec {PYTHON}/bin/python3.{sys.version_info.minor} -c "from agent.main import main; main()" "$@"
"""
# What stands in the installed place is the same as after pip install.
INSTALLED = f"""
mkdir -p /opt/compute-agent/bin /opt/compute-agent/share/compute-agent /etc/sysusers.d
ln -s {CHECKOUT}/etc/compute-agent /opt/compute-agent/share/compute-agent/etc
ln -s {CHECKOUT}/etc/systemd /opt/compute-agent/share/compute-agent/systemd
"""
QUICK = "Environment=PYTHONDONTWRITEBYTECODE=1\nRestartSec=200ms\n"
SHORT_WATCHDOG = f"{QUICK}WatchdogSec=2\nTimeoutAbortSec=1\n"
PLACEMENT = "[placement]\nauth_type = admin_token\ntoken = admin\nendpoint = {url}\n"
EAGER = "periodic_fuzzy_delay = 0\nupdate_resources_interval = 1\ngraceful_shutdown_timeout = 2\n"
HANGS = """
nodes: {hangs: {inventory: {VCPU: 4}}}
failures: [{after: 1, sleep: 100000}]
"""


@dataclass
class Host:
    """The container and the servers that its services talk to."""

    container: Container
    placement: RealPlacement
    silent_url: str
    closed_url: str

    def add(self, name: str, options: str, drop_in: str = QUICK, url: str | None = None) -> None:
        """The shipped unit under another name, with a configuration and a state of its own."""
        config = f"/etc/compute-agent/{name}.conf"
        text = f"[DEFAULT]\nhost = {name}\ncompute_driver = fake\nstate_path = /var/lib/{name}\n"
        text += options + PLACEMENT.format(url=url or self.placement.url)
        self.container.write(config, text)
        self.container.write(f"/etc/systemd/system/{name}.service", UNIT.read_text())
        command = f"/opt/compute-agent/bin/compute-agent --config-file {config}"
        self.container.write(
            f"/etc/systemd/system/{name}.service.d/test.conf",
            f"[Service]\nExecStart=\nExecStart={command}\nStateDirectory={name}\n{drop_in}",
        )

    def show(self, name: str, key: str) -> str:
        return self.container.run("systemctl", "show", name, "--value", "-p", key)

    def log(self, name: str) -> str:
        return self.container.run("journalctl", "-u", name, "-o", "cat", "--no-pager")

    def until(self, name: str, condition: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait for it; what the service logged explains why it did not come."""
        give_up = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > give_up:
                pytest.fail(f"{name}: {self.show(name, 'StatusText')}\n{self.log(name)[-4000:]}")
            time.sleep(0.1)

    def until_active(self, name: str) -> None:
        self.until(name, lambda: self.show(name, "ActiveState") == "active")

    def until_status(self, name: str, start: str) -> None:
        self.until(name, lambda: self.show(name, "StatusText").startswith(start))


def commands(name: str) -> str:
    """The commands of the block that docs/operate.rst calls ``name``."""
    found = re.search(rf":name: {name}\n\n((?:    .*\n|\n)+)", OPERATE.read_text())
    assert found, f"{OPERATE} has no block {name}"
    return found[1]


@pytest.fixture(scope="module")
def host(
    tmp_path_factory: pytest.TempPathFactory, placement_server: RealPlacement
) -> Iterator[Host]:
    scratch = tmp_path_factory.mktemp("nspawn")
    reason = missing(scratch / "try")
    if reason is not None:
        pytest.skip(reason)
    placement_server.start()
    placement_server.empty()
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.socket() as closed,
        Container(scratch) as container,
    ):
        closed.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        urls = [f"http://127.0.0.1:{server.getsockname()[1]}" for server in (silent, closed)]
        host = Host(container, placement_server, *urls)
        _install(container)
        _add_services(host)
        yield host


def _install(container: Container) -> None:
    container.run("sh", "-ec", INSTALLED)
    container.write("/opt/compute-agent/bin/compute-agent", LAUNCHER, 0o755)
    container.run("sh", "-ec", commands("install"))


def _add_services(host: Host) -> None:
    host.add("steady", EAGER, SHORT_WATCHDOG)
    host.add("hangs", f"{EAGER}[fake]\nscript = /etc/compute-agent/hangs.yaml\n", SHORT_WATCHDOG)
    host.container.write("/etc/compute-agent/hangs.yaml", HANGS)
    host.add("silent", EAGER, url=host.silent_url)
    host.add("refused", EAGER, url=host.closed_url)
    host.add("broken", f"{EAGER}update_resource_interval = 5\n")
    host.add("patient", "update_resources_interval = 1000\nperiodic_fuzzy_delay = 1000\n")
    names = ("steady", "hangs", "silent", "refused", "broken", "patient")
    host.container.run("systemctl", "daemon-reload")
    host.container.run("systemctl", "start", "--no-block", *names)


pytestmark = pytest.mark.real_systemd
needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a command that is there."""
    copy = tmp_path / UNIT.name
    copy.write_text(
        UNIT.read_text().replace("/opt/compute-agent/bin/compute-agent", sys.executable)
    )
    return copy


@needs_analyze
def test_systemd_knows_every_line_of_the_unit(unit: Path) -> None:
    # Its exit code is 0 even for unknown keys.
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@needs_analyze
def test_verify_would_see_an_unknown_line(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("WatchdogSec=", "WatchDogSecs="))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert "WatchDogSecs" in done.stderr


@needs_analyze
def test_the_service_stays_shut_in(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=15", unit],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_what_the_manual_installs_is_the_shipped_unit(host: Host) -> None:
    installed = host.container.root / "etc/systemd/system/compute-agent.service"
    assert installed.read_text() == UNIT.read_text()
    sample = host.container.run("stat", "-c", "%a %U:%G", "/etc/compute-agent/compute-agent.conf")
    assert sample == "640 root:compute-agent"


def test_a_service_is_ready_after_its_first_period(host: Host) -> None:
    host.until_active("steady")
    host.until_status("steady", "1 node reported to Placement")
    found = host.placement.request("GET", "/resource_providers?name=steady")
    assert len(found["resource_providers"]) == 1
    own = host.container.run("cat", "/var/lib/steady/compute_id")
    assert found["resource_providers"][0]["uuid"] == own


def test_it_runs_as_its_own_user(host: Host) -> None:
    host.until_active("steady")
    pid = host.show("steady", "MainPID")
    assert (
        host.container.run("stat", "-c", "%U:%G", f"/proc/{pid}") == "compute-agent:compute-agent"
    )


def test_a_broken_configuration_is_not_tried_again(host: Host) -> None:
    host.until("broken", lambda: host.show("broken", "ActiveState") == "failed")
    assert host.show("broken", "ExecMainStatus") == "2"
    assert "broken.conf:8: no option update_resource_interval" in host.log("broken")
    time.sleep(0.5)  # longer than RestartSec
    assert host.show("broken", "NRestarts") == "0"
    assert host.show("broken", "ActiveState") == "failed"


def test_a_refusing_placement_shows_in_the_status(host: Host) -> None:
    host.until_active("refused")
    host.until_status("refused", "degraded: no answer to GET /resource_providers")


def test_a_late_first_report_is_announced(host: Host) -> None:
    host.until_active("patient")
    assert re.match(
        r"first report in \d+ s|the first report is", host.show("patient", "StatusText")
    )


def test_kill_9_is_followed_by_a_restart_with_the_same_identity(host: Host) -> None:
    host.until_active("steady")
    before = host.container.run("cat", "/var/lib/steady/compute_id")
    restarts = int(host.show("steady", "NRestarts"))
    host.container.run("systemctl", "kill", "--signal=KILL", "steady")
    host.until("steady", lambda: int(host.show("steady", "NRestarts")) > restarts)
    host.until_status("steady", "1 node reported")
    assert host.container.run("cat", "/var/lib/steady/compute_id") == before


def test_a_frozen_process_is_ended_by_the_watchdog(host: Host) -> None:
    host.until_active("steady")
    frozen = host.show("steady", "MainPID")
    host.container.run("kill", "-STOP", frozen)
    host.until("steady", lambda: host.show("steady", "MainPID") not in (frozen, "0"))
    host.until_status("steady", "1 node reported")
    assert "Watchdog timeout" in host.log("steady")


def test_a_driver_that_hangs_is_ended_by_the_watchdog_and_named(host: Host) -> None:
    host.until("hangs", lambda: int(host.show("hangs", "NRestarts")) > 0)
    log = host.log("hangs")
    assert "Watchdog timeout" in log
    assert re.search(r'File ".*drivers/fake/driver.py", line \d+ in update_provider_tree', log)


def test_reload_asks_for_a_period_and_does_not_restart(host: Host) -> None:
    host.until_active("patient")
    pid = host.show("patient", "MainPID")
    host.container.run("systemctl", "reload", "patient")
    host.until_status("patient", "1 node reported to Placement")
    assert host.show("patient", "MainPID") == pid


def test_stop_is_quick_and_clean(host: Host) -> None:
    host.until_active("steady")
    started = time.monotonic()
    host.container.run("systemctl", "stop", "steady")
    assert time.monotonic() - started < 30
    assert host.show("steady", "ActiveState") == "inactive"
    assert (host.show("steady", "Result"), host.show("steady", "ExecMainStatus")) == (
        "success",
        "0",
    )


def test_libvirt_is_reached_through_all_the_hardening(host: Host) -> None:
    if shutil.which("libvirtd", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("libvirtd is not installed")
    host.container.run("systemctl", "start", "libvirtd")
    options = "compute_driver = libvirt\n[libvirt]\nvirt_type = qemu\n"
    host.add("real", EAGER + options)
    host.container.run("systemctl", "daemon-reload")
    host.container.run("systemctl", "start", "real")
    host.until_status("real", "1 node reported to Placement")
    uuid = host.container.run("cat", "/var/lib/real/compute_id")
    assert "MEMORY_MB" in host.placement.stranger.inventory(uuid)
    host.container.run("systemctl", "stop", "real")


def test_nobody_waits_longer_for_a_silent_placement(host: Host) -> None:
    host.until_active("silent")
    times = ("InactiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic")
    began, ready = (int(host.show("silent", key)) / 1e6 for key in times)
    assert opts.READY_WITHIN <= ready - began < opts.READY_WITHIN + 30
    # Later, when the client has given up, it says that Placement does not answer.
    said = ("the first report is not through yet", "degraded: no answer to GET")
    host.until("silent", lambda: host.show("silent", "StatusText").startswith(said))


def test_a_stop_does_not_wait_for_a_silent_placement(host: Host) -> None:
    host.until_active("silent")
    started = time.monotonic()
    host.container.run("systemctl", "stop", "silent")
    assert time.monotonic() - started < 30
    assert "leaving at once" in host.log("silent")
