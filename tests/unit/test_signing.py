"""Who may call what where calls are signed: each host what concerns itself."""

from functools import partial
from typing import Any

import pytest

from agent.bus.signing import AgentPermissions, Operator, Sign, host_key, signed
from agent.errors import NotPermitted
from agent.registry import wire
from compute_registry.endpoint import RegistryPermissions

MASTER = "a long random text"
HOST1 = partial(signed, [host_key(MASTER, "host1")], "host1")
REGISTRY = RegistryPermissions(Operator((MASTER,)))
AGENT = AgentPermissions(host_key(MASTER, "host1"), "host1")
BEAT = {"host": "host1", "address": "a", "rpc_version": "6.5", "roots": []}
UUID = "6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca"
STATUS = {
    "host": "host1",
    "disabled": True,
    "reason": None,
    "expected_version": 3,
    "new_version": 4,
}


def registry(sign: Sign, method: str, sent: dict[str, Any], signed_arguments: Any = None) -> None:
    context = sign(wire.TOPIC, method, signed_arguments or sent, {})
    REGISTRY(method, sent, context)


def test_an_agent_records_its_own_host() -> None:
    registry(HOST1, "heartbeat", BEAT)
    registry(HOST1, "get_service", {"host": "host1"})
    registry(HOST1, "set_status", STATUS)


@pytest.mark.parametrize(
    ("method", "sent"),
    [
        ("heartbeat", BEAT | {"host": "host2"}),
        ("set_status", STATUS | {"host": "host2"}),
        ("get_service", {"host": "host2"}),
        ("delete", {"host": "host1", "uuid": UUID}),
        ("set_forced_down", {"host": "host1", "forced_down": True, "expected_version": 3}),
        ("list_services", {"after": "", "limit": 5}),
    ],
)
def test_it_does_nothing_to_others_and_nothing_that_is_for_operators(
    method: str, sent: dict[str, Any]
) -> None:
    with pytest.raises(NotPermitted, match="the host_key of host1 does not allow"):
        registry(HOST1, method, sent)
    registry(Operator((MASTER,)).sign, method, sent)


@pytest.mark.parametrize(
    ("method", "sent"),
    [
        ("delete", {"host": "host1", "uuid": None}),
        ("delete", {"host": "host1"}),
        ("set_status", STATUS | {"expected_version": None}),
        ("set_forced_down", {"host": "host1", "forced_down": True}),
    ],
)
@pytest.mark.parametrize("sign", [Operator((MASTER,)).sign, HOST1])
def test_a_change_that_is_for_no_record_in_particular_is_refused(
    sign: Sign, method: str, sent: dict[str, Any]
) -> None:
    with pytest.raises(NotPermitted, match="could be replayed"):
        registry(sign, method, sent)


def test_nobody_says_that_he_is_another() -> None:
    beat = BEAT | {"host": "host2"}
    own = host_key(MASTER, "host1")
    for key, host in ((own, "host2"), (own, ""), ("", "host2")):
        with pytest.raises(NotPermitted, match="not signed"):
            registry(partial(signed, [key], host), "heartbeat", beat)
    with pytest.raises(NotPermitted, match="not signed"):
        registry(HOST1, "heartbeat", BEAT, BEAT | {"roots": ["x"]})
    for context in (
        {},
        {"signed_by": "host1"},
        {"signed_by": 5, "signatures": ["é"]},
        {"signed_by": "host1", "signatures": ["é", 5]},
    ):
        with pytest.raises(NotPermitted, match="not signed"):
            REGISTRY("heartbeat", BEAT, context)


def test_an_agent_obeys_operators_only_and_only_for_its_own_host() -> None:
    said, version = {"enabled": False}, {"record_version": 7}
    sign = Operator((MASTER,)).sign_to
    AGENT("set_host_enabled", said, sign("host1", "set_host_enabled", said, version))
    wrong = [
        {},
        version,
        sign("host2", "set_host_enabled", said, version),
        sign("host1", "set_host_enabled", {"enabled": True}, version),
        sign("host1", "set_host_enabled", said, {}),
        sign("host1", "set_host_enabled", said, {"record_version": True}),
        sign("host1", "set_host_enabled", said, version) | {"record_version": 8},
        signed([host_key(MASTER, "host2")], "host2", "host1", "x", said, version),
    ]
    for context in wrong:
        with pytest.raises(NotPermitted):
            AGENT("set_host_enabled", said, context)


def test_while_a_master_key_is_replaced_both_are_valid_then_the_new_one() -> None:
    both, new = Operator(("new", MASTER)), Operator(("new",))
    said, version = {"enabled": False}, {"record_version": 7}
    context = both.sign_to("host1", "set_host_enabled", said, version)
    for master in ("new", MASTER):
        key = host_key(master, "host1")
        AgentPermissions(key, "host1")("set_host_enabled", said, context)
        beat = signed([key], "host1", wire.TOPIC, "heartbeat", BEAT, {})
        RegistryPermissions(both)("heartbeat", BEAT, beat)
    for operator in (both, new):
        call = operator.sign(wire.TOPIC, "list_services", {}, {})
        RegistryPermissions(new)("list_services", {}, call)
        RegistryPermissions(both)("list_services", {}, call)
    with pytest.raises(NotPermitted):
        AGENT("set_host_enabled", said, new.sign_to("host1", "set_host_enabled", said, version))
    with pytest.raises(NotPermitted):
        RegistryPermissions(new)("heartbeat", BEAT, HOST1(wire.TOPIC, "heartbeat", BEAT, {}))


def test_an_answer_is_of_the_called_host_and_of_this_call() -> None:
    operator, said = Operator(("new", MASTER)), {"enabled": False}
    sent = operator.sign_to("host1", "set_host_enabled", said, {"record_version": 7})
    for master in ("new", MASTER):
        answer = AgentPermissions(host_key(master, "host1"), "host1").signed(sent, "disabled")
        assert operator.opened_answer("host1", sent, answer) == "disabled"
    later = operator.sign_to("host1", "set_host_enabled", said, {"record_version": 8})
    answer = AGENT.signed(sent, "disabled")
    forged = [
        (sent, "disabled"),
        (sent, None),
        (sent, {}),
        (sent, answer | {"answer": "enabled"}),
        (sent, answer | {"signature": "0"}),
        (sent, AgentPermissions(host_key(MASTER, "host2"), "host2").signed(sent, "disabled")),
        (later, answer),
    ]
    for context, other in forged:
        with pytest.raises(NotPermitted, match="not signed with the host_key of host1"):
            operator.opened_answer("host1", context, other)
