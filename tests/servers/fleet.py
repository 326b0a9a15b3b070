"""A fleet of simulated hosts: processes of ``tests.servers.fleet_hosts``, and what they left
on disk and in Placement in an earlier life."""

import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar, Self

from agent.nodes.identity import replace_compute_id
from agent.state.saved_root import SavedRoot
from agent.switching.heartbeat import agent_address
from agent.switching.host_status import status_document
from agent.switching.machine import UNTOUCHED, ServiceStatus
from compute_registry.database.fleet_database import FleetDatabase
from reportclient.model import MAX_INT, Inventory, Names, Provider
from reportclient.snapshot import Snapshot
from reportclient.view import View
from tests.servers import records
from tests.servers.agent import REPOSITORY
from tests.servers.bulk_load import Held, load
from tests.servers.fleet_hosts import VCPUS, name_of, uuid_of
from tests.servers.placement import RealPlacement
from tests.servers.process import Server

OWNER = "CUSTOM_OWNER_COMPUTE_AGENT"
TRAITS = ("COMPUTE_NODE", OWNER)
WRITTEN = 2
"""The generation of what has been written once."""
CONFIGURATION = """\
[DEFAULT]
compute_driver = fake
transport_url = {bus}
{default}
[registry]
access = rpc
{more}
[compute]
{compute}
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
    default: str = "update_resources_interval = 60"
    """Lines of [DEFAULT]."""
    compute: str = ""
    """Lines of [compute]."""
    child: ClassVar[str] = "tests.servers.fleet_hosts"
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def hosts(self) -> dict[str, str]:
        """UUIDs of the roots by host."""
        return {name_of(each): uuid_of(each) for each in range(self.count)}

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def has_run_before(self) -> None:
        """Give every host its identity, its saved view and status, its record, and its tree.

        First reports of so many cost Placement more time than all that is to be tested;
        what they leave behind is written here: to the two databases, and by the agent's own
        code to disk.
        """
        trees = {each: self.tree(each) for each in self.known()}
        everything = (one for tree in trees.values() for one in tree.walk())
        load(self.placement, Snapshot.build(everything), generation=WRITTEN, held=self.held())
        for number, tree in trees.items():
            self._on_disk(number, tree)
        database = FleetDatabase.from_url(self.database)
        database.prepare()
        records.insert(database, self._records())
        database.dispose()

    def known(self) -> range:
        """Numbers of the hosts that have run before."""
        return range(self.count)

    def blocks(self) -> list[range]:
        """Numbers of the hosts of each process."""
        each = -(-self.count // self.processes)
        return [range(first, min(first + each, self.count)) for first in range(0, self.count, each)]

    def tree(self, number: int) -> Snapshot:
        """What this host has in Placement."""
        inventory = {"VCPU": Inventory(VCPUS, 0, 1, MAX_INT, 1, 1.0)}
        name, uuid = name_of(number), uuid_of(number)
        return Snapshot.build(
            [Provider(uuid, name, None, inventory, frozenset(TRAITS), frozenset())]
        )

    def held(self) -> Mapping[str, Held]:
        """What guests hold of all hosts."""
        return {}

    def _on_disk(self, number: int, tree: Snapshot) -> None:
        state_path, uuid = self.directory / name_of(number), uuid_of(number)
        state_path.mkdir()
        replace_compute_id(state_path, uuid)
        traits = frozenset(trait for one in tree.walk() for trait in one.traits)
        classes = frozenset(name for one in tree.walk() for name in one.inventory)
        generations = {one.uuid: WRITTEN for one in tree.walk()}
        view = View(tree, generations, Names(traits, classes))
        SavedRoot.in_directory(state_path, uuid).save(uuid, view)
        status = ServiceStatus(disabled=False, record_version=UNTOUCHED)
        status_document(state_path).save(asdict(status))

    def _records(self) -> Iterator[dict[str, object]]:
        """As heartbeats of long ago left them."""
        for name, uuid in ((name_of(each), uuid_of(each)) for each in self.known()):
            yield {
                "uuid": uuid,
                "host": name,
                "version": UNTOUCHED,
                "root": uuid,
                "address": agent_address(self.directory / name),
                "last_seen": 0.0,
                "heard": 0.0,
            }

    def start(self, timeout: float = 600.0) -> None:
        """Start all, and wait until every host has heard of its record and tried to listen."""
        config = self.directory / "fleet.conf"
        config.write_text(
            CONFIGURATION.format(
                bus=self.bus,
                placement=self.placement.url,
                more=self.more,
                default=self.default,
                compute=self.compute,
            )
        )
        with (self.directory / "log").open("ab") as log:
            for block in self.blocks():
                arguments = map(str, (config, self.directory, block.start, len(block)))
                self._running.append(
                    subprocess.Popen(
                        [sys.executable, "-m", self.child, *arguments],
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
