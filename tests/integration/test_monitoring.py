"""A real agent beside a real Placement and a real RabbitMQ, scraped and probed."""

import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.integration.switched import Caller, status_of
from tests.servers.agent import AgentProcess
from tests.servers.ports import free_port
from tests.servers.process import completed

TREE = """
nodes:
  testhost:
    inventory: {VCPU: 4, MEMORY_MB: 2048}
    children: {one: {inventory: {CUSTOM_DEVICE: 1}}}
"""
EVERY_SECOND = "update_resources_interval = 1\nperiodic_fuzzy_delay = 0\n"
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


class Watched(AgentProcess):
    """With a port for metrics."""

    port: int = 0

    def page(self, path: str) -> tuple[int, str]:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as err:
            return err.code, err.read().decode()
        except OSError as err:
            return 0, str(err)

    def scrape(self) -> Samples:
        return samples(self.page("/metrics")[1])

    def value(self, name: str, **labels: str) -> float | None:
        found = self.scrape().get(f"compute_agent_{name}", {})
        return found.get(tuple(sorted(labels.items())))


def samples(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            found.setdefault(one.name, {})[tuple(sorted(one.labels.items()))] = one.value
    return found


def watched(directory: Path, url: str, options: str = "", groups: str = "") -> Watched:
    port = free_port()
    group = f"[monitoring]\nlisten_port = {port}\ntextfile = {directory / 'agent.prom'}\n"
    agent = Watched(directory, url, TREE, f"{EVERY_SECOND}{options}{group}{groups}")
    agent.port = port
    return agent


def test_what_an_agent_does_is_in_its_numbers(tmp_path, placement, own_broker) -> None:
    bus = f"transport_url = {own_broker.url}\n"
    with watched(tmp_path, placement.url, bus) as agent:
        agent.until(lambda: agent.page("/readyz")[0] == 200)
        node = {"node": "testhost"}
        assert agent.value("node_ok", **node) == 1
        assert agent.value("providers", **node) == 2
        assert agent.value("operations_total", operation="create_provider") == 2
        put = {"method": "PUT", "route": "/resource_providers/{uuid}/inventories"}
        assert agent.value("placement_requests_total", **put, outcome="ok") == 2
        assert agent.value("last_success_timestamp_seconds", **node)
        assert agent.value("last_verification_timestamp_seconds", **node)
        assert agent.value("interval_seconds") == 1
        called = {"driver": "fake", "method": "update_provider_tree"}
        agent.until(lambda: (agent.value("driver_call_seconds_count", **called) or 0) >= 2)
        assert agent.value("disabled") == 0
        assert agent.value("process_resident_memory_bytes")

        caller = Caller(own_broker.url)
        try:
            agent.until_logged("Serving RPC calls on topic compute")
            caller.set_host_enabled("testhost", False, "5.0")
        finally:
            caller.transport.cleanup()
        agent.until(lambda: agent.value("disabled") == 1)
        served = {"method": "set_host_enabled", "outcome": "ok"}
        assert agent.value("rpc_calls_total", **served) == 1
        assert agent.value("period_seconds_count", occasion="switch") == 1

        own_broker.kill9()
        agent.until(
            lambda: "broker: waiting for the message broker" in agent.page("/readyz")[1], 120
        )
        assert agent.page("/readyz")[0] == 503
        assert agent.page("/healthz") == (200, "ok\n")
        assert agent.value("check_ok", check="broker") == 0
        assert agent.value("check_ok", check="placement") == 1
        assert "waiting for the message broker" in status_words(agent)
        assert agent.stop() == 0
        assert samples((tmp_path / "agent.prom").read_text())["compute_agent_disabled"] == {(): 1}
        own_broker.start()  # the caller's threads look for it


def test_readiness_tells_each_part_by_the_words_of_the_status(tmp_path, placement, proxy) -> None:
    agent = watched(
        tmp_path, proxy.url, groups="[compute]\nresource_provider_association_refresh=1\n"
    )
    agent.make_sick()
    with agent:
        agent.until(lambda: agent.page("/readyz")[0] == 200)
        assert set(dict(line.split(": ", 1) for line in agent.page("/readyz")[1].splitlines())) == {
            *("placement", "drivers", "hypervisor", "registry", "broker", "disk", "nodes")
        }
        proxy.refuse()
        agent.until(lambda: "placement: no answer to" in agent.page("/readyz")[1])
        assert agent.page("/healthz")[0] == 200
        assert "no answer to" in status_words(agent)
        proxy.listen()
        agent.until(lambda: agent.page("/readyz")[0] == 200)
        (tmp_path / "deed.py").write_text("raise DriverNotReady('it restarts')")
        agent.until(lambda: "drivers: driver sick:" in agent.page("/readyz")[1])
        (tmp_path / "deed.py").write_text("")
        agent.until(lambda: agent.page("/readyz")[0] == 200)
        (agent.state_path / "status.json").unlink()
        (agent.state_path / "status.json").mkdir()
        (agent.state_path / "status.json" / "full").touch()
        agent.until(lambda: "status.json can't be written" in agent.page("/readyz")[1])
        assert agent.value("check_ok", check="disk") == 0


def test_a_single_period_leaves_its_numbers_in_the_textfile(tmp_path, placement) -> None:
    agent = watched(tmp_path, placement.url)
    assert agent.once().returncode == 0
    found = samples((tmp_path / "agent.prom").read_text())
    assert found["compute_agent_providers"] == {(("node", "testhost"),): 2}


def status_words(agent: AgentProcess) -> str:
    assert status_of(agent)["checks"]
    code = "from computectl.app import main; main()"
    command = [sys.executable, "-c", code, "--config-file", str(agent.config), "status"]
    ran = completed(*command)
    assert ran.returncode == 1
    return ran.stdout
