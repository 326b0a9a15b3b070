"""``computectl watch`` on a terminal, beside a real agent and a real registry."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.registry.checks import Report, StatusChange
from compute_registry.store import SqlRegistry
from tests import registries
from tests.integration.agent_host import DOWN_AFTER, AgentHost
from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement
from tests.servers.ports import free_port
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import eventually

pytest.importorskip("pyte", reason="the terminal is read with pyte")
from tests.servers.terminal import Terminal

ALTERNATE, BACK = b"\x1b[?1049h", b"\x1b[?1049l"
MORE = "nodes: {testhost: {inventory: {VCPU: 8, MEMORY_MB: 2048}}}\n"


def test_a_host_is_watched_while_its_agent_works(placement: RealPlacement, tmp_path: Path) -> None:
    # An hour, so that what a period did stays in the file until it is seen.
    options = "update_resources_interval = 3600\nperiodic_fuzzy_delay = 0\n"
    agent = AgentProcess(
        tmp_path, placement.url, options=f"{options}[monitoring]\nlisten_port = {free_port()}\n"
    )
    with agent:
        agent.until_reported()
        with Terminal(["--config-file", str(agent.config), "watch"]) as terminal:
            terminal.until(lambda text: "compute-agent on testhost  well" in text)
            assert terminal.settings != terminal.before, "keys would be echoed"
            for words in (
                "service: enabled; calls over RPC: none",
                "placement, drivers,",
                " since compute-agent started; verified ",
                "\n  testhost: well; ",
                "\nq quit",
            ):
                terminal.until(lambda text, words=words: words in text)
            (tmp_path / "script.yaml").write_text(MORE)
            agent.send(signal.SIGHUP)  # asks for a period
            terminal.until(lambda text: "period: set 1 inventory (" in text)
            terminal.resize(60, 12)
            terminal.until(lambda text: text.splitlines()[-1].startswith("q quit"))
            agent.stop()
            terminal.until(lambda text: "not running" in text)
            terminal.press("q")
            assert terminal.ended() == 0
            assert terminal.settings == terminal.before
            eventually(lambda: terminal.raw.count(BACK) == terminal.raw.count(ALTERNATE) == 1)


@pytest.fixture
def registry(tmp_path: Path, broker: RabbitMQ) -> Iterator[SqlRegistry]:
    with registries.served(tmp_path, broker, down_after=DOWN_AFTER) as store:
        yield store


@pytest.fixture
def fleet(
    placement: RealPlacement, tmp_path: Path, broker: RabbitMQ, registry: SqlRegistry
) -> AgentHost:
    """Three hosts, one of which is disabled by its record only."""
    host = AgentHost.configured(tmp_path, placement.url)
    host.join_fleet(broker.url)
    (tmp_path / "state").mkdir()
    for name in ("rack1-a", "rack1-b", "rack2-a"):
        root = placement.stranger.create_provider(name)
        placement.stranger.add_trait(root, "COMPUTE_NODE")
        registry.heartbeat(Report(name, name, "6.5", [root]))
    registry.set_status(StatusChange("rack2-a", disabled=True, reason="new \x1b[2J disks"))
    return host


def test_the_fleet_is_watched_filtered_and_sorted(fleet: AgentHost, registry: SqlRegistry) -> None:
    arguments = ["--config-file", str(fleet.config), "watch", "--all", "--interval", "1"]
    with Terminal(arguments) as terminal:
        text = terminal.until(lambda text: "1-3 of 3" in text)
        lines = text.splitlines()
        assert lines[0].startswith("3 hosts  3 up  1 disabled  0 down  1 differ from Placement")
        assert [line.split()[0] for line in lines[3:6]] == ["rack2-a", "rack1-a", "rack1-b"]
        assert "DIFFERS" in lines[3]
        assert "new \\x1b[2J disks" in lines[3]
        terminal.press("s")
        text = terminal.until(lambda text: "by host" in text)
        assert [line.split()[0] for line in text.splitlines()[3:6]] == [
            "rack1-a",
            "rack1-b",
            "rack2-a",
        ]
        terminal.press("/rack1")
        terminal.until(lambda text: "filter: rack1_" in text and "1-2 of 2" in text)
        terminal.press("\r")
        terminal.until(lambda text: "filter: rack1 (Esc clears)" in text)
        registry.set_status(StatusChange("rack1-b", disabled=True, reason="ticket 7"))
        terminal.until(lambda text: "rack1-b  disabled: ticket 7" in text)
        terminal.press("\x1b")
        terminal.until(lambda text: "1-3 of 3" in text)
        terminal.press("\x03")
        assert terminal.ended() == 0
        assert terminal.settings == terminal.before


def test_whoever_ends_it_gets_the_terminal_back(fleet: AgentHost) -> None:
    with Terminal(["--config-file", str(fleet.config), "watch", "--all"]) as terminal:
        terminal.until(lambda text: "1-3 of 3" in text)
        terminal.process.terminate()
        assert terminal.ended() == 128 + 15
        assert terminal.settings == terminal.before
        eventually(lambda: BACK in terminal.raw)


def test_on_a_dumb_terminal_another_command_is_named(fleet: AgentHost) -> None:
    arguments = ["--config-file", str(fleet.config), "watch"]
    with Terminal(arguments, environment={"TERM": "dumb"}) as terminal:
        assert terminal.ended() == 2
    assert b"TERM=dumb; use computectl status instead" in terminal.raw


def test_in_a_pipe_another_command_is_named(fleet: AgentHost) -> None:
    said = fleet.ctl("watch", "--all")
    assert (said.code, said.out) == (2, "")
    assert said.err == ("computectl: watch needs a terminal; use computectl service list instead\n")
