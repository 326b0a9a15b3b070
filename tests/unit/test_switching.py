"""The parts that switch this host, put together as the agent does, with a registry and alone."""

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent import config
from agent.bus import messaging
from agent.bus.signing import RECORD_VERSION, SIGNED_BY, Operator, host_key
from agent.errors import Changed, NotPermitted, RegistryUnavailable
from agent.loop import Loop
from agent.opts import Settings
from agent.period.rules import Rules
from agent.registry.checks import HeartbeatMessage, StatusChange
from agent.reporting.condition import BROKER, HYPERVISOR, REGISTRY
from agent.reporting.status import NO_RPC, SERVING, WAITING, ServiceFacts
from agent.reporting.systemd import Systemd
from agent.switching import switching as module
from agent.switching.heartbeat import agent_address
from agent.switching.host_status import (
    VERSION_5,
    VERSION_6,
    change_saved_status,
)
from agent.switching.machine import Event
from agent.switching.switching import FACTS_EVERY, Switching, switching
from compute_registry.store import SqlRegistry
from tests.registries import registry_at
from tests.servers import records

HOST, ROOT = "host1", "c0ffee00-0000-4000-8000-000000000001"


@dataclass
class OneRoot:
    """Nodes with one root and no drivers."""

    rules: Rules
    drivers: tuple[object, ...] = ()
    lost: dict[str, str] = field(default_factory=dict)

    def roots(self) -> list[str]:
        return [ROOT]

    def switch(self, _: float, **how: bool) -> list[object]:
        return []


@dataclass
class Server:
    """An RPC server that records what it was told."""

    connected: bool = True
    idle: bool = True
    calls: list[str] = field(default_factory=list)
    serving: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> bool:
        self.calls.append("stop")
        return self.idle

    def problem(self) -> str:
        return "" if self.connected else "no broker"


def settings(directory: Path, *, attached: bool = False, **registry: Any) -> Settings:
    used = config.settings(config.load_config(["--state-path", str(directory)]))
    return replace(
        used,
        host=HOST,
        interval=30.0,
        rules=Rules(owner_traits=(), attached=attached),
        registry=replace(used.registry, **{"access": "rpc", "report_interval": 12.0, **registry}),
    )


def parts(used: Settings, transport: object = None) -> Switching:
    nodes: Any = OneRoot(used.rules)
    made = switching(used, nodes, Systemd(), Loop(), transport)
    made.heartbeat.run = lambda *_: made.heartbeat.beat()
    return made


def a_transport() -> object:
    return messaging.transport("kombu+memory://")


def in_fleet(used: Settings) -> Switching:
    """The same, with a registry in the state directory."""
    made = parts(used)
    made.heartbeat.connect = lambda: registry_at(used.state_path)
    return made


def alone(directory: Path) -> Switching:
    return parts(settings(directory, access="direct"))


@pytest.mark.parametrize(("attached", "reason"), [(False, "new disks"), (True, None)])
def test_a_start_sends_a_heartbeat_with_all_that_the_registry_needs(
    tmp_path: Path, attached: bool, reason: str | None
) -> None:
    parts(settings(tmp_path)).status.handle(Event.DISABLE, reason="new disks")
    made = in_fleet(settings(tmp_path, attached=attached))
    made.start()
    record = registry_at(tmp_path).get_service(HOST)
    assert (record.roots, record.attached) == ((ROOT,), attached)
    assert record.address == agent_address(tmp_path)
    assert (record.rpc_version, record.disabled_reason) == (None, reason)
    (tmp_path / "service.json").unlink()
    again = in_fleet(settings(tmp_path))
    again.read_once()
    assert again.facts() == ServiceFacts(reason and True, reason, rpc=NO_RPC, roots=(ROOT,))


def test_a_decision_wakes_the_heartbeat_and_a_period_the_hypervisor(tmp_path: Path) -> None:
    made = parts(settings(tmp_path))
    made.status.handle(Event.ENABLE)
    assert made.heartbeat.wake.is_set()
    made.hypervisor.steady = 0.0
    report = made.hypervisor.listener("one")
    report("gone")
    report(None)
    made.status.loop.run_jobs()
    made.status.period_done([], None)
    assert made.status.disabled is False


