"""Nova's own services for tests: API, scheduler, conductor, and a nova-compute for each host.

They run in the environment of :func:`tests.servers.reference.reference_python`, over a real RabbitMQ,
MariaDB and Placement.  Hypervisors are those of Nova's fake driver: guests are scheduled, counted and
deleted, and nothing runs in them.  There is no Keystone (a request's headers say who sends it); Glance
and Neutron are those of ``tests/servers/nova_api_child.py``, with one image and without networks.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from tests.servers.agent import REPOSITORY
from tests.servers.databases import MariaDB
from tests.servers.ports import free_port
from tests.servers.process import Server, completed, end, launched, wait_for
from tests.servers.reference import reference_python
from tests.waiting import eventually

IMAGE = "155d900f-4e14-4e4c-a73d-069cbf4541e6"
HEADERS = {
    "Content-Type": "application/json",
    "OpenStack-API-Version": "compute 2.90",
    "X-User-Id": "user",
    "X-Project-Id": "project",
    "X-Roles": "admin,member,reader",
    "X-Auth-Token": "token",
}
CONFIGURATION = """\
[DEFAULT]
host = {host}
state_path = {directory}/{host}
transport_url = {broker}
compute_driver = fake.FakeDriver
update_resources_interval = 5
periodic_fuzzy_delay = 0
report_interval = 2
service_down_time = 20
heal_instance_info_cache_interval = -1
use_journal = false
concurrency_backend = threading
[api_database]
connection = {api_database}
[database]
connection = {cell1_database}
[cache]
enabled = false
[conductor]
workers = 1
[scheduler]
workers = 1
[compute]
resource_provider_association_refresh = 10
[glance]
api_servers = http://127.0.0.1:{others_port}/glance
[neutron]
endpoint_override = http://127.0.0.1:{others_port}/neutron
auth_type = none
[oslo_concurrency]
lock_path = {directory}/lock
[placement]
auth_type = admin_token
token = admin
endpoint = {placement}
[service_user]
send_service_user_token = false
[upgrade_levels]
compute = auto
"""
PASTE = "authtoken keystonecontext"
"""What of Nova's pipeline asks Keystone; the rest reads the request's headers."""


@dataclass
class Nova(Server):
    """``directory`` gets configuration, databases and logs."""

    directory: Path
    broker: str
    """The URL of the message bus."""
    database: MariaDB
    placement: str
    """The URL of Placement."""
    hosts: tuple[str, ...] = ("compute1", "compute2")
    api_port: int = field(default_factory=free_port)
    others_port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> None:
        """Make the databases, start the services, wait until each host is in Placement and mapped."""
        databases = {
            name: self.database.create(f"nova_{name}") for name in ("api", "cell0", "cell1")
        }
        for host in ("controller", *self.hosts):
            self._configure(host, databases)
        self._lend_database_driver()
        for words in (
            "api_db sync",
            f"cell_v2 map_cell0 --database_connection {databases['cell0']}",
            "db sync",
            "cell_v2 create_cell --name cell1",
        ):
            self.manage(*words.split())
        for service in ("conductor", "scheduler"):
            self._run(f"nova-{service}", "controller", f"nova-{service}")
        self._start_api()
        for host in self.hosts:
            self._run(f"nova-compute-{host}", host, "nova-compute")
        self.until(lambda: len(self.up()) == len(self.hosts), "nova-compute is not up")
        self.manage("cell_v2", "discover_hosts")

    def stop(self) -> None:
        """End all of them."""
        for process in self.processes.values():
            end(process, signal.SIGKILL, group=True)
        self.processes.clear()

    def start_compute(self, host: str) -> None:
        """Start this host's nova-compute again, and wait until it is up."""
        self._run(f"nova-compute-{host}", host, "nova-compute")
        self.until(lambda: host in self.up(), f"nova-compute of {host} is not up")

    def stop_compute(self, host: str) -> None:
        """Kill this host's nova-compute, and wait until Nova notices."""
        end(self.processes.pop(f"nova-compute-{host}"), signal.SIGKILL, group=True)
        self.until(lambda: host not in self.up(), f"nova-compute of {host} is not down")

    def delete_service(self, host: str) -> None:
        """Delete the record of this host's nova-compute, as ``openstack compute service delete``."""
        listed = self.request("GET", "/os-services?binary=nova-compute")["services"]
        (number,) = (service["id"] for service in listed if service["host"] == host)
        self.request("DELETE", f"/os-services/{number}")

    def up(self) -> set[str]:
        """Return the hosts whose nova-compute is up."""
        listed = self.request("GET", "/os-services?binary=nova-compute")["services"]
        return {service["host"] for service in listed if service["state"] == "up"}

    def manage(self, *words: str, expect: int = 0) -> str:
        """Run ``nova-manage``, which ends with ``expect``; return what it prints."""
        done = completed(
            self._bin / "nova-manage", *self._files("controller"), *words, env=self._environment
        )
        said = f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert done.returncode == expect, said
        return done.stdout

    def flavor(self, name: str, **extra: str) -> None:
        """Create a flavor of 1 CPU with these extra specs."""
        body = {"name": name, "ram": 64, "vcpus": 1, "disk": 0, "id": name}
        self.request("POST", "/flavors", {"flavor": body})
        if extra:
            self.request("POST", f"/flavors/{name}/os-extra_specs", {"extra_specs": extra})

    def build(self, flavor: str, host: str | None = None) -> dict[str, Any]:
        """Build a guest, wait until that succeeded or failed, and return it as the API shows it."""
        body = {"name": "guest", "flavorRef": flavor, "imageRef": IMAGE, "networks": "none"}
        if host is not None:
            body["host"] = host
        made = self.request("POST", "/servers", {"server": body})["server"]["id"]
        shown: dict[str, Any] = {}

        def ended() -> bool:
            shown.update(self.request("GET", f"/servers/{made}")["server"])
            return shown["status"] in ("ACTIVE", "ERROR")

        self.until(ended, "the guest is neither built nor refused")
        return shown

    def delete(self, guest: str) -> None:
        """Delete a guest, and wait until it is gone."""
        self.request("DELETE", f"/servers/{guest}")

        def gone() -> bool:
            return not [
                one for one in self.request("GET", "/servers")["servers"] if one["id"] == guest
            ]

        self.until(gone, "the guest is not deleted")

    def request(self, method: str, path: str, body: Any = None, expect: int | None = None) -> Any:
        """Send a request to Nova's API; return the JSON of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.api_port, timeout=120)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, f"/v2.1{path}", text, HEADERS)
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        fine = answer.status < 300 if expect is None else answer.status == expect
        assert fine, f"{method} {path}: {answer.status} {said!r}\n{self.logs()}"
        return json.loads(said) if said else None

    def task(self, guest: str) -> str | None:
        """Return what Nova is doing with a guest, ``None`` for nothing."""
        shown = self.request("GET", f"/servers/{guest}")["server"]
        state: str | None = shown["OS-EXT-STS:task_state"]
        return state

    def logs(self) -> str:
        """Return the last warnings and errors of each service."""
        lines = []
        for file in sorted(self.directory.glob("*.log")):
            bad = [x for x in file.read_text().splitlines() if " ERROR " in x or " WARNING " in x]
            lines += [f"{file.name}: {line}" for line in bad[-15:]]
        return "\n".join(lines)

    # -- processes

    @property
    def _bin(self) -> Path:
        python = reference_python()
        assert python is not None
        return python.parent

    @property
    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "OS_NOVA_CONFIG_DIR": str(self.directory),
            "OS_NOVA_CONFIG_FILES": "api-paste.ini;controller.conf",
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(self._lent)]),
            "PYTHONWARNINGS": "ignore",
        }

    def _files(self, host: str) -> list[str]:
        return ["--config-file", str(self.directory / f"{host}.conf")]

    @property
    def _lent(self) -> Path:
        return self.directory / "lent"

    def _lend_database_driver(self) -> None:
        """Nova's environment has none for MariaDB; ours is plain Python."""
        self._lent.mkdir()
        (self._lent / "pymysql").symlink_to(Path(pymysql.__file__).parent)

    def _configure(self, host: str, databases: dict[str, str]) -> None:
        (self.directory / host).mkdir(parents=True)
        values = {
            "host": host,
            "directory": self.directory,
            "broker": self.broker,
            "placement": self.placement,
            "api_database": databases["api"],
            "cell1_database": databases["cell1"],
            "others_port": self.others_port,
        }
        (self.directory / f"{host}.conf").write_text(CONFIGURATION.format(**values))
        paste = (self._bin.parent / "etc" / "nova" / "api-paste.ini").read_text()
        assert PASTE in paste
        (self.directory / "api-paste.ini").write_text(paste.replace(PASTE, "keystonecontext"))

    def _run(self, name: str, host: str, program: str) -> None:
        self._spawn(name, [str(self._bin / program), *self._files(host)])

    def _start_api(self) -> None:
        ports = [str(self.api_port), str(self.others_port)]
        command = [str(self._bin / "python"), "-m", "tests.servers.nova_api_child", *ports]
        process = self._spawn("nova-api", command)
        wait_for(lambda: _listens(self.api_port), process, self.logs)

    def _spawn(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        own = {"cwd": REPOSITORY, "env": self._environment, "start_new_session": True}
        log = self.directory / f"{name}.log"
        self.processes[name] = launched(command, log, stdin=subprocess.PIPE, **own)
        return self.processes[name]

    def until(self, condition: Any, otherwise: str, seconds: float = 120.0) -> None:
        """Wait for it; else fail with ``otherwise`` and the logs."""
        eventually(condition, seconds, 0.2, otherwise=lambda: f"{otherwise}:\n{self.logs()}")


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
