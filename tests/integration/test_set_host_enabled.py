"""set_host_enabled, called as the reference calls it, on a real agent over a real RabbitMQ."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.bus import messaging
from agent.bus.rpcapi import ComputeAgentAPI
from agent.errors import RemoteFault
from agent.registry.checks import StatusChange
from compute_registry.control import Control, Switched
from tests.integration.switched import (
    DISABLED,
    Caller,
    has_trait,
    is_candidate,
    options,
    record_of,
    registry_of,
    root_of,
    status_of,
    until_served,
)
from tests.servers.agent import AgentProcess
from tests.servers.fault_proxy import Exchange, FaultProxy, Reply
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import eventually


@pytest.fixture
def agent(tmp_path: Path, placement: RealPlacement, broker: RabbitMQ, proxy: FaultProxy):
    agent = AgentProcess(tmp_path, proxy.url, options=options(broker.url))
    with agent:
        until_served(agent)
        yield agent


@pytest.fixture(scope="module")
def caller(broker: RabbitMQ) -> Iterator[Caller]:
    caller = Caller(broker.url)
    yield caller
    caller.transport.cleanup()


def test_a_call_of_the_reference_costs_one_write_and_shows_when_it_returns(
    agent, caller, placement
) -> None:
    root = root_of(agent)
    assert is_candidate(placement, root)
    for version in ("5.0", "5.13", "6.0", "6.5"):
        for enabled in (False, True):
            mark = placement.mark()
            answer = caller.set_host_enabled("testhost", enabled, version)
            assert answer == ("enabled" if enabled else "disabled")
            assert [(r.method, r.path) for r in placement.since(mark)] == [
                ("PUT", f"/resource_providers/{root}/traits")
            ]
            assert is_candidate(placement, root) is enabled
            assert record_of(agent).disabled is not enabled
    mark = placement.mark()
    api = ComputeAgentAPI(caller.transport, timeout=60)
    assert api.set_host_enabled("testhost", True) == "enabled"
    assert [r.method for r in placement.since(mark)] == ["GET"], "it is so already"


def test_without_placement_it_answers_and_follows_soon(agent, caller, placement, proxy) -> None:
    """After two tries without an answer it is written in a period, so periods come soon here."""
    agent.stop()
    agent.write(options=agent.options.replace("interval = 600", "interval = 2"))
    agent.start()
    until_served(agent, starts=2)
    root = root_of(agent)
    gone = Reply(503, b"{}", {"Content-Type": "application/json"})
    harm = proxy.harm("PUT", "/traits", lambda exchange: exchange.send(gone), times=1000)
    assert caller.set_host_enabled("testhost", False) == "disabled"
    assert not has_trait(placement, root)
    said = status_of(agent)
    assert any(DISABLED in one["text"] for one in said["nodes"][0]["conditions"])
    assert said["service"]["disabled"] is True
    assert record_of(agent).disabled
    eventually(lambda: harm.times < 998, otherwise=lambda: agent.log)
    proxy.heal()
    eventually(lambda: has_trait(placement, root), otherwise=lambda: agent.log)
    eventually(lambda: not status_of(agent)["nodes"][0]["conditions"], otherwise=lambda: agent.log)


@pytest.mark.parametrize(
    ("done_first", "enabled"),
    [
        pytest.param(False, False, id="disable, before writing"),
        pytest.param(True, False, id="disable, before answering", marks=pytest.mark.faults),
        pytest.param(False, True, id="enable, before writing", marks=pytest.mark.faults),
        pytest.param(True, True, id="enable, before answering"),
    ],
)
def test_killed_in_the_middle_it_does_what_was_last_asked(
    agent, caller, placement, proxy, done_first, enabled
) -> None:
    root = root_of(agent)
    if enabled:
        caller.set_host_enabled("testhost", False)

    def die(exchange: Exchange) -> None:
        if done_first:
            exchange.forward()
        agent.kill()

    proxy.harm("PUT", "/traits", die)
    with pytest.raises(Exception, match="."):
        caller.set_host_enabled("testhost", enabled, timeout=4)
    agent.process.wait(60)
    assert has_trait(placement, root) is (enabled is False if done_first else enabled)
    proxy.heal()
    agent.start()
    until_served(agent, starts=2)
    eventually(lambda: has_trait(placement, root) is not enabled)
    eventually(lambda: record_of(agent).disabled is not enabled)


def test_a_host_that_was_disabled_while_down_starts_disabled(agent, placement) -> None:
    root = root_of(agent)
    agent.stop()
    registry_of(agent).set_status(StatusChange("testhost", disabled=True, reason="new disks"))
    mark = placement.mark()
    agent.start()
    eventually(lambda: has_trait(placement, root))
    writes = [r for r in placement.since(mark) if r.is_write]
    assert [r.path for r in writes] == [f"/resource_providers/{root}/traits"]
    eventually(lambda: status_of(agent)["service"]["reason"] == "new disks")


def test_of_operators_at_once_the_last_one_in_the_record_is_obeyed(
    agent, caller, placement
) -> None:
    root = root_of(agent)

    def switch(enabled: bool) -> Switched:
        api = ComputeAgentAPI(caller.transport, timeout=60)
        return Control(registry_of(agent), api).switch("testhost", disabled=not enabled)

    for _ in range(4):
        with ThreadPoolExecutor(4) as operators:
            done = list(operators.map(switch, (True, False, True, False)))
        last = max((one.record for one in done), key=lambda record: record.version)
        assert all(one.answer for one in done), done
        assert record_of(agent).version == last.version
        assert has_trait(placement, root) is last.disabled


def test_a_wrong_call_is_its_callers_error_and_costs_no_traceback(agent, caller) -> None:
    target = messaging.Target(exchange="nova", topic="compute", version="5.0")
    client = messaging.RpcClient(caller.transport, target, 30.0, monitor=60.0)
    with pytest.raises(RemoteFault, match="get_diagnostics"):
        client.call("get_diagnostics", server="testhost", instance={})
    for method in ("_in_step", "in_step", "switch", "ask"):
        with pytest.raises(RemoteFault, match="NoSuchMethod|not callable"):
            client.call(method, server="testhost")
    for arguments in ({}, {"enabled": True, "host": "x"}, *({"enabled": v} for v in ("no", 0))):
        with pytest.raises(RemoteFault, match="enabled|host|true or false"):
            client.call("set_host_enabled", server="testhost", **arguments)
    for version in ("4.0", "6.99", "7.0"):
        with pytest.raises(messaging.oslo_messaging.RemoteError, match="UnsupportedVersion"):
            caller.set_host_enabled("testhost", True, version)
    assert "Traceback" not in agent.log
    assert "Refused a call of 'get_diagnostics'" in agent.log
    assert agent.stop() == 0, "nothing is left that would have to end"


MANY = """
nodes:
  one: {inventory: {VCPU: 4}, children: {one-child: {inventory: {VCPU: 2}}}}
  two: {inventory: {VCPU: 4}}
  three: {inventory: {VCPU: 4}}
"""


def test_every_root_gets_it_and_nothing_below_them(
    tmp_path, placement, broker, caller, proxy
) -> None:
    with AgentProcess(tmp_path, proxy.url, script=MANY, options=options(broker.url)) as agent:
        until_served(agent)
        caller.set_host_enabled("testhost", False)
        disabled = f"?required={DISABLED}"
        assert placement.uuids(disabled).keys() == {"one", "two", "three"}
        caller.set_host_enabled("testhost", True)
        assert not placement.uuids(disabled)
