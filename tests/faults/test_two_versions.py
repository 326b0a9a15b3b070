"""compute-registry in two versions at once, and then its agent: upgraded, and taken back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.registry.checks import StatusChange
from agent.registry.client import RegistryClient
from agent.registry.errors import RegistryError
from tests.faults.site import Site
from tests.integration.switched import eventually, has_trait
from tests.servers import version_before
from tests.servers.databases import MariaDB
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess

pytestmark = pytest.mark.faults

LONG = 180.0
"""Seconds, for a call that nobody answers while a registry comes or goes."""
WHERE_FROM = """
import agent, importlib.metadata
from agent.opts import list_opts
[driver] = importlib.metadata.entry_points(group="compute_agent.drivers", name="fake")
print(agent.__file__, list_opts.__code__.co_filename, driver.load().__init__.__code__.co_filename)
"""
Environment = Mapping[str, str]


@dataclass
class Fleet:
    """One host, and those who keep its record."""

    site: Site
    client: RegistryClient
    start: Callable[[Environment], RegistryProcess]
    versions: list[int] = field(default_factory=list)

    def switch(self, *, disabled: bool) -> None:
        """The record only: a heartbeat brings it to the agent."""
        eventually(lambda: self._written(disabled), LONG)
        self.site.agent.until(
            lambda: has_trait(self.site.placement, self.site.root) is disabled, LONG
        )

    def _written(self, disabled: bool) -> bool:
        reason = "a test" if disabled else None
        try:
            record = self.client.set_status(
                StatusChange("testhost", disabled=disabled, reason=reason)
            )
        except RegistryError:
            return False
        self.versions.append(record.version)
        return True

    def _read(self) -> bool:
        try:
            return self.client.get_service("testhost").version == self.versions[-1]
        except RegistryError:
            return False

    def is_served_by(self, *registries: RegistryProcess) -> None:
        """Each of them writes records, and the agent obeys; the broker says whose turn it is."""
        served = [self._switched_in(each) for each in registries]
        for _ in range(20):
            self.switch(disabled=not has_trait(self.site.placement, self.site.root))
            # The broker takes turns, and the next switch comes a heartbeat after this one.
            eventually(self._read, LONG)
            now = [self._switched_in(each) for each in registries]
            if all(after > before for after, before in zip(now, served, strict=True)):
                break
        else:
            pytest.fail(f"not all of them are asked: {served}, {now}")
        self.site.change()
        self.site.converges()

    @staticmethod
    def _switched_in(registry: RegistryProcess) -> int:
        return registry.log.count("testhost is ")


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    source = version_before.unpacked(tmp_path_factory.mktemp("before"))
    if isinstance(source, str):
        pytest.skip(source)
    environment = version_before.environment(source)
    found = subprocess.run(
        [sys.executable, "-c", WHERE_FROM],
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.count(str(source)) == 3, "the present one would run in its place"
    return environment


@pytest.fixture
def fleet(
    site: Site,
    broker: RabbitMQ,
    mariadb: MariaDB,
    tmp_path: Path,
    transport: Callable[[str], Any],
) -> Iterator[Fleet]:
    started: list[RegistryProcess] = []
    more = f"connection = {mariadb.create('registry')}\n"

    def start(environment: Environment) -> RegistryProcess:
        directory = tmp_path / f"registry{len(started)}"
        directory.mkdir()
        started.append(
            RegistryProcess(directory, transport_url=broker.url, more=more, environment=environment)
        )
        started[-1].start()
        return started[-1]

    yield Fleet(site, RegistryClient.over(transport(broker.url), timeout=5), start)
    site.agent.kill()
    for each in started:
        each.stop()


@pytest.mark.parametrize("upgrade", [True, False], ids=["upgrade", "downgrade"])
def test_both_serve_the_same_records_and_each_goes_on_alone(
    fleet: Fleet, broker: RabbitMQ, older: Environment, *, upgrade: bool
) -> None:
    before, after = (older, {}) if upgrade else ({}, older)
    first, site = fleet.start(before), fleet.site
    site.agent.environment = dict(before)
    site.begin(f"transport_url = {broker.url}\n[registry]\naccess = rpc\nreport_interval = 1\n")
    fleet.is_served_by(first)
    second = fleet.start(after)
    fleet.is_served_by(first, second)

    fleet.switch(disabled=True)
    first.stop()
    site.change()
    site.converges()
    assert has_trait(site.placement, site.root), "the record was forgotten"
    fleet.is_served_by(second)

    fleet.switch(disabled=True)  # registries first, hosts after them
    site.agent.stop()
    site.agent.environment = dict(after)
    site.change()
    site.agent.start()
    site.converges()
    assert has_trait(site.placement, site.root), "the record was forgotten"
    fleet.is_served_by(second)
    assert fleet.versions == sorted(set(fleet.versions)), "a decision that is not the latest"
