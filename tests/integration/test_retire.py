"""``computectl retire`` on a real Placement."""

import fcntl
import os

import pytest

from agent.registry.checks import HeartbeatMessage
from compute_registry.store import SqlRegistry
from driverkit.scripted.driver import DEFAULT_SCRIPT
from tests.integration.agent_host import Here
from tests.integration.test_audit import silence
from tests.servers.placement import RealPlacement
from tests.servers.terminal import Terminal
from tests.waiting import eventually


@pytest.fixture
def host(placement: RealPlacement, tmp_path) -> Here:
    """Two cells with a card each, and storage that it shares; reported once."""
    host = Here.configured(tmp_path, placement.url)
    host.report(DEFAULT_SCRIPT.read_text())
    return host


def test_all_of_the_host_goes_and_comes_back_under_the_same_uuid(host, placement) -> None:
    before = placement.uuids()
    placement.stranger.create_provider("elsewhere")
    said = host.ctl("retire", "--yes")
    assert (said.code, said.err) == (0, "")
    assert "8 providers are removed" in said.out
    assert placement.uuids().keys() == {"elsewhere"}
    assert host.ctl("retire", "--yes").out == "Placement has nothing of this host\n"
    assert host.agent().code == 0
    assert placement.uuids().keys() == {"elsewhere", *before}
    assert placement.uuids()["host1"] == before["host1"]


def test_without_a_yes_it_only_shows(host, placement) -> None:
    mark = placement.mark()
    said = host.ctl("retire")
    assert said.code == 1
    assert "remove host1_numa0_pf0" in said.out
    assert "nothing was removed; run the command with --yes to remove them" in said.err
    rows = host.ctl("retire", "-f", "json").json()
    assert {row["fate"] for row in rows} == {"goes"}
    assert {line.split()[0] for line in map(str, placement.since(mark))} <= {"GET"}


def test_on_a_terminal_it_shows_once_asks_and_does_what_is_answered(host, placement) -> None:
    before = placement.uuids().keys()
    nothing = "computectl: nothing was removed; run the command with --yes to remove them"
    for answer, code, left, last in (
        ("n\n", 1, before, nothing),
        ("\x04", 1, before, nothing),
        ("y\n", 0, set(), "8 providers are removed from Placement"),
    ):
        with Terminal(["--config-file", str(host.config), "retire"]) as terminal:
            terminal.until(lambda text: "Remove 8 providers from Placement? [y/N]" in text)
            terminal.press(answer)
            assert terminal.ended() == code
            eventually(lambda: last in terminal.text.splitlines())
            assert terminal.text.count("  remove host1_numa0_pf0") == 1
        assert placement.uuids().keys() == left


def test_nothing_goes_while_a_guest_is_there(host, placement) -> None:
    before = placement.uuids()
    guest = placement.stranger.put_allocation({placement.uuids()["host1_numa1"]: {"VCPU": 1}})
    said = host.ctl("retire", "--yes")
    assert said.code == 1
    assert f"is in use by {guest}" in said.err
    assert "nothing was removed" in said.err
    assert "  not removed: host1_numa0_pf0 (" in said.out and "  remove " not in said.out
    assert placement.uuids() == before


def test_nothing_goes_from_above_a_strangers_provider(host, placement) -> None:
    before = placement.uuids()
    strange = placement.stranger.create_child(placement.uuids()["host1_numa0"], "strange")
    said = host.ctl("retire", "--yes")
    assert said.code == 1
    assert f"computectl adopt {strange}" in said.err
    assert placement.uuids().keys() == {"strange", *before}


def test_what_other_hosts_share_stays(host, placement, tmp_path) -> None:
    aggregates = placement.stranger.aggregates(placement.uuids()["host1_nfs"])
    other = placement.stranger.create_provider("host2")
    placement.stranger.set_aggregates(other, aggregates)
    said = host.ctl("retire", "--yes")
    assert (said.code, said.err) == (0, "")
    assert "keep, other hosts use it too: host1_nfs" in said.out
    assert placement.uuids().keys() == {"host2", "host1_nfs"}


