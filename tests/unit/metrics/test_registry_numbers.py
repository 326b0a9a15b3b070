"""What compute-registry counts, and what it says of its health."""

from pathlib import Path

from prometheus_client import CollectorRegistry

from agent import version
from agent.bus.incoming import FAILED, OK, REFUSED
from agent.errors import HostTaken, RegistryUnavailable
from agent.opts import MonitoringSettings
from agent.registry import wire
from agent.registry.checks import HeartbeatMessage, StatusChange
from compute_registry.database.fleet_database import FleetDatabase
from compute_registry.metrics import RegistryMonitoring
from compute_registry.store import SqlRegistry
from tests.registries import registry_at, watched_registry
from tests.unit.registry.fakes import EmptyDatabase


def value(collected: CollectorRegistry, name: str, **labels: str) -> float | None:
    return collected.get_sample_value(f"compute_registry_{name}", labels)


def watched_by(store: SqlRegistry, broker: str = "") -> RegistryMonitoring:
    return RegistryMonitoring(MonitoringSettings(), store, lambda: broker)


def test_hosts_are_counted_by_state_and_none_where_nobody_knows(tmp_path: Path) -> None:
    database = FleetDatabase.from_url(f"sqlite:///{tmp_path}/registry.sqlite")
    database.prepare()
    store = registry_at(database)
    watched = watched_by(store)
    for host in ("a", "b", "c"):
        store.heartbeat(HeartbeatMessage(host, host, None, ()))
    store.set_status(StatusChange("a", disabled=True))
    store.set_forced_down("b", forced_down=True)
    hosts = {
        (state, status): value(watched.collected, "hosts", state=state, status=status)
        for state in ("up", "down")
        for status in ("enabled", "disabled")
    }
    assert hosts == {
        ("up", "enabled"): 1,
        ("up", "disabled"): 1,
        ("down", "enabled"): 1,
        ("down", "disabled"): 0,
    }
    assert value(watched.collected, "database_transaction_seconds_count") > 5
    assert value(watched.collected, "database_failures_total") == 0
    database.dispose()


def test_calls_are_timed() -> None:
    watched = watched_by(watched_registry(EmptyDatabase()))
    watched.count_call("heartbeat", OK, 0.5)
    assert value(watched.collected, "rpc_call_seconds_sum", method="heartbeat") == 0.5


def test_a_lost_database_is_not_ready_and_counted_and_told_as_it_is() -> None:
    database = EmptyDatabase()
    watched = watched_by(watched_registry(database))
    assert watched.readyz() == ("200 OK", ["database: ok", "broker: ok"])
    assert value(watched.collected, "build_info", version=version()) == 1
    database.away = "the database is away"
    assert watched.readyz()[1] == ["database: the database is away", "broker: ok"]
    assert watched.healthz()[0] == "200 OK"
    assert value(watched.collected, "check_ok", check="database") == 0
    assert value(watched.collected, "hosts", state="up", status="enabled") is None
    assert value(watched.collected, "database_failures_total") > 0
    watched = watched_by(watched_registry(EmptyDatabase()), "it is lost")
    assert watched.readyz() == ("503 Service Unavailable", ["database: ok", "broker: it is lost"])


def test_an_answer_that_stands_for_an_error_is_counted_as_one() -> None:
    assert wire.outcome({"value": None}) == OK
    assert wire.outcome(wire.failure(HostTaken("x"))) == REFUSED
    assert wire.outcome(wire.failure(RegistryUnavailable("x"))) == FAILED
