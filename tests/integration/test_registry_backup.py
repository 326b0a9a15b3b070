"""docs/registry-backup.rst, walked: dump, loss and restore, with agents whose hosts were switched meanwhile."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.bus import messaging
from agent.registry.checks import StatusChange
from agent.registry.client import RegistryClient
from agent.registry.record import ServiceRecord
from tests.integration.switched import has_trait, options, root_of
from tests.servers.agent import REPOSITORY, AgentProcess
from tests.servers.databases import MariaDB
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess
from tests.waiting import eventually

PAGE = (REPOSITORY / "docs" / "registry-backup.rst").read_text()
NAMES = ("host1", "host2", "host3")

pytestmark = [pytest.mark.slow, pytest.mark.needs("mariadb")]


class Fleet:
    """A registry on a database, and an agent for each host."""

    def __init__(
        self, directory: Path, database: MariaDB, broker: RabbitMQ, placement: RealPlacement
    ) -> None:
        self.directory, self.database, self.placement = directory, database, placement
        self.url = database.create("registry")
        self.registry = RegistryProcess(
            directory / "registry", transport_url=broker.url, more=f"connection = {self.url}\n"
        )
        self.transport = messaging.transport(broker.url)
        self.client = RegistryClient(self.transport, timeout=30)
        self.agents = {name: self._agent(name, broker) for name in NAMES}
        self.registry.start()

    def _agent(self, name: str, broker: RabbitMQ) -> AgentProcess:
        script = f"nodes: {{{name}: {{inventory: {{VCPU: 4}}}}}}\n"
        agent = AgentProcess(
            self.directory / name, self.placement.url, script, options(broker.url, "access = rpc\n")
        )
        agent.write()
        text = agent.config.read_text().replace("host = testhost", f"host = {name}")
        agent.config.write_text(text)
        return agent

    def run(self, name: str) -> None:
        """Run the commands of a block of the page."""
        found = re.search(rf":name: {name}\n\n((?:    .*\n)+)", PAGE)
        assert found, name
        start, stop = "systemctl start compute-registry", "systemctl stop compute-registry"
        for line in (line.strip() for line in found[1].splitlines()):
            if line == stop:
                self.registry.stop()
            elif line == start:
                self.registry.start()
            else:
                self._shell(line)

    def _shell(self, line: str) -> None:
        program, _, rest = line.partition(" ")
        line = f"{program} -h 127.0.0.1 -P {self.database.port} -u root {rest}"
        done = subprocess.run(line, shell=True, cwd=self.directory, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stderr}"

    def record(self, name: str) -> ServiceRecord | None:
        return {one.host: one for one in self.client.list_services()}.get(name)

    def is_disabled(self, name: str) -> bool:
        """In the record and in Placement."""
        record = self.record(name)
        trait = has_trait(self.placement, root_of(self.agents[name]))
        return record is not None and record.disabled and trait

    def is_enabled(self, name: str) -> bool:
        """In the record and in Placement."""
        record = self.record(name)
        trait = has_trait(self.placement, root_of(self.agents[name]))
        return record is not None and not record.disabled and not trait

    def stop(self) -> None:
        for agent in self.agents.values():
            agent.kill()
        self.registry.stop()
        self.transport.cleanup()


@pytest.fixture
def fleet(tmp_path: Path, own_broker: RabbitMQ, placement: RealPlacement) -> Iterator[Fleet]:
    with MariaDB() as database:
        fleet = Fleet(tmp_path, database, own_broker, placement)
        yield fleet
        fleet.stop()


def test_a_restore_enables_no_host_and_disables_those_that_were_disabled(fleet: Fleet) -> None:
    for agent in fleet.agents.values():
        agent.start()
    for name in NAMES:
        fleet.agents[name].until_reported()
        eventually(lambda name=name: fleet.is_enabled(name))

    def switch(host: str, **change: Any) -> None:
        fleet.client.set_status(StatusChange(host, **change))

    switch("host2", disabled=True, reason="in the backup")
    eventually(lambda: fleet.is_disabled("host2"))
    fleet.run("dump")

    switch("host1", disabled=True, reason="after the backup")
    switch("host2", disabled=False)
    switch("host3", disabled=True, reason="after the backup, then down")
    eventually(lambda: fleet.is_disabled("host1") and fleet.is_disabled("host3"))
    eventually(lambda: fleet.is_enabled("host2"))
    fleet.agents["host3"].stop()

    # Lost, without a backup.
    fleet.registry.stop()
    fleet.database.sql("DROP DATABASE registry")
    fleet.database.create("registry")
    fleet.registry.start()
    eventually(lambda: fleet.record("host1") and fleet.record("host2"))
    eventually(lambda: fleet.is_disabled("host1"))
    eventually(lambda: fleet.is_enabled("host2"))
    assert fleet.record("host3") is None

    fleet.run("restore")
    eventually(lambda: fleet.is_disabled("host1"))
    eventually(lambda: fleet.is_disabled("host2"))
    record = fleet.record("host3")
    assert record is not None and not record.disabled, "as in the backup, while its agent is down"
    fleet.agents["host3"].start()
    eventually(lambda: fleet.is_disabled("host3"))
    switch("host2", disabled=False)
    eventually(lambda: fleet.is_enabled("host2"))
