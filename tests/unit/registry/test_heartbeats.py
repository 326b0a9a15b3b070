"""Heartbeats that report nothing new: recorded together, answered only by a call where needed."""

import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agent.bus.caller import Caller, reason_of
from agent.errors import TransportUnavailable, UnknownHost
from agent.loop import in_thread
from agent.registry.checks import StatusChange
from agent.registry.record import ServiceRecord
from compute_registry import service, web
from compute_registry.endpoint import RegistryEndpoint
from compute_registry.heartbeats import Heartbeats
from compute_registry.store import AT_ONCE, SqlRegistry
from tests.registries import MemoryDatabase, registry_at


class Agents:
    def __init__(self) -> None:
        self.called: list[tuple[str, bool, int]] = []
        self.fails: Exception | None = None

    def set_host_enabled(
        self, host: str, enabled: bool, *, record_version: int, about: object, answered: bool
    ) -> None:
        assert not answered
        assert str(Caller.from_context(about)).startswith("by compute-registry from ")
        assert reason_of(about) == f"a reminder of version {record_version} of its record"
        self.called.append((host, enabled, record_version))
        if self.fails is not None:
            raise self.fails


class Site:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.database = MemoryDatabase(lambda: self.now)
        self.store, self.agents = registry_at(self.database), Agents()
        self.endpoint = RegistryEndpoint(self.store)
        self.heartbeats = Heartbeats(self.store, self.endpoint.received, self.agents, lambda: "")
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


def test_a_host_with_nothing_new_in_its_heartbeats_stays_up_uncalled(site: Site) -> None:
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


def test_a_hundred_heartbeats_take_three_statements(site: Site) -> None:
    sent: list[str] = []
    engine = site.database.engine
    sa.event.listen(engine, "before_cursor_execute", lambda *args: sent.append(args[2]))
    site.beat(*(f"host{number}" for number in range(AT_ONCE)))
    assert [text.split()[0] for text in sent] == ["UPDATE", "SELECT", "UPDATE"]
    sent.clear()
    site.endpoint.heartbeat({}, host="host1", address="host1's", roots=[])
    assert [text.split()[0] for text in sent] == ["UPDATE", "SELECT"]


def test_a_host_gets_its_record_by_an_answered_heartbeat_only(site: Site) -> None:
    site.beat("host3")
    with pytest.raises(UnknownHost):
        site.store.get_service("host3")


def test_heartbeats_are_lost_while_the_database_is_away_and_count_later(site: Site) -> None:
    site.database.away = True
    site.now += 61
    site.beat("host1", "host2")
    site.database.away = False
    assert site.up() == []
    site.beat("host2")
    assert site.up() == ["host2"]


class Slow:
    """A store whose first heartbeat waits for ``goes_on``."""

    def __init__(self, store: SqlRegistry) -> None:
        self.store, self.began, self.goes_on = store, threading.Event(), threading.Event()

    def heartbeat(self, *reported: Any) -> ServiceRecord:
        if not self.began.is_set():
            self.began.set()
            assert self.goes_on.wait(60)
        return self.store.heartbeat(*reported)


def test_a_host_has_one_heartbeat_at_work_and_delays_no_other_host(tmp_path: Path) -> None:
    slow = Slow(registry_at(tmp_path))
    endpoint = RegistryEndpoint(slow)  # type: ignore[arg-type]

    def beat(host: str) -> dict[str, Any]:
        return endpoint.heartbeat(
            {}, host=host, address=f"{host}'s", rpc_version="6.5", roots=[]
        ).get("error", {})

    first = in_thread(lambda: beat("host1"), "first")
    assert slow.began.wait(60)
    kind, text = "RegistryUnavailable", "an earlier heartbeat of host1 has no answer yet"
    assert beat("host1") == {"kind": kind, "text": text}
    assert beat("host2") == {}
    slow.goes_on.set()
    assert (first.result(60), beat("host1")) == ({}, {})
    slow.store.database.dispose()


@pytest.mark.parametrize("host", [[], {"a": 1}, None, "", 5])
def test_a_heartbeat_of_no_host_is_refused(site: Site, host: object) -> None:
    answer = site.endpoint.heartbeat({}, host=host, address="a", rpc_version="6.5", roots=[])
    assert answer["error"]["kind"] == "InputRefused"


def test_the_log_of_an_unexpected_error_leaves_repeated_lines_out(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.store.set_status(StatusChange("host2", disabled=True))
    site.agents.fails = TypeError("Object of type bytes is not JSON serializable")
    site.beat("host2")
    (failed,) = [each for each in caplog.records if each.exc_info]
    assert failed.name in service.REPEATING and web.LOG.name in service.REPEATING


@pytest.mark.parametrize("wrong", [{"host": ""}, {"address": ["a"]}, {"version": "1"}])
def test_a_wrong_argument_is_refused_and_spoils_no_other_heartbeat(
    site: Site, wrong: dict[str, object]
) -> None:
    sent = {"host": "host1", "address": "host1's", "version": 1, **wrong}
    assert site.endpoint.keep_alive({}, **sent)["error"]["kind"] == "InputRefused"
    site.now += 61
    site.beat("host2")
    assert site.up() == ["host2"]
