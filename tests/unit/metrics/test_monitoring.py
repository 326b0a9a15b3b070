"""What is counted, what is served, and what a probe is told; without a Placement."""

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agent import config, retrying, version
from agent.loop import Loop
from agent.metrics import exposition
from agent.metrics.monitoring import Facts, Measured, Monitoring, Numbers, route_of
from agent.opts import MonitoringSettings
from agent.reporting.condition import BROKER, PART, Condition, Severity
from agent.reporting.reports import Occasion, Report
from agent.reporting.status import AgentStatus, NodeStatus, ServiceFacts
from reportclient.errors import Conflict, Unreachable
from reportclient.plan import SetTraits
from tests.agents import Agent, Small, devices, inventory
from tests.reports import report_with
from tests.servers.ports import free_port
from tests.stranger import FakePlacement
from tests.waiting import eventually

RULES = Path(__file__).parents[3] / "etc" / "monitoring" / "compute-agent.rules.yml"
UUID = "c0ffee00-0000-4000-8000-000000000001"


def value(numbers: Numbers, name: str, **labels: str) -> float | None:
    return numbers.registry.get_sample_value(f"compute_agent_{name}", labels)


# -- counting


@pytest.mark.parametrize(
    ("path", "route"),
    [
        (f"/resource_providers?in_tree={UUID}", "/resource_providers"),
        (f"/resource_providers/{UUID}", "/resource_providers/{uuid}"),
        (f"/resource_providers/{UUID}/inventories", "/resource_providers/{uuid}/inventories"),
        (
            f"/resource_providers/{UUID}/inventories/VCPU",
            "/resource_providers/{uuid}/inventories/{name}",
        ),
        (f"/allocations/{UUID}", "/allocations/{uuid}"),
        ("/traits?name=in:A,B", "/traits"),
        ("/traits/CUSTOM_A", "/traits/{name}"),
        ("/reshaper", "/reshaper"),
    ],
)
def test_a_route_has_no_names_in_it(path: str, route: str) -> None:
    assert route_of(path) == route


def test_calls_are_counted_by_method_route_and_outcome() -> None:
    numbers, errors = Numbers(), [Conflict("race"), Unreachable("away"), RuntimeError("bug")]

    class Api:
        def request(self, *_: Any, **__: Any) -> dict[str, Any]:
            if errors:
                raise errors.pop(0)
            return {"traits": []}

    api = Measured(Api(), numbers)
    for kind in (Conflict, Unreachable, RuntimeError):
        with pytest.raises(kind):
            api.request("PUT", f"/resource_providers/{UUID}/traits", json={})
    assert api.request("PUT", f"/resource_providers/{UUID}/traits", json={}) == {"traits": []}
    said = {"method": "PUT", "route": "/resource_providers/{uuid}/traits"}
    for outcome in ("conflict", "unreachable", "error", "ok"):
        assert value(numbers, "placement_requests_total", **said, outcome=outcome) == 1
    assert value(numbers, "placement_request_seconds_count", **said) == 4


def test_a_period_and_a_switch_are_counted_each_once() -> None:
    numbers = Numbers()
    refused = {UUID: Conflict("in use")}
    traits = SetTraits(UUID, frozenset())
    ill = {"libvirt pools": "no answer"}
    done = (traits,)
    numbers([report_with("a", seconds=2.0, tries=3, done=done, failed=refused, ill=ill)])
    switch = Occasion.SWITCH
    numbers([report_with("a", occasion=switch, seconds=0.5, failed=refused, ill=ill)])
    assert value(numbers, "period_seconds_sum", occasion="period") == 2.0
    assert value(numbers, "period_seconds_sum", occasion="switch") == 0.5
    assert value(numbers, "replans_total") == 2
    assert value(numbers, "operations_total", operation="set_traits") == 1
    assert value(numbers, "operations_refused_total") == 1  # it is the same one still
    assert value(numbers, "source_failures_total", source="libvirt pools") == 1
    numbers([Report("a")])
    numbers([report_with("a", failed=refused)])
    assert value(numbers, "operations_refused_total") == 2  # asked for again, refused again


def test_two_agents_with_one_identity_raise_the_number_of_their_alert() -> None:
    placement, numbers = FakePlacement(), Numbers()
    one, other = (Agent(placement, Small(inventory(total))) for total in (4, 8))
    other.drivers[0].nodes = ["its-copy"]
    for _ in range(6):
        numbers([one.period()])
        other.period()
    alert = re.search(r'failures_total\{source=~"([^"]*)"', RULES.read_text())
    assert alert is not None
    assert sum(value(numbers, "source_failures_total", source=s) or 0 for s in alert[1].split("|"))
    assert value(numbers, "replans_total") == 0