def test_a_start_does_not_wait_for_ever_for_the_registry(tmp_path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(module, "STATUS_WITHIN", 0.0)
    made = parts(settings(tmp_path))
    made.heartbeat.run = lambda *_: None
    made.start()
    assert "Starting without an answer of the registry" in caplog.text


def test_without_a_registry_a_saved_command_is_followed_within_a_second(tmp_path: Path) -> None:
    made, now, written = alone(tmp_path), [0.0], []
    made.status.loop.clock = lambda: now[0]
    made.status.write = lambda disabled, _: written.append(disabled) or ()
    made.start()
    made.status.handle(Event.FOUND_ENABLED)
    for disabled in (True, False):
        change_saved_status(tmp_path, StatusChange(HOST, disabled=disabled))
        for _ in range(2):
            now[0] += FACTS_EVERY
            made.status.loop.run_jobs()
            made.status.loop.run_jobs()
        assert made.facts().disabled is disabled
    assert written == [True, False]


def test_without_registry_and_bus_there_are_no_heartbeats_server_and_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = alone(tmp_path)
    made.heartbeat.connect = lambda: pytest.fail("a heartbeat")
    made.start()
    made.follow(settings(tmp_path, access="direct"))
    made.read_once()
    made.status.handle(Event.DISABLE)
    assert made.status.in_step(0.0), "a call is answered at once"
    made.stop()
    assert "transport_url is not set" in caplog.text


def test_a_name_that_seems_taken_stops_nothing_but_the_answers_to_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a quick reboot the registry still has the heartbeats of the life before.

    The host is not called degraded for it, and is reported before it is called again.
    """
    fleet = registry_at(tmp_path)
    fleet.heartbeat(HeartbeatMessage(HOST, "the boot before", None, ()))
    made, server, now = parts(settings(tmp_path)), Server(connected=False), [0.0]
    monkeypatch.setattr(Loop, "refresh", lambda _: server.calls.append("period"))
    made.server = server  # type: ignore[assignment]
    made.heartbeat.connect = lambda: fleet
    made.heartbeat.degraded = lambda: told_of(made, BROKER)
    made.status.loop.clock = lambda: now[0]
    made.start()
    made.status.loop.run_jobs()
    assert server.calls == []
    assert "the boot before" in str(told_of(made, REGISTRY))
    records.later(fleet.database, 61)
    made.heartbeat.beat()
    assert fleet.get_service(HOST).degraded == ""
    for calls in (["period"], ["period", "start"], ["period", "start"]):
        now[0] += FACTS_EVERY
        made.status.loop.run_jobs()
        assert (server.calls, told_of(made, REGISTRY)) == (calls, [])
    assert told_of(made, BROKER) == ["no broker"]
    assert fleet.get_service(HOST).address == agent_address(tmp_path)


def told_of(made: Switching, kind: str) -> list[str]:
    return [it.text for it in made.facts().conditions if it.kind == kind]


@pytest.mark.parametrize("attached", [False, True])
def test_the_server_runs_unless_nova_compute_answers_for_the_host(
    tmp_path: Path, attached: bool, caplog: pytest.LogCaptureFixture
) -> None:
    made = in_fleet(settings(tmp_path, attached=attached))
    server = None if attached else Server()
    made.server = server  # type: ignore[assignment]
    made.start()
    assert ("Attach mode" in caplog.text) is attached
    assert "answer of the registry" not in caplog.text
    made.stop()
    made.heartbeat.run = lambda work, *_: work()
    made.heartbeat.start()  # ends at once
    if server is None:
        return
    assert server.calls == ["start", "stop"] and "still running" not in caplog.text
    server.idle = False
    made.stop()
    assert "Stopping while calls over RPC are still running" in caplog.text


def test_the_facts_are_those_of_all_parts(tmp_path: Path) -> None:
    made, server = parts(settings(tmp_path, attached=True)), Server()
    made.server = server  # type: ignore[assignment]
    assert made.facts().rpc == NO_RPC, "it was not started"
    made.watch()
    made.status.handle(Event.DISABLE, reason="new disks")
    made.hypervisor.lost = {"one": "gone", "two": "hangs"}
    made.status.registry_lost = "no answer"
    facts = made.facts()
    full = ServiceFacts(True, "new disks", SERVING, True, (ROOT,), conditions=facts.conditions)
    assert facts == full
    told = {it.kind: it.text for it in facts.conditions}
    assert told == {HYPERVISOR: "gone; hangs", REGISTRY: "no answer"}
    made.heartbeat.name_conflict, server.connected = "taken", False
    assert made.facts().rpc == WAITING
    assert (told_of(made, REGISTRY), told_of(made, BROKER)) == (["taken"], ["no broker"])
    assert all(it.next_step for it in made.facts().conditions)


def test_the_watchdog_is_fed_each_second_between_periods(tmp_path: Path) -> None:
    made, now, fed = parts(settings(tmp_path)), [0.0], list[float]()
    made.service.systemd = SimpleNamespace(feed=lambda: fed.append(now[0]))  # type: ignore[assignment]
    made.status.loop.clock = lambda: now[0]
    made.start()
    for now[0] in (0.0, FACTS_EVERY, 2 * FACTS_EVERY):
        made.status.loop.run_jobs()
    assert fed == [0.0, FACTS_EVERY, 2 * FACTS_EVERY]


def test_changed_facts_are_told_once_between_periods(tmp_path: Path) -> None:
    made, told = parts(settings(tmp_path)), []
    made.on_facts = lambda: told.append(told_of(made, REGISTRY))
    made.watch()
    made.watch()
    made.status.registry_lost = "no answer"
    made.watch()
    assert told == [[], ["no answer"]]


def test_changed_options_are_followed(tmp_path: Path) -> None:
    made = in_fleet(settings(tmp_path))
    made.start()
    assert made.heartbeat.every == 12.0
    (tmp_path / "other").mkdir()
    made.connect = lambda _: registry_at(tmp_path / "other")
    made.follow(settings(tmp_path, report_interval=20.0))
    assert made.heartbeat.every == 20.0
    made.heartbeat.beat()
    assert registry_at(tmp_path / "other").get_service(HOST).roots == (ROOT,)


def test_a_registry_over_the_bus_gets_the_bus_and_signed_calls(tmp_path: Path) -> None:
    used, transport = settings(tmp_path, access="rpc", host_key="secret"), a_transport()
    with pytest.raises(RegistryUnavailable, match="transport_url"):
        parts(used).heartbeat.connect()
    made = parts(replace(used, rules=Rules(owner_traits=(), attached=True)), transport)
    assert made.server is None, "beside nova-compute no call is answered"
    registry: Any = made.heartbeat.connect()
    assert registry.rpc.transport is transport
    assert registry.rpc.sign("compute-registry", "heartbeat", {}, {})[SIGNED_BY] == HOST


@pytest.mark.parametrize("key", ["", host_key("master", HOST)])
def test_calls_to_this_host_are_answered_once_the_server_serves(tmp_path: Path, key: str) -> None:
    transport = a_transport()
    made = parts(replace(settings(tmp_path, host_key=key), exchange="cloud"), transport)
    server, beat = made.server, made.heartbeat
    assert server is not None and server.transport is transport
    target = server.target
    assert (target.exchange, target.topic, target.server) == ("cloud", "compute", HOST)
    assert [each.target.version for each in server.dispatcher.endpoints] == [VERSION_6, VERSION_5]
    assert beat.rpc_version() is None
    server.serving.set()
    server.on_serving()
    assert beat.rpc_version() == VERSION_6 and beat.wake.is_set()
    if key:
        assert server.permit is not None
        signed = Operator(("master",)).sign_to(HOST, "set_host_enabled", {}, {RECORD_VERSION: 1})
        server.permit("set_host_enabled", {}, signed)
        with pytest.raises(NotPermitted, match=f"not signed for {HOST}"):
            server.permit("set_host_enabled", {}, {})
    else:
        assert server.permit is None
    made.status.registry_lost = "no answer"  # so that nobody waits for it
    made.status.loop.stop()
    for endpoint, enabled in zip(server.dispatcher.endpoints, (False, True), strict=True):
        endpoint.set_host_enabled({}, enabled)
        assert made.status.disabled is not enabled


def test_a_reload_takes_another_key_of_the_host_and_none(tmp_path: Path) -> None:
    made = parts(settings(tmp_path, host_key=host_key("old", HOST)), a_transport())
    assert made.server is not None
    made.follow(settings(tmp_path, host_key=host_key("new", HOST)))
    assert made.server.permit is not None
    signed = Operator(("new",)).sign_to(HOST, "set_host_enabled", {}, {RECORD_VERSION: 1})
    made.server.permit("set_host_enabled", {}, signed)
    made.follow(settings(tmp_path))
    assert made.server.permit is None


def test_retries_are_spread_over_a_time_by_the_number_of_hosts(tmp_path: Path) -> None:
    fleet = settings(tmp_path)
    made = parts(fleet)
    unknown = made.status.spread()
    made.heartbeat.hosts = 5000
    assert made.status.spread() == fleet.spread(5000) > unknown == fleet.spread(None) > 0


def test_a_registry_whose_record_changes_at_each_try_has_answered(tmp_path, monkeypatch) -> None:
    def changed(*_: object, **__: object) -> None:
        raise Changed("by another caller")

    made = in_fleet(settings(tmp_path))
    made.status.handle(Event.DISABLE, reason="new disks")
    monkeypatch.setattr(SqlRegistry, "set_status", changed)
    made.heartbeat.beat()
    assert made.heartbeat.answered.is_set() and made.status.registry_lost is None
    assert made.status.disabled is True
