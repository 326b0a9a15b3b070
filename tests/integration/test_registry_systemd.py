"""compute-registry's unit under a real systemd, over a real MariaDB; a broker that is away."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.databases import MariaDB, free_port
from tests.servers.nspawn import CHECKOUT, LIBRARIES, PYTHON, REPOSITORY, Container, missing
from tests.servers.registry import fetch

UNIT = REPOSITORY / "etc" / "systemd" / "compute-registry.service"
MANUAL = REPOSITORY / "docs" / "registry.rst"
PROGRAM = "/opt/compute-agent/bin/compute-registry"
LAUNCHER = f"""#!/bin/sh
export LD_LIBRARY_PATH={PYTHON}/lib PYTHONPATH={CHECKOUT}:{LIBRARIES} PYTHONDONTWRITEBYTECODE=1
exec {PYTHON}/bin/python3.{sys.version_info.minor} \
-c "from agent.registry.service import main; main()" "$@"
"""
# What stands in the installed place is the same as after pip install.
INSTALLED = f"""
mkdir -p /opt/compute-agent/bin /opt/compute-agent/share/compute-agent /etc/sysusers.d
ln -s {CHECKOUT}/etc/compute-agent /opt/compute-agent/share/compute-agent/etc
ln -s {CHECKOUT}/etc/systemd /opt/compute-agent/share/compute-agent/systemd
"""
QUICK = "[Service]\nRestartSec=200ms\nWatchdogSec=3\nTimeoutAbortSec=1\n"

pytestmark = pytest.mark.real_systemd
needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


@dataclass
class Host:
    container: Container
    database: MariaDB
    port: int

    def add(self, name: str, text: str) -> None:
        """The shipped unit under another name, with a configuration and a state of its own."""
        config = f"/etc/{name}/{name}.conf"
        self.container.write(config, text)
        self.container.write(f"/etc/systemd/system/{name}.service", UNIT.read_text())
        own = f"ExecStart=\nExecStart={PROGRAM} --config-file {config}\nStateDirectory={name}\n"
        self.container.write(f"/etc/systemd/system/{name}.service.d/test.conf", QUICK + own)

    def show(self, name: str, key: str) -> str:
        return self.container.run("systemctl", "show", name, "--value", "-p", key)

    def log(self, name: str) -> str:
        return self.container.run("journalctl", "-u", name, "-o", "cat", "--no-pager")

    def until(self, name: str, condition: Callable[[], object], seconds: float = 40) -> None:
        give_up = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > give_up:
                pytest.fail(f"{name}: {self.show(name, 'StatusText')}\n{self.log(name)[-4000:]}")
            time.sleep(0.1)

    def until_active(self, name: str) -> None:
        self.until(name, lambda: self.show(name, "ActiveState") == "active")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    scratch = tmp_path_factory.mktemp("nspawn")
    reason = missing(scratch / "try") or MariaDB.missing()
    if reason is not None:
        pytest.skip(reason)
    with MariaDB() as database, Container(scratch) as container:
        host = Host(container, database, free_port())
        container.run("sh", "-ec", INSTALLED)
        container.write(PROGRAM, LAUNCHER, 0o755)
        container.run("sh", "-ec", _install_commands())
        _add_services(host)
        yield host


def _install_commands() -> str:
    found = re.search(r":name: install-registry\n\n((?:    .*\n|\n)+)", MANUAL.read_text())
    assert found, f"{MANUAL} has no block install-registry"
    return found[1]


def _add_services(host: Host) -> None:
    away = f"transport_url = rabbit://guest:guest@127.0.0.1:{free_port()}/\n"
    records = host.database.create("records")
    serves = f"rest_port = {host.port}\nauth_strategy = noauth\n"
    host.add("serving", f"[DEFAULT]\n{away}[registry]\nconnection = {records}\n{serves}")
    nowhere = f"mysql+pymysql://root:secret@127.0.0.1:{free_port()}/x"
    host.add("early", f"[DEFAULT]\n{away}[registry]\nconnection = {nowhere}\n")
    host.add("broken", "[DEFAULT]\n[registry]\nreport_interval = 100\n")
    host.container.run("systemctl", "daemon-reload")
    host.container.run("systemctl", "start", "--no-block", "serving", "early", "broken")


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a command that is there."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace(PROGRAM, sys.executable))
    return copy


@needs_analyze
def test_systemd_knows_every_line_of_the_registrys_unit(unit: Path) -> None:
    # Its exit code is 0 even for unknown keys.
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@needs_analyze
def test_the_registry_stays_shut_in(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=15", unit],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_the_manual_installs_the_shipped_unit_and_keeps_the_passwords(host: Host) -> None:
    installed = host.container.root / "etc/systemd/system/compute-registry.service"
    assert installed.read_text() == UNIT.read_text()
    path = "/etc/compute-registry/compute-registry.conf"
    assert host.container.run("stat", "-c", "%a %U:%G", path) == "640 root:compute-registry"


def test_it_serves_as_its_own_user_with_its_broker_away(host: Host) -> None:
    host.until_active("serving")
    assert host.show("serving", "StatusText").startswith("serving mysql+pymysql://root@127.0.0.1")
    pid = host.show("serving", "MainPID")
    owner = host.container.run("stat", "-c", "%U:%G", f"/proc/{pid}")
    assert owner == "compute-registry:compute-registry"
    status, _, body = fetch(f"http://127.0.0.1:{host.port}/v2.1/os-services")
    assert (status, json.loads(body)) == (200, {"services": []})


def test_a_database_that_is_away_is_waited_for_and_named_without_its_password(host: Host) -> None:
    host.until("early", lambda: host.show("early", "StatusText").startswith("waiting for mysql"))
    assert host.show("early", "ActiveState") == "activating"
    assert "secret" not in host.show("early", "StatusText") + host.log("early")


def test_a_broken_configuration_of_the_registry_is_not_tried_again(host: Host) -> None:
    host.until("broken", lambda: host.show("broken", "ActiveState") == "failed")
    assert (host.show("broken", "ExecMainStatus"), host.show("broken", "NRestarts")) == ("2", "0")
    assert "report_interval (100) has to be below" in host.log("broken")


def test_killed_or_frozen_it_is_back_and_serves(host: Host) -> None:
    host.until_active("serving")
    for signal in ("KILL", "STOP"):
        before = host.show("serving", "MainPID")
        host.container.run("kill", f"-{signal}", before)
        gone = (before, "0")
        host.until("serving", lambda gone=gone: host.show("serving", "MainPID") not in gone)
        host.until_active("serving")
    assert "Watchdog timeout" in host.log("serving")
    assert fetch(f"http://127.0.0.1:{host.port}/v2.1/os-services")[0] == 200


def test_it_stops_cleanly_though_the_broker_never_came(host: Host) -> None:
    host.until_active("serving")
    host.container.run("systemctl", "stop", "serving")
    result = (host.show("serving", "Result"), host.show("serving", "ExecMainStatus"))
    assert result == ("success", "0")