def test_of_anothers_root_only_ours_goes(host, placement, tmp_path) -> None:
    placement.empty()
    host = Here(tmp_path / "attached", placement.url, "nova1")
    host.directory.mkdir()
    host.configure(more="[compute]\nroot_provider = attach\n")
    host.script(
        "nodes: {nova1: {traits: [CUSTOM_OURS], children: {card: {inventory: {SRIOV_NET_VF: 8}}}}}"
    )
    root = placement.stranger.create_provider("nova1")
    placement.stranger.add_trait(root, "HW_CPU_X86_VMX")
    assert host.agent().code == 0
    assert len(placement.uuids()) == 2
    said = host.ctl("retire", "--yes", "--nova-stopped")
    assert (said.code, said.err) == (0, "")
    assert placement.uuids().keys() == {"nova1"}
    assert placement.stranger.traits(root) == {"HW_CPU_X86_VMX"}
    again, audited = host.ctl("retire", "--yes"), host.ctl("audit")
    assert (again.code, again.out) == (0, "Placement has nothing of this host\n")
    assert (audited.code, audited.err) == (1, "")
    assert "its agent does not run (attached: Nova's)" in audited.out


def test_a_running_agent_is_in_the_way(host, placement) -> None:
    before = placement.uuids()
    state = os.open(host.directory / "state", os.O_RDONLY)
    try:
        fcntl.flock(state, fcntl.LOCK_EX)
        said = host.ctl("retire", "--yes")
    finally:
        os.close(state)
    assert said.code == 2
    assert "stop compute-agent, and disable it" in said.err
    assert placement.uuids() == before


def test_a_host_that_died_for_good_is_retired_from_any_machine(
    host: Here, registry: SqlRegistry, placement: RealPlacement
) -> None:
    before, stranger = placement.uuids(), placement.stranger
    dead = stranger.create_provider("dead")
    card = stranger.create_child(stranger.create_child(dead, "dead_numa0"), "dead_card")
    stranger.set_inventory(card, {"VCPU": {"total": 4}})
    guest = stranger.put_allocation({card: {"VCPU": 1}})
    registry.heartbeat(HeartbeatMessage("dead", "a", "6.5", [dead]))
    for step in ("is up", "is down", "is forced down"):
        said = host.ctl("retire", "dead", "--yes")
        assert (said.code, placement.uuids().keys() - before) == (
            1 if step == "is forced down" else 2,
            {"dead", "dead_numa0", "dead_card"},
        )
        if said.code == 2:
            assert f"dead {step}, and has to be down and forced down; if it died" in said.err
            assert "computectl service force-down dead" in said.err
        silence(registry, "dead")
        if step == "is down":
            assert host.ctl("service", "force-down", "dead").code == 0
    assert f"dead_card ({card}): is in use by {guest}" in said.err
    registry.heartbeat(HeartbeatMessage("dead", "a", "6.5", [dead]))
    alive = host.ctl("retire", "dead", "--yes")
    assert (alive.code, placement.uuids().keys() - before) == (
        2,
        {"dead", "dead_numa0", "dead_card"},
    )
    assert "dead is forced down, but sent a heartbeat" in alive.err
    assert "wait until it counts as down ([registry] service_down_time: " in alive.err
    silence(registry, "dead")
    placement.request("DELETE", f"/allocations/{guest}")
    assert "run the command with --yes" in host.ctl("retire", "dead").err
    said = host.ctl("retire", "dead", "--yes")
    assert (said.code, said.err) == (0, "")
    assert "computectl service delete dead" in said.out
    assert placement.uuids() == before
    assert host.ctl("retire", "dead", "--hand-back").code == 2
    assert host.ctl("retire", "nobody").code == 2


def test_a_host_under_another_uuid_is_not_nothing(host: Here, placement: RealPlacement) -> None:
    host.ctl("retire", "--yes")
    other = placement.stranger.create_provider("host1")
    said = host.ctl("retire", "--yes")
    assert f"Placement has host1 under another UUID, {other}" in said.err
    assert "computectl adopt host1" in said.err
    assert placement.uuids() == {"host1": other}
