"""compute-registry's unit under a real systemd, over a real MariaDB; a broker that is away."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.servers.databases import MariaDB, free_port
from tests.servers.nspawn import REPOSITORY, Container, missing
from tests.servers.registry import fetch
from tests.servers.systemd_host import QUICK, SystemdHost

MANUAL = REPOSITORY / "docs" / "install.rst"
SHORT_WATCHDOG = f"{QUICK}WatchdogSec=10\nTimeoutAbortSec=5\n"

pytestmark = [pytest.mark.real_systemd, pytest.mark.needs("mariadb")]


@dataclass
class Host(SystemdHost):
    """The container, and the database that its services talk to."""

    database: MariaDB
    port: int

    def add(self, name: str, text: str) -> None:
        self.add_service(name, f"/etc/{name}/{name}.conf", text, SHORT_WATCHDOG)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    scratch = tmp_path_factory.mktemp("nspawn")
    reason = missing(scratch / "try")
    if reason is not None:
        pytest.skip(reason)
    with MariaDB() as database, Container(scratch) as container:
        host = Host(container, "compute-registry", database, free_port())
        host.install("compute_registry.service", MANUAL, "install-registry")
        _add_services(host)
        yield host


def _add_services(host: Host) -> None:
    away = f"transport_url = rabbit://guest:guest@127.0.0.1:{free_port()}/\n"
    records = host.database.create("records")
    unsigned = "[registry]\nunsigned_calls = true\n"
    serves = f"rest_port = {host.port}\nauth_strategy = noauth\n"
    host.add("serving", f"[DEFAULT]\n{away}{unsigned}connection = {records}\n{serves}")
    nowhere = f"mysql+pymysql://root:secret@127.0.0.1:{free_port()}/x"
    host.add("early", f"[DEFAULT]\n{away}{unsigned}connection = {nowhere}\n")
    host.add("broken", "[DEFAULT]\n[registry]\nreport_interval = 100\n")
    host.start("serving", "early", "broken")


def test_the_manual_installs_the_shipped_unit_and_keeps_the_passwords(host: Host) -> None:
    installed = host.container.root / "etc/systemd/system/compute-registry.service"
    assert installed.read_text() == host.unit.read_text()
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


def test_a_database_that_is_away_is_named_without_its_password(host: Host) -> None:
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
