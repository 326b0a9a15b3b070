"""Heartbeats that report nothing new: recorded together, answered only by a call where needed."""

from __future__ import annotations

import pytest

from agent.bus.errors import TransportUnavailable
from agent.registry.checks import StatusChange
from agent.registry.errors import UnknownHost
from compute_registry.endpoint import RegistryEndpoint
from compute_registry.heartbeats import Heartbeats
from tests.registries import MemoryDatabase, registry_at


class Agents:
    def __init__(self) -> None:
        self.called: list[tuple[str, bool, int]] = []
        self.fails: Exception | None = None

    def repeat_host_enabled(self, host: str, enabled: bool, record_version: int) -> None:
        self.called.append((host, enabled, record_version))
        if self.fails is not None:
            raise self.fails


class Site:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.database = MemoryDatabase(lambda: self.now)
        self.store, self.agents = registry_at(self.database), Agents()
        self.endpoint = RegistryEndpoint(self.store)
        self.heartbeats = Heartbeats(self.store, self.endpoint.received, self.agents, lambda: True)
        for host in ("host1", "host2"):
            self.endpoint.heartbeat({}, host=host, address=f"{host}'s", roots=[])

    def beat(self, *hosts: str) -> None:
        for host in hosts:
            assert self.endpoint.keep_alive({}, host, f"{host}'s", 1) == {"value": None}
        self.heartbeats.record()

    def up(self) -> list[str]:
        return [record.host for record in self.store.list_services() if record.is_up()]


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_host_whose_heartbeats_report_nothing_new_stays_up_and_is_not_called(site: Site) -> None:
    for _ in range(10):
        site.now += 10
        site.beat("host1")
    assert (site.up(), site.agents.called) == (["host1"], [])


def test_the_agent_of_a_record_that_it_has_not_seen_is_called_each_time(site: Site) -> None:
    version = site.store.set_status(StatusChange("host2", disabled=True)).version
    site.agents.fails = TransportUnavailable("no broker")
    site.beat("host1", "host2")
    site.agents.fails = None
    site.beat("host1", "host2")
    assert site.agents.called == [("host2", False, version)] * 2


def test_a_host_without_a_record_gets_none_before_a_heartbeat_that_is_answered(site: Site) -> None:
    site.beat("host3")
    with pytest.raises(UnknownHost):
        site.store.get_service("host3")


def test_heartbeats_are_lost_while_the_database_is_away_and_the_next_ones_count(
    site: Site,
) -> None:
    site.database.away = True
    site.now += 61
    site.beat("host1", "host2")
    site.database.away = False
    assert site.up() == []
    site.beat("host2")
    assert site.up() == ["host2"]


@pytest.mark.parametrize("wrong", [{"host": ""}, {"address": ["a"]}, {"version": "1"}])
def test_a_wrong_argument_is_refused_and_spoils_no_other_heartbeat(
    site: Site, wrong: dict[str, object]
) -> None:
    sent = {"host": "host1", "address": "host1's", "version": 1, **wrong}
    assert site.endpoint.keep_alive({}, **sent)["error"]["kind"] == "InputRefused"
    site.now += 61
    site.beat("host2")
    assert site.up() == ["host2"]