def test_heartbeats_and_calls_over_rpc_are_counted() -> None:
    numbers = Numbers(clock=lambda: 7.0)
    numbers.heartbeat_done(0.1, "away")
    assert value(numbers, "last_heartbeat_timestamp_seconds") == 0
    numbers.heartbeat_done(0.1, None)
    assert value(numbers, "last_heartbeat_timestamp_seconds") == 7.0
    for outcome in ("ok", "failed"):
        assert value(numbers, "heartbeats_total", outcome=outcome) == 1
    numbers.rpc_answered("set_host_enabled", "refused", 0.1)
    said = {"method": "set_host_enabled", "outcome": "refused"}
    assert value(numbers, "rpc_calls_total", **said) == 1
    assert value(numbers, "rpc_call_seconds_sum") == 0.1
    assert value(numbers, "heartbeat_seconds_sum") == pytest.approx(0.2)


def test_calls_of_a_driver_are_counted_and_those_that_failed() -> None:
    numbers = Numbers()
    called = {"driver": "fake", "method": "update_provider_tree"}
    for failed in (False, True):
        numbers.driver_called(**called, seconds=2.0, failed=failed)
    assert value(numbers, "driver_call_seconds_sum", **called) == 4.0
    assert value(numbers, "driver_call_failures_total", **called) == 1


# -- what is read when somebody asks


def facts_of(status: AgentStatus | None) -> Numbers:
    """Of an agent with one root and two providers, that has just verified them."""
    placement = FakePlacement()
    agent = Agent(placement, Small(devices("host1_dev1"))).settle()
    numbers, loop = Numbers(), Loop()
    loop.refresh()
    numbers.registry.register(Facts(lambda: status, agent.nodes, loop))
    return numbers


def test_what_the_status_says_is_a_number_for_each_node() -> None:
    draining = Condition("in use", "wait", "card", Severity.INFO)
    ill = Condition("ECC errors", "repair it", "card", Severity.DEGRADED, PART)
    node = NodeStatus(
        "host1",
        ok=False,
        last_ok=50.0,
        took={"libvirt pools": 0.25},
        conditions=(Condition("bad", "act"), draining, draining, *[ill] * 3),
        reshape_pending=("libvirt",),
    )
    broker = Condition("waiting", "wait", "broker", kind=BROKER)
    service = ServiceFacts(disabled=True, reason="ticket 4711", conditions=(broker,))
    numbers = facts_of(AgentStatus("host1", 1, None, 100.0, 60.0, (node,), "1.2", service))
    assert value(numbers, "node_ok", node="host1") == 0
    assert value(numbers, "last_success_timestamp_seconds", node="host1") == 50.0
    assert value(numbers, "conditions", node="host1") == 1
    assert value(numbers, "draining", node="host1") == 2
    assert value(numbers, "degraded_parts", node="host1") == 3
    assert value(numbers, "reshapes_pending", node="host1") == 1
    assert value(numbers, "source_seconds", source="libvirt pools") == 0.25
    assert value(numbers, "build_info", version=version()) == 1
    assert value(numbers, "interval_seconds") == 60.0
    assert value(numbers, "disabled") == 1
    assert b"4711" not in generate_latest(numbers.registry)  # labels need few values
    assert value(numbers, "check_ok", check="placement") == 1
    assert value(numbers, "check_ok", check="broker") == 0


def test_what_the_agent_knows_is_a_number_before_any_status_is_written() -> None:
    numbers = facts_of(None)
    assert value(numbers, "providers", node="host1") == 2
    assert value(numbers, "last_verification_timestamp_seconds", node="host1") is not None
    assert value(numbers, "loop_queue_length") == 1
    assert value(numbers, "interval_seconds") is None and value(numbers, "disabled") is None


# -- probes


def status(*wrong: Condition) -> AgentStatus:
    node = NodeStatus("host1", ok=True)
    service = ServiceFacts(conditions=wrong)
    return AgentStatus("host1", 1, None, 100.0, 60.0, (node,), service=service)


def checks(**failed: str) -> str:
    names = ("placement", "drivers", "hypervisor", "registry", "broker", "disk", "nodes")
    return "".join(f"{name}: {failed.get(name, 'ok')}\n" for name in names)


AWAY = Condition("waiting for the message broker", "wait", "broker", kind=BROKER)


@pytest.mark.parametrize(
    ("said", "now", "healthy", "ready"),
    [
        (None, 100.0, (200, "ok\n"), (503, "no period has ended yet\n")),
        (status(), 101.0, (200, "ok\n"), (200, checks())),
        (
            status(AWAY),
            101.0,
            (200, "ok\n"),
            (503, checks(broker="waiting for the message broker")),
        ),
        (
            status(),
            400.0,
            (503, "stuck: no period has ended for 5 min\n"),
            (503, f"stuck: no period has ended for 5 min\n{checks()}"),
        ),
    ],
    ids=["starting", "well", "no broker", "stuck"],
)
def test_a_probe_is_told_the_truth(
    said: AgentStatus | None, now: float, healthy: tuple[int, str], ready: tuple[int, str]
) -> None:
    monitoring = Monitoring(MonitoringSettings(), clock=lambda: now, _status=lambda: said)
    for page, wanted in ((monitoring.healthz, healthy), (monitoring.readyz, ready)):
        status, lines = page()
        assert (int(status[:3]), "".join(f"{line}\n" for line in lines)) == wanted


