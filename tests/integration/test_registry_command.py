"""``computectl service`` as an operator meets it: real Placement, a registry over RPC, or alone."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.bus.signing import host_key, signed
from agent.registry.checks import HeartbeatMessage, StatusChange
from agent.registry.client import RegistryClient
from compute_registry.store import SqlRegistry
from tests import registries
from tests.integration.agent_host import AgentHost, one_line
from tests.integration.test_audit import silence
from tests.integration.transcripts import PAGES, Command, steps
from tests.servers import records
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess
from tests.waiting import eventually

TRAIT = "COMPUTE_STATUS_DISABLED"
REMOVED = "3f0f6bb0-4d6a-4c0e-9f3c-5d8c1a0f6b22"


def root(placement: RealPlacement, name: str, *traits: str) -> str:
    made = placement.stranger.create_provider(name)
    for trait in traits:
        placement.stranger.add_trait(made, trait)
    return made


def test_the_list_says_whether_placement_agrees_with_two_gets(host, registry, placement) -> None:
    fine = root(placement, "fine", TRAIT)
    wrong = root(placement, "wrong", TRAIT)
    registry.heartbeat(HeartbeatMessage("fine", "a", "6.5", [fine]))
    registry.heartbeat(HeartbeatMessage("wrong", "b", "6.5", [wrong]))
    registry.heartbeat(HeartbeatMessage("young", "c", None, []))
    registry.heartbeat(HeartbeatMessage("removed", "d", "6.5", [REMOVED]))
    registry.set_status(StatusChange("fine", disabled=True, reason="new disks"))
    mark = placement.mark()
    said = host.ctl("service", "list", "-f", "json")
    assert said.code == 0, said
    assert [request.path for request in placement.since(mark)] == [
        f"/resource_providers?required={TRAIT}",
        "/resource_providers?required=COMPUTE_NODE",
    ]
    rows = {row["host"]: row for row in said.json()}
    assert {name: row["placement"] for name, row in rows.items()} == {
        "fine": "agrees",
        "wrong": "DIFFERS",
        "young": "no root",
        "removed": "not in Placement",
    }
    mark = placement.mark()
    shown = host.ctl("service", "show", "removed").out
    assert "placement lacks 1 of 1 root, or its COMPUTE_NODE" in shown
    assert placement.since(mark)[-1].path.endswith(f"COMPUTE_NODE&uuid={REMOVED}")
    assert (rows["fine"]["status"], rows["fine"]["reason"]) == ("disabled", "new disks")
    assert rows["fine"]["roots"] == [fine]
    since = registry.get_service("fine").disabled_at
    assert (rows["fine"]["disabled_at"], rows["wrong"]["disabled_at"]) == (since.isoformat(), None)
    assert f"since {since:%Y-%m-%d %H:%M:%S} UTC" in host.ctl("service", "show", "fine").out
    drawn = host.ctl("service", "list").out.splitlines()
    assert drawn[0] == "4 services: 4 up, 3 enabled, 1 disabled, 2 differing"
    assert drawn[1].split() == ["host", "status", "state", "last", "seen", "placement"]
    assert drawn[2].split()[:3] == ["fine", "disabled", "up"]
    assert "new disks" in drawn[3]
    assert [line.split("  ")[-1].strip() for line in drawn[2:] if not line.startswith(" ")] == [
        "agrees",
        "not in Placement",
        "DIFFERS",
        "no root",
    ]
    assert f"its root provider {REMOVED} is not in Placement as a compute node" in " ".join(
        " ".join(drawn).split()
    )


def test_mistakes_are_one_line_with_the_next_step(host: AgentHost, registry: SqlRegistry) -> None:
    registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.5", []))
    assert "nobody" in one_line(host.ctl("service", "disable", "nobody"), 2)
    enabled = host.ctl("service", "enable", "host1")
    assert enabled.code == 0 and "already enabled; nothing was changed" in enabled.text
    long = host.ctl("service", "disable", "host1", "--reason", "x" * 300)
    assert "300 characters" in one_line(long, 2)
    assert "rack 1" in one_line(host.ctl("service", "delete", "host1"), 2)
    assert registry.get_service("host1").version == 1


def test_a_reason_has_to_be_text_and_is_shown_in_one_line(host, registry) -> None:
    registry.heartbeat(HeartbeatMessage("host1", "a", None, []))
    err = one_line(host.ctl("service", "disable", "host1", "--reason", "bad \udcff byte"), 2)
    assert "the reason has characters that can't be stored" in err
    assert not registry.get_service("host1").disabled
    assert "no service has the host name" in one_line(host.ctl("service", "show", "\udcff"), 2)
    said = host.ctl("service", "disable", "host1", "--reason", "new disks\n\x1b[2Jticket 7")
    assert "(new disks \\x1b[2Jticket 7)" in said.out
    assert "  new disks \\x1b[2Jticket 7\n" in host.ctl("service", "list").out


def test_a_record_without_a_heartbeat_ever_is_shown_and_switched(host, registry) -> None:
    registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.5", []))
    nothing = dict.fromkeys(("last_seen", "heard", "address", "rpc_version"))
    records.write(registry.database, **nothing)
    (row,) = host.ctl("service", "list", "-f", "json").json()
    assert (row["state"], row["last_seen"], row["silent_for"]) == ("down", None, None)
    assert "never" in host.ctl("service", "list").out.splitlines()[2]
    assert "never sent a heartbeat" in host.ctl("service", "show", "host1").out
    said = host.ctl("service", "disable", "host1")
    assert said.code == 0, said
    assert "its agent was not called: host1 has" in said.text
    assert registry.get_service("host1").disabled
    assert host.ctl("service", "delete", "host1").code == 0


def test_two_agents_with_one_host_name_are_named(host: AgentHost, registry: SqlRegistry) -> None:
    registry.keep_alive({})  # the clock goes on
    registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.5", []))
    with pytest.raises(Exception, match="rack 2"):
        registry.heartbeat(HeartbeatMessage("host1", "rack 2", "6.5", []))
    registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.5", []))
    said = host.ctl("service", "list")
    assert said.code == 1
    assert "rack 1" in said.err and "rack 2" in said.err


def test_the_commands_of_the_page_on_the_registry_succeed(
    host: AgentHost, registry: SqlRegistry
) -> None:
    registry.heartbeat(HeartbeatMessage("host1", "here", "6.5", []))
    page = steps((PAGES / "registry.rst").read_text())
    shown = [shlex.split(step.words) for step in page if isinstance(step, Command)]
    commands = [words for program, *words in shown if program == "computectl"]
    for words in commands:
        said = host.ctl(*words)
        assert said.code == 0, (words, said)
    assert len(commands) > 5 and registry.list_services() == []


def test_a_host_is_forced_down_and_back(host: AgentHost, registry: SqlRegistry) -> None:
    registry.heartbeat(HeartbeatMessage("host1", "a", None, []))
    assert "host1 is forced down" in host.ctl("service", "force-down", "host1").out
    assert host.ctl("service", "show", "host1", "-f", "json").json()[0]["state"] == "forced down"
    assert host.ctl("service", "force-down", "host1", "--unset").code == 0
    assert host.ctl("service", "show", "host1", "-f", "json").json()[0]["state"] == "up"


def test_a_deleted_record_of_a_host_that_may_live_is_no_last_word(
    host: AgentHost, registry: SqlRegistry
) -> None:
    for name in ("dead", "alive"):
        registry.heartbeat(HeartbeatMessage(name, "a", None, []))
        registry.set_forced_down(name, forced_down=True)
    silence(registry, "dead")
    dead, alive = (host.ctl("service", "delete", name).out for name in ("dead", "alive"))
    assert dead == "the service record of dead is deleted\n"
    assert "the service record of alive is deleted\nit sent a heartbeat " in alive
    assert "if its agent runs, stop it" in " ".join(alive.split())


def test_records_are_shown_when_placement_is_away(host: AgentHost) -> None:
    roots = ("6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca",)
    registries.reported(host.directory / "state", roots=roots)
    host.url = "http://127.0.0.1:1"
    host.configure()
    said = host.ctl("service", "list")
    assert said.code == 1
    assert said.out.splitlines()[2].endswith("  not read")
    assert "Placement can't be reached" in said.err


def test_a_registry_that_is_away_is_said(host: AgentHost) -> None:
    host.configure(
        more="[registry]\naccess = rpc\n[DEFAULT]\ntransport_url = rabbit://127.0.0.1:1/"
    )
    assert "compute-registry: " in one_line(host.ctl("service", "list"), 1)
    err = one_line(host.ctl("service", "disable", "host1"), 1)
    assert "computectl service show host1 shows whether the record was changed" in err


# -- beside an agent, a broker and compute-registry


SCRIPT = 'nodes: {"{host}": {inventory: {VCPU: 8}}}\n'


def test_the_trait_is_in_placement_when_the_command_has_called_an_agent(
    host: AgentHost, placement: RealPlacement, broker: RabbitMQ, tmp_path: Path
) -> None:
    with RegistryProcess(tmp_path / "registry", transport_url=broker.url):
        host.script(SCRIPT)
        host.configure(
            more="[registry]\naccess = rpc\nreport_interval = 1\nservice_down_time = 3600\n[DEFAULT]\n"
            f"periodic_fuzzy_delay = 0\ntransport_url = {broker.url}"
        )
        agent = subprocess.Popen(
            [sys.executable, "-c", "from agent.main import main; main()"]
            + ["--config-file", str(host.config)],
            stderr=(tmp_path / "agent.log").open("wb"),
        )
        try:
            row = wait_for_service(host)
            (root_uuid,) = row["roots"]
            said = host.ctl("service", "disable", "host1", "--reason", "new disks")
            assert said.code == 0, said
            assert "its agent was called and answered: disabled" in said.out
            assert f"has {TRAIT} on 1 of 1 root\n" in said.out
            traits = f"/resource_providers/{root_uuid}/traits"
            assert TRAIT in placement.request("GET", traits)["traits"]
            said = host.ctl("service", "enable", "host1")
            assert "answered: enabled" in said.out
            assert TRAIT not in placement.request("GET", traits)["traits"]
            (row,) = host.ctl("service", "list", "-f", "json").json()
            assert (row["status"], row["state"], row["placement"]) == ("enabled", "up", "agrees")
        finally:
            agent.terminate()
            agent.wait(60)


def test_on_a_hypervisor_commands_sign_with_the_key_of_its_host(
    host: AgentHost, broker: RabbitMQ, tmp_path: Path, transport: Callable[[str], Any]
) -> None:
    more = "master_key = a long random text\n"
    with RegistryProcess(tmp_path / "registry", transport_url=broker.url, more=more):
        key = host_key("a long random text", "host1")
        host.script(SCRIPT)
        host.configure(
            more=f"[registry]\naccess = rpc\nhost_key = {key}\n[DEFAULT]\n"
            f"transport_url = {broker.url}"
        )
        sign = partial(signed, [key], "host1")
        client = RegistryClient(transport(broker.url), timeout=60, sign=sign)
        client.heartbeat(HeartbeatMessage("host1", "here", "6.5", []))
        shown = host.ctl("service", "show", "host1", "-f", "json")
        assert shown.code == 0, shown
        assert "not signed" not in host.ctl("audit").err
        for words in (("service", "list"), ("service", "show", "host2")):
            said = host.ctl(*words)
            assert said.code != 0
            assert "the host_key of host1 does not allow" in said.err, said
            assert "master_key" in said.err


def wait_for_service(host: AgentHost) -> dict[str, Any]:
    """Until its heartbeats say which roots it has, and that it can be called."""

    def service() -> dict[str, Any] | None:
        said = host.ctl("service", "list", "-f", "json")
        rows = said.json() if said.code == 0 else []
        return rows[0] if rows and rows[0]["roots"] and rows[0]["rpc_version"] else None

    return eventually(service, 90)
