"""set_host_enabled, called as the reference calls it, on a real agent over a real RabbitMQ."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.bus import messaging
from agent.bus.errors import NoAnswer, RemoteFault
from agent.bus.rpcapi import ComputeAgentAPI
from agent.registry.checks import StatusChange
from agent.registry.control import Control, Switched
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

MANY = """
nodes:
  one: {inventory: {VCPU: 4}, children: {one-child: {inventory: {VCPU: 2}}}}
  two: {inventory: {VCPU: 4}}
  three: {inventory: {VCPU: 4}}
"""


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


@pytest.mark.parametrize("version", ["5.0", "5.13", "6.0", "6.5"])
def test_the_references_caller_disables_and_enables(agent, caller, placement, version) -> None:
    root = root_of(agent)
    assert caller.set_host_enabled("testhost", False, version) == "disabled"
    assert has_trait(placement, root)
    assert caller.set_host_enabled("testhost", True, version) == "enabled"
    assert not has_trait(placement, root)


def test_a_disable_costs_one_call_and_shows_when_it_returns(agent, caller, placement) -> None:
    root = root_of(agent)
    assert is_candidate(placement, root)
    for enabled in (False, True):
        mark = placement.mark()
        caller.set_host_enabled("testhost", enabled)
        assert [(r.method, r.path) for r in placement.since(mark)] == [
            ("PUT", f"/resource_providers/{root}/traits")
        ]
        assert is_candidate(placement, root) is enabled


def test_what_is_so_already_is_verified_with_one_call(agent, caller, placement) -> None:
    caller.set_host_enabled("testhost", False)
    mark = placement.mark()
    assert caller.set_host_enabled("testhost", False) == "disabled"
    assert [r.method for r in placement.since(mark)] == ["GET"]


@pytest.mark.parametrize("enabled", [False, True])
def test_a_repeated_call_puts_right_what_a_stranger_did(agent, caller, placement, enabled) -> None:
    root = root_of(agent)
    caller.set_host_enabled("testhost", enabled)
    if enabled:
        placement.stranger.add_trait(root, DISABLED)
    else:
        placement.stranger.remove_trait(root, DISABLED)
    caller.set_host_enabled("testhost", enabled)
    assert has_trait(placement, root) is not enabled


def test_the_record_says_it_when_the_call_returns(agent, caller) -> None:
    caller.set_host_enabled("testhost", False)
    assert record_of(agent).disabled
    assert record_of(agent).rpc_version == "6.5"
    caller.set_host_enabled("testhost", True)
    assert not record_of(agent).disabled


def test_a_strangers_write_in_between_is_kept(agent, caller, placement) -> None:
    root = root_of(agent)
    placement.stranger.add_trait(root, "CUSTOM_FOREIGN")
    caller.set_host_enabled("testhost", False)
    assert {DISABLED, "CUSTOM_FOREIGN"} <= placement.stranger.traits(root)


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


def test_without_placement_it_answers_and_follows_soon(agent, caller, placement, proxy) -> None:
    root = root_of(agent)

    gone = Reply(503, b"{}", {"Content-Type": "application/json"})
    proxy.harm("PUT", "/traits", lambda exchange: exchange.send(gone), times=1000)
    assert caller.set_host_enabled("testhost", False) == "disabled"
    assert not has_trait(placement, root)
    said = status_of(agent)
    assert any(DISABLED in one["text"] for one in said["nodes"][0]["conditions"])
    assert said["service"]["disabled"] is True
    assert record_of(agent).disabled
    proxy.heal()
    eventually(lambda: has_trait(placement, root))
    eventually(lambda: not status_of(agent)["nodes"][0]["conditions"])


@pytest.mark.parametrize("done_first", [False, True], ids=["before writing", "before answering"])
@pytest.mark.parametrize("enabled", [False, True])
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


def test_a_changed_record_is_followed_without_a_call(agent, placement) -> None:
    root = root_of(agent)
    registry_of(agent).set_status(StatusChange("testhost", disabled=True, reason="looking into it"))
    eventually(lambda: has_trait(placement, root))
    registry_of(agent).set_status(StatusChange("testhost", disabled=False))
    eventually(lambda: not has_trait(placement, root))


def test_the_reason_in_the_record_outlives_the_call(agent, caller) -> None:
    registry_of(agent).set_status(StatusChange("testhost", disabled=True, reason="looking into it"))
    caller.set_host_enabled("testhost", False)
    assert record_of(agent).disabled_reason == "looking into it"


def test_a_host_that_placement_had_disabled_before_us_stays_disabled(
    tmp_path, placement, broker, proxy
) -> None:
    root = placement.stranger.create_provider("testhost")
    placement.stranger.add_trait(root, DISABLED)
    agent = AgentProcess(tmp_path, proxy.url, options=options(broker.url))
    agent.write()
    (agent.state_path / "compute_id").write_text(f"{root}\n")
    with agent:
        until_served(agent)
        eventually(lambda: record_of(agent).disabled)
        assert has_trait(placement, root)
        assert record_of(agent).disabled_reason == "found disabled in Placement"


def test_the_typed_client(agent, caller, placement) -> None:
    api = ComputeAgentAPI(caller.transport, timeout=60)
    assert api.set_host_enabled("testhost", False) == "disabled"
    assert has_trait(placement, root_of(agent))
    assert api.set_host_enabled("testhost", True) == "enabled"


def test_a_call_that_another_has_overtaken_changes_nothing(agent, caller, placement) -> None:
    registry, root = registry_of(agent), root_of(agent)
    first = registry.set_status(StatusChange("testhost", disabled=True))
    second = registry.set_status(StatusChange("testhost", disabled=False))
    api = ComputeAgentAPI(caller.transport, timeout=60)
    for record in (second, first):
        answer = api.set_host_enabled(
            "testhost", not record.disabled, record_version=record.version
        )
        assert answer == "enabled"
    assert not has_trait(placement, root)
    assert record_of(agent).version == second.version


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


def test_no_such_host(caller) -> None:
    api = ComputeAgentAPI(caller.transport, timeout=2)
    with pytest.raises(NoAnswer, match="no-such-host"):
        api.set_host_enabled("no-such-host", False)


@pytest.mark.parametrize("wrong", ["no", 0, None])
def test_what_is_neither_true_nor_false_is_refused(agent, caller, wrong, placement) -> None:
    with pytest.raises(ValueError, match="true or false"):
        caller.set_host_enabled("testhost", wrong)
    assert not has_trait(placement, root_of(agent))


@pytest.mark.parametrize("version", ["4.0", "7.0", "6.99"])
def test_other_versions_are_refused(agent, caller, version) -> None:
    with pytest.raises(messaging.oslo_messaging.RemoteError, match="UnsupportedVersion"):
        caller.set_host_enabled("testhost", False, version)


def test_only_the_method_can_be_called(agent, caller) -> None:
    client = messaging.RpcClient(
        caller.transport,
        messaging.Target(exchange="nova", topic="compute", version="5.0"),
        5.0,
    )
    for method in ("_in_step", "in_step", "switch", "ask"):
        with pytest.raises(RemoteFault, match="NoSuchMethod|not callable"):
            client.call(method, server="testhost")


def test_a_wrong_call_is_its_callers_error_and_costs_no_traceback(agent, caller) -> None:
    target = messaging.Target(exchange="nova", topic="compute", version="5.0")
    client = messaging.RpcClient(caller.transport, target, 30.0, monitor=60.0)
    with pytest.raises(RemoteFault, match="get_diagnostics"):
        client.call("get_diagnostics", server="testhost", instance={})
    for arguments in ({}, {"enabled": True, "host": "x"}, {"enabled": "no"}):
        with pytest.raises(RemoteFault, match="enabled|host"):
            client.call("set_host_enabled", server="testhost", **arguments)
    with pytest.raises(messaging.oslo_messaging.RemoteError, match="UnsupportedVersion"):
        caller.set_host_enabled("testhost", True, "9.0")
    assert "Traceback" not in agent.log
    assert "Refused a call of 'get_diagnostics'" in agent.log
    assert agent.stop() == 0, "nothing is left that would have to end"