# -- where they go


@pytest.fixture
def started() -> Iterator[Callable[[Monitoring], Monitoring]]:
    made: list[Monitoring] = []

    def start(monitoring: Monitoring) -> Monitoring:
        made.append(monitoring)
        monitoring.start()
        return monitoring

    yield start
    for monitoring in made:
        monitoring.stop()


def get(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as err:
        return err.code, err.read().decode()
    except OSError:
        return 0, ""


def test_a_loopback_port_serves_all_three(started: Any) -> None:
    port = free_port()
    started(Monitoring(MonitoringSettings(port=port)))
    there = f"http://127.0.0.1:{port}"
    eventually(lambda: get(f"{there}/healthz") == (200, "ok\n"))
    assert get(f"{there}/readyz")[0] == 503
    code, text = get(f"{there}/metrics")
    assert code == 200
    families = {one.name for one in text_string_to_metric_families(text)}
    assert "compute_agent_replans" in families
    assert not [name for name in families if name.endswith("_created")]
    assert get(f"{there}/")[0] == 404


def test_a_page_that_can_not_be_made_is_an_error(started: Any) -> None:
    class Broken(Monitoring):
        def readyz(self) -> Any:
            raise LookupError("a row that nobody can read")

    port = free_port()
    started(Broken(MonitoringSettings(port=port)))
    eventually(lambda: get(f"http://127.0.0.1:{port}/healthz") == (200, "ok\n"))
    code, text = get(f"http://127.0.0.1:{port}/readyz?full")
    assert (code, "a row" in text) == (500, False)
    assert get(f"http://127.0.0.1:{port}/healthz") == (200, "ok\n")


def test_the_textfile_is_written_by_one_thread_at_a_time(tmp_path: Path, monkeypatch: Any) -> None:
    inside: list[int] = []
    most: list[int] = []
    never = threading.Event()

    def replace(*_: Any, **__: Any) -> None:
        inside.append(1)
        most.append(len(inside))
        if len(most) == 1:
            never.wait(0.2)  # in which the other comes in, if it may
        inside.pop()

    monkeypatch.setattr(exposition.files, "replace", replace)
    monitoring = Monitoring(MonitoringSettings(textfile=tmp_path / "agent.prom"))
    monitoring.start()
    eventually(lambda: most)
    monitoring.stop()
    assert set(most) == {1}


def test_a_port_that_is_taken_is_logged_once_and_opened_later(
    started: Any, caplog: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(retrying, "FIRST_PAUSE", 0.05)
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        started(Monitoring(MonitoringSettings(port=port)))
        eventually(lambda: "can't be served at" in caplog.text)
        assert "([monitoring] listen_port)" in caplog.text
    eventually(lambda: get(f"http://127.0.0.1:{port}/")[0] == 404)
    assert caplog.text.count("can't be served at") == 1


def test_the_port_is_free_once_the_monitoring_has_ended() -> None:
    port = free_port()
    monitoring = Monitoring(MonitoringSettings(port=port, listen="::1"))
    monitoring.start()
    eventually(lambda: get(f"http://[::1]:{port}/healthz")[0] == 200)
    monitoring.stop()
    eventually(lambda: get(f"http://[::1]:{port}/healthz")[0] == 0)


def test_the_textfile_is_world_readable_and_a_bad_place_stops_nothing(tmp_path, caplog) -> None:
    mask = os.umask(0o077)
    try:
        path = tmp_path / "agent.prom"
        monitoring = Monitoring(MonitoringSettings(textfile=path))
        monitoring.write()
    finally:
        os.umask(mask)
    assert oct(path.stat().st_mode & 0o777) == "0o644"
    assert "compute_agent_replans_total 0.0" in path.read_text()
    (tmp_path / "file").write_text("")
    bad = Monitoring(MonitoringSettings(textfile=tmp_path / "file" / "agent.prom"))
    bad.write()
    bad.write()
    assert caplog.text.count("can't be written") == 1


# -- options


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("listen = 0.0.0.0", "has to be a loopback address"),
        ("listen = localhost", "localhost is not IPv4 or IPv6 address"),
        ("textfile = agent.prom", "has to be an absolute path"),
        ("textfile = /var/lib/node_exporter/agent.txt", "path that ends in .prom"),
        ("listen_port = 70000", "listen_port"),
    ],
)
def test_what_can_not_be_used_is_said_with_its_option(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "agent.conf"
    path.write_text(f"[monitoring]\n{line}\n")
    with pytest.raises(config.ConfigError, match=said):
        config.settings(config.load_config(["--config-file", str(path)]))


def test_it_is_off_by_default_and_each_way_switches_it_on() -> None:
    assert not MonitoringSettings().is_on
    for one in ({"port": 1}, {"textfile": Path("/t.prom")}):
        assert MonitoringSettings(**one).is_on
