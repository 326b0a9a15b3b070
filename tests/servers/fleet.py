"""A fleet of simulated hosts: processes of ``tests.servers.fleet_hosts``, and what they left
on disk and in Placement in an earlier life."""

from __future__ import annotations

import select
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from agent.nodes.identity import replace_compute_id
from agent.registry.access import here
from agent.registry.database import open_database
from agent.registry.record import BINARY
from agent.state.kept_root import KeptRoot
from agent.state.roots import RootStore
from agent.switching.machine import UNTOUCHED, ServiceStatus
from agent.switching.service_file import ServiceFile
from reportclient.model import MAX_INT, Inventory, Provider
from reportclient.names import Names
from reportclient.snapshot import Snapshot
from reportclient.view import View
from tests.servers import records
from tests.servers.agent import REPOSITORY
from tests.servers.fleet_hosts import VCPUS, name_of, uuid_of
from tests.servers.placement import RealPlacement
from tests.servers.process import Server

OWNER = "CUSTOM_OWNER_COMPUTE_AGENT"
TRAITS = ("COMPUTE_NODE", OWNER)
CONFIGURATION = """\
[DEFAULT]
compute_driver = fake
transport_url = {bus}
update_resources_interval = 60
[registry]
access = rpc
{more}
[placement]
auth_type = admin_token
token = admin
endpoint = {placement}
"""


@dataclass
class Fleet(Server):
    """``count`` hosts in ``processes`` processes; ``more`` are lines of [registry]."""

    directory: Path
    placement: RealPlacement
    bus: str
    database: str
    """URL of the registry's database."""
    count: int
    processes: int = 4
    more: str = ""
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def hosts(self) -> dict[str, str]:
        """UUIDs of the roots by host."""
        return {name_of(each): uuid_of(each) for each in range(self.count)}

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def has_run_before(self) -> None:
        """Give every host its identity, its saved view and status, its record, and its root.

        First reports of so many cost Placement more time than all that is to be tested;
        what they leave behind is written here: to the two databases, and by the agent's own
        code to disk.
        """
        self.placement.request("PUT", f"/traits/{OWNER}")
        for name, uuid in self.hosts.items():
            state_path = self.directory / name
            replace_compute_id(state_path, uuid)
            KeptRoot(RootStore.of(state_path), uuid).save(uuid, _view(name, uuid))
            ServiceFile.of(state_path).keep(ServiceStatus(disabled=False, record_version=UNTOUCHED))
        path = self.placement.directory / "placement.sqlite"
        with closing(sqlite3.connect(path, timeout=60)) as database, database:
            _insert(database, self.hosts)
        database = open_database(self.database)
        database.upgrade()
        records.insert(database, self._records())
        database.dispose()

    def _records(self) -> Iterator[dict[str, object]]:
        """As heartbeats of long ago left them."""
        for name, uuid in self.hosts.items():
            yield {
                "uuid": uuid,
                "host": name,
                "binary": BINARY,
                "version": UNTOUCHED,
                "disabled": False,
                "forced_down": False,
                "roots": uuid,
                "address": here(self.directory / name),
                "last_seen": 0.0,
            }

    def start(self, timeout: float = 120.0) -> None:
        """Start all, and wait until every host has heard of its record and tried to listen."""
        config = self.directory / "fleet.conf"
        config.write_text(
            CONFIGURATION.format(bus=self.bus, placement=self.placement.url, more=self.more)
        )
        each = -(-self.count // self.processes)
        with (self.directory / "log").open("ab") as log:
            for first in range(0, self.count, each):
                numbers = (first, min(each, self.count - first))
                arguments = map(str, (config, self.directory, *numbers))
                self._running.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "tests.servers.fleet_hosts", *arguments],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        cwd=REPOSITORY,
                    )
                )
        give_up = time.monotonic() + timeout
        for process in self._running:
            ready, _, _ = select.select(
                [process.stdout], [], [], max(0.0, give_up - time.monotonic())
            )
            assert ready and process.stdout.readline() == b"ready\n", self.log[-4000:]

    def stop(self) -> None:
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait(60)
            process.stdin.close()
            process.stdout.close()
        self._running.clear()

    def __enter__(self) -> Self:
        self.has_run_before()
        return super().__enter__()


def _view(name: str, uuid: str) -> View:
    inventory = {"VCPU": Inventory(VCPUS, 0, 1, MAX_INT, 1, 1.0)}
    root = Provider(uuid, name, None, inventory, frozenset(TRAITS), frozenset())
    known = Names(frozenset(TRAITS), frozenset({"VCPU"}))
    return View(Snapshot.build([root]), {uuid: 2}, known)


def _insert(database: sqlite3.Connection, hosts: dict[str, str]) -> None:
    database.executemany(
        "INSERT INTO resource_providers (uuid, name, generation) VALUES (?, ?, 2)",
        [(uuid, name) for name, uuid in hosts.items()],
    )
    database.execute("UPDATE resource_providers SET root_provider_id = id")
    marks = ", ".join("?" * len(TRAITS))
    database.execute(
        "INSERT INTO resource_provider_traits (resource_provider_id, trait_id) SELECT p.id, t.id "
        f"FROM resource_providers p JOIN traits t ON t.name IN ({marks})",
        TRAITS,
    )
    database.execute(
        "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, "
        "min_unit, max_unit, step_size, allocation_ratio) "
        "SELECT p.id, c.id, ?, 0, 1, ?, 1, 1.0 FROM resource_providers p "
        "JOIN resource_classes c ON c.name = 'VCPU'",
        (VCPUS, MAX_INT),
    )
