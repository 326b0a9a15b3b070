"""What compute-registry counts, and what it says of its health."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from werkzeug.test import Client

from agent import version
from agent.bus.errors import FAILED, OK, REFUSED
from agent.metrics.opts import MonitoringSettings
from agent.registry import wire
from agent.registry.checks import Report, StatusChange
from agent.registry.control import Control
from agent.registry.errors import HostTaken, RegistryUnavailable
from compute_registry.database.fleet_database import FleetDatabase
from compute_registry.metrics import RegistryMonitoring
from compute_registry.page.trees import PlacementReads
from compute_registry.web import registry_app, route_of
from tests.registries import watched_registry
from tests.servers import records
from tests.unit.registry.fakes import EmptyDatabase, OneRecord, record

UUID = record().uuid


def value(collected: CollectorRegistry, name: str, **labels: str) -> float | None:
    return collected.get_sample_value(f"compute_registry_{name}", labels)


@pytest.fixture
def watched() -> RegistryMonitoring:
    return RegistryMonitoring(MonitoringSettings())


def test_hosts_are_counted_by_state_and_none_where_nobody_knows(
    watched: RegistryMonitoring, tmp_path
) -> None:
    database = FleetDatabase.from_url(f"sqlite:///{tmp_path}/registry.sqlite")
    database.upgrade()
    store = watched_registry(database, watched.numbers.count_transaction)
    watched.observe(store, lambda: "")
    for host in ("a", "b", "c"):
        store.heartbeat(Report(host, host, None, ()))
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
    records.write(database, "c", disabled_at=1e300)
    unreadable = {"state": "down", "status": "unreadable"}
    assert value(watched.collected, "hosts", **unreadable) == 1
    assert value(watched.collected, "database_transaction_seconds_count") > 5
    assert value(watched.collected, "database_failures_total") == 0
    database.dispose()


def test_calls_and_requests_are_timed(watched: RegistryMonitoring) -> None:
    watched.numbers.count_call("heartbeat", OK, 0.5)
    assert value(watched.collected, "rpc_call_seconds_sum", method="heartbeat") == 0.5
    watched.numbers.count_request("GET", "/os-services", "200", 0.25)
    about = {"method": "GET", "route": "/os-services"}
    assert value(watched.collected, "http_request_seconds_sum", **about) == 0.25


def test_a_lost_database_is_not_ready_and_counted_and_told_as_it_is(
    watched: RegistryMonitoring,
) -> None:
    assert watched.readyz()[0] == "503 Service Unavailable"
    database = EmptyDatabase()
    watched.observe(watched_registry(database, watched.numbers.count_transaction), lambda: "")
    assert watched.readyz() == ("200 OK", ["database: ok", "broker: ok"])
    assert value(watched.collected, "build_info", version=version()) == 1
    database.away = "the database is away"
    assert watched.readyz()[1] == ["database: the database is away", "broker: ok"]
    assert watched.healthz()[0] == "200 OK"
    assert value(watched.collected, "check_ok", check="database") == 0
    assert value(watched.collected, "hosts", state="up", status="enabled") is None
    assert value(watched.collected, "database_failures_total") > 0
    watched.observe(watched_registry(EmptyDatabase()), lambda: "it is lost")
    assert watched.readyz() == ("503 Service Unavailable", ["database: ok", "broker: it is lost"])


def test_an_answer_that_stands_for_an_error_is_counted_as_one() -> None:
    assert wire.outcome({"value": None}) == OK
    assert wire.outcome(wire.failure(HostTaken("x"))) == REFUSED
    assert wire.outcome(wire.failure(RegistryUnavailable("x"))) == FAILED


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/", "/"),
        ("/v2.1/", "/v2.1"),
        ("/v2.1/os-services", "/os-services"),
        (f"/v2.1/os-services/{UUID}", "/os-services/{id}"),
        (f"/v2/{UUID}/os-services", "/os-services"),
        ("/fleet", "/fleet"),
        ("/fleet/host1", "/fleet/{host}"),
        ("/v2.1/os-made-up", None),
        ("/v2.1/servers", None),
    ],
)
def test_a_path_is_counted_by_its_route(path: str, route: str | None) -> None:
    app = registry_app(Control(OneRecord(record(), []), None), placement=PlacementReads(None))
    assert route_of(app.url_map, path) == route


def test_requests_are_counted_with_few_labels_whatever_is_sent(watched: RegistryMonitoring) -> None:
    def fails(environ: Any, start: Any) -> Any:
        raise OSError

    def answers(environ: Any, start: Any) -> list[bytes]:
        start("404 Not Found", [])
        return []

    app = registry_app(Control(OneRecord(record(), []), None))
    for application in (answers, fails):
        app.wsgi_app = application
        watched.measure(app)
        client = Client(app)
        if application is answers:
            client.open("/evil", method="EVIL")
        else:
            with pytest.raises(OSError):
                client.get("/")
    requests = {"method": "other", "route": "other", "code": "404"}
    assert value(watched.collected, "http_requests_total", **requests) == 1
    requests = {"method": "GET", "route": "/", "code": "500"}
    assert value(watched.collected, "http_requests_total", **requests) == 1
