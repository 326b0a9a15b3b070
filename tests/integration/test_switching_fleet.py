"""Agents that follow compute-registry over a real RabbitMQ, and two that have one name."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.bus import messaging
from agent.registry import wire
from agent.registry.checks import HeartbeatMessage, StatusChange
from agent.registry.client import RegistryClient
from agent.registry.record import ServiceRecord
from agent.state.saved_root import root_path
from compute_registry.database.fleet_database import FleetDatabase
from tests.integration.agent_host import Here
from tests.integration.switched import (
    OPTIONS,
    has_trait,
    is_known,
    options,
    record_of,
    registry_of,
    root_of,
    status_of,
    wrong_with,
)
from tests.registries import url_in
from tests.servers import records
from tests.servers.agent import SCRIPT, AgentProcess
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess
from tests.waiting import eventually


@pytest.fixture
def registry(tmp_path: Path, broker: RabbitMQ) -> Iterator[RegistryProcess]:
    broker.empty(wire.TOPIC)  # a heartbeat of an earlier test's agent would be one of its host
    with RegistryProcess(tmp_path / "registry", transport_url=broker.url) as registry:
        yield registry


@pytest.fixture(scope="module")
def client(broker: RabbitMQ) -> Iterator[RegistryClient]:
    transport = messaging.transport(broker.url)
    yield RegistryClient(transport, timeout=30)
    transport.cleanup()


@pytest.fixture
def agent(tmp_path: Path, placement: RealPlacement, broker: RabbitMQ) -> Iterator[AgentProcess]:
    text = options(broker.url, "access = rpc\n")
    agent = AgentProcess(tmp_path / "agent", placement.url, options=text)
    yield agent
    agent.kill()


def started(agent: AgentProcess) -> None:
    agent.start()
    agent.until_reported()


def test_the_status_is_known_before_the_first_report(agent, registry, client, placement) -> None:
    client.heartbeat(HeartbeatMessage("testhost", "an agent that is gone", None, []))
    client.set_status(StatusChange("testhost", disabled=True, reason="not ready"))
    client.set_forced_down("testhost", forced_down=True)
    eventually(lambda: _silent(client.get_service("testhost")))
    seen = placement.mark()
    down_after_2_s(registry)
    eventually(lambda: client.get_service("testhost").silent_for > 2)
    started(agent)
    root = root_of(agent)
    writes = [r.path for r in placement.since(seen) if r.method == "PUT"]
    assert writes.index(f"/resource_providers/{root}/traits") < writes.index(
        f"/resource_providers/{root}/inventories"
    )
    assert has_trait(placement, root)


def down_after_2_s(registry: RegistryProcess) -> None:
    registry.kill9()
    quick = "[registry]\nservice_down_time = 2\nreport_interval = 1\n"
    registry.config.write_text(registry.config.read_text().replace("[registry]\n", quick))
    registry.start()


def _silent(record: ServiceRecord) -> bool:
    return record.silent_for is not None


def test_a_lost_registry_changes_no_status(agent, registry, client, placement) -> None:
    started(agent)
    root = root_of(agent)
    eventually(lambda: [one.roots for one in client.list_services()] == [(root,)])
    client.set_status(StatusChange("testhost", disabled=True, reason="new disks"))
    eventually(lambda: has_trait(placement, root))
    registry.kill9()
    agent.until_logged("The registry does not answer")
    assert has_trait(placement, root)
    agent.kill()
    agent.start()
    agent.until_logged("Starting without an answer")
    agent.until(lambda: status_of(agent)["service"]["disabled"] is True)
    placement.stranger.remove_trait(root, "COMPUTE_STATUS_DISABLED")
    agent.kill()
    root_path(agent.state_path, root).unlink()
    agent.start()
    eventually(lambda: has_trait(placement, root))
    registry.start()
    client.set_status(StatusChange("testhost", disabled=False))
    eventually(lambda: not has_trait(placement, root))


def test_after_a_quick_reboot_a_host_is_well_once_it_is_served(
    agent, registry, client, placement
) -> None:
    client.heartbeat(HeartbeatMessage("testhost", "the boot before", None, ()))
    agent.start()
    agent.until_logged("waiting up to")
    agent.until_logged("Reporting host")  # status.json is there
    eventually(lambda: "nothing is written to" in str(status_of(agent)["nodes"]))
    assert status_of(agent)["service"]["rpc"] == "none" and not placement.uuids()
    database = FleetDatabase.from_url(url_in(registry.directory))
    records.later(database, 61)
    database.dispose()
    eventually(lambda: client.get_service("testhost").rpc_version is not None)
    assert client.get_service("testhost").degraded == ""
    assert placement.uuids(), "the next period would be 600 s later"
    eventually(lambda: status_of(agent)["service"]["rpc"] == "serving")


def test_two_agents_with_one_name_and_both_addresses_are_said(
    tmp_path, placement, registry, broker
) -> None:
    text = options(broker.url, "access = rpc\n")
    first, second = (
        AgentProcess(tmp_path / name, placement.url, options=text) for name in ("first", "second")
    )
    down_after_2_s(registry)
    try:
        started(first)
        second.start()
        second.until_logged("is in use by the agent at")
        assert str(first.state_path) in second.log and str(second.state_path) in second.log
        second.until_logged("it belongs to testhost, which is up, at")
        assert "Serving RPC calls on topic compute" not in second.log
        assert second.process.poll() is None and "Traceback" not in second.log
        first.kill()
        second.until_logged("No other agent has the name of this host any more")
        second.until_logged("Serving RPC calls on topic compute")
    finally:
        first.kill()
        second.kill()


@pytest.mark.parametrize("name", ["testhost", "another"])
def test_a_copy_of_a_host_that_is_up_writes_nothing_and_retires_nothing(
    agent, tmp_path, placement, registry, client, broker, name
) -> None:
    down_after_2_s(registry)
    started(agent)
    root = root_of(agent)
    eventually(lambda: [one.roots for one in client.list_services()] == [(root,)])
    copy = tmp_path / "copy"
    shutil.copytree(agent.state_path, copy / "state")
    text = options(broker.url, "access = rpc\nservice_down_time = 2\n")
    text = text.replace("interval = 600", "interval = 1")
    script = SCRIPT.replace("testhost", name)
    clone = AgentProcess(copy, placement.url, script, text, name)
    agent.until(lambda: not wrong_with(agent, "registry"))
    mark = placement.mark()
    why = f"the root provider {root}: it belongs to testhost, which is up, at"
    assert why in clone.once().stderr
    retired = Here(copy, placement.url).ctl("retire", "--yes")
    assert retired.code == 2 and why in retired.err
    typo = AgentProcess(tmp_path / "typo", placement.url, options=text, host="third")
    typo.write()
    adopted = Here(typo.directory, placement.url).ctl("adopt", "testhost")
    assert adopted.code == 2 and why in adopted.err
    assert not (typo.state_path / "compute_id").exists()
    with clone:
        clone.until_logged(why)
        assert {each.method for each in placement.since(mark)} <= {"GET"}
        agent.kill()
        eventually(lambda: placement.stranger.provider(root)["name"] == name)
        clone.until(lambda: status_of(clone)["nodes"][0]["ok"])


def test_a_single_period_syncs_the_trait_and_leaves_no_sign_of_life(tmp_path, placement) -> None:
    agent = AgentProcess(tmp_path, placement.url, options=OPTIONS)
    with agent:
        agent.until_reported()
        agent.until(lambda: is_known(agent))
    registry_of(agent).set_status(StatusChange("testhost", disabled=True))
    done = agent.once()
    assert done.returncode == 0, done.stderr
    assert has_trait(placement, root_of(agent))
    assert not record_of(agent).is_up()
