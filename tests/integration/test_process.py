"""The real process against a real Placement: exit codes, signals, and what the log says."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from agent import version
from agent.nodes.identity import FILE_NAME
from tests.kit.installed import install
from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement
from tests.servers.ports import free_port
from tests.waiting import eventually

# A lock that is taken twice: no signal gets a thread out of it, unlike a sleep.
STUCK_IN_C = """
import ctypes
from drivers.api import ComputeDriver

class Stuck(ComputeDriver):
    def get_available_nodes(self):
        return [self.context.host]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        lock = ctypes.create_string_buffer(64)
        print("stuck now", flush=True)
        while True:
            ctypes.CDLL(None).pthread_mutex_lock(lock)
"""
NOT_YET = """
import stuck

class NotYet(stuck.Stuck):
    def init_host(self, host):
        raise ConnectionRefusedError("nobody at the other end")

    def cleanup_host(self, host):
        print("cleaned up", flush=True)
"""


@pytest.fixture
def agent(tmp_path: Path, placement: RealPlacement):
    process = AgentProcess(tmp_path, placement.url)
    yield process
    process.kill()


@pytest.fixture
def stuck(agent: AgentProcess, tmp_path: Path) -> AgentProcess:
    """An agent beside whose driver there are two bad ones, as another package installs them."""
    install(tmp_path / "site", "stuck", STUCK_IN_C)
    agent.add_drivers(install(tmp_path / "site", "notyet", NOT_YET))
    return agent


def own_uuid(agent: AgentProcess) -> str:
    return (agent.state_path / FILE_NAME).read_text().strip()


# -- exit codes of --once


def test_once_reports_and_exits_0_and_a_second_one_writes_nothing(agent, placement) -> None:
    agent.write(options="transport_url = kombu+memory://agent:pa55@/\n")
    agent.config.chmod(0o644)
    done = agent.once()
    assert done.returncode == 0, done.stderr
    assert "every user may read it: chmod o-r" in done.stderr
    assert set(placement.stranger.inventory(own_uuid(agent))) == {"VCPU", "MEMORY_MB"}
    mark = placement.mark()
    assert agent.once().returncode == 0
    assert {request.method for request in placement.since(mark)} == {"GET"}


def assert_ended(done: subprocess.CompletedProcess[str], code: int, said: str) -> None:
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_once_without_placement_exits_1(agent: AgentProcess) -> None:
    agent.placement_url = f"http://127.0.0.1:{free_port()}"
    assert_ended(agent.once(), 1, "no answer to GET /resource_providers")


def test_a_driver_that_can_not_start_now_exits_1_and_may_clean_up(stuck: AgentProcess) -> None:
    stuck.compute_driver = "notyet"
    done = stuck.once()
    said = "driver notyet could not start: ConnectionRefusedError: nobody at the other end"
    assert_ended(done, 1, said)
    assert "cleaned up" in done.stdout


def test_a_bad_configuration_exits_2_and_says_where(agent: AgentProcess, placement) -> None:
    agent.options = "update_resource_interval = 5\n"
    mark = placement.mark()
    said = "agent.conf:5: no option update_resource_interval in [DEFAULT], whose options are "
    assert_ended(agent.once(), 2, said)
    assert placement.since(mark) == []


def test_a_check_prints_what_is_used_and_every_error_and_writes_nothing(
    agent: AgentProcess, placement: RealPlacement, tmp_path: Path
) -> None:
    agent.write()
    agent.state_path.rmdir()
    mark = placement.mark()
    done = agent.once("--check")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert f"configuration: {agent.config}" in lines and "host: testhost" in lines
    assert "driver: fake: nodes testhost" in lines and f"Placement: {placement.url}" in lines
    assert [request.method for request in placement.since(mark)] == ["GET"]
    assert not agent.state_path.exists()

    files = tmp_path / "files"
    files.mkdir()
    (files / "a.yaml").write_text("meta: {schema_version: '1.0'}\nprovidres: []\n")
    agent.placement_url = f"http://127.0.0.1:{free_port()}"
    agent.compute_driver = "fake,nope"
    agent.options = (
        "transport_url = nonsense\n[monitor]\nlisten_port = 1\n[registry]\nreport_intervall = 1\n"
        f"[compute]\nprovider_config_location = {files}\n"
    )
    agent.write()
    (agent.state_path / FILE_NAME).write_text("none")
    done = agent.once("--check")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    for said in (
        "agent.conf:4: compute_driver: no driver 'nope' is installed",
        "agent.conf:5: transport_url: ",
        "agent.conf:6: no group [monitor]: is [monitoring] meant?",
        "agent.conf:9: no option report_intervall in [registry], whose options are ",
        f"{files}/a.yaml:2: providres: unknown",
        f"{agent.state_path}/{FILE_NAME}: ",
        "no answer to GET /resource_providers?name=testhost: ",
    ):
        assert any(said in line for line in done.stderr.splitlines()), (said, done.stderr)


# -- the running process


def test_a_new_host_reports_at_once_and_after_a_restart_in_its_turn(agent: AgentProcess) -> None:
    agent.options = "periodic_fuzzy_delay = 1000000\n"
    agent.start()
    agent.until_logged("to Placement", times=1)
    agent.stop()
    agent.start()
    agent.until_logged("Reporting host testhost, the first time in ", times=2)
    assert "the first time in 0 s" in agent.log
    assert int(agent.log.rpartition("the first time in ")[2].split()[0]) > 1


def test_sigterm_in_a_period_lets_it_end(agent: AgentProcess, placement: RealPlacement) -> None:
    agent.make_sick("print('sleeping', flush=True); time.sleep(1.5)")
    agent.start()
    agent.until_logged("sleeping")
    assert agent.stop() == 0


def test_sigterm_does_not_wait_for_a_driver_that_hangs(stuck: AgentProcess) -> None:
    stuck.compute_driver = "stuck"
    stuck.options += "graceful_shutdown_timeout = 1\n"
    stuck.start()
    stuck.until_logged("stuck now")
    assert stuck.stop() == 1
    assert "Not stopped after graceful_shutdown_timeout (1 s): exiting now" in stuck.log
    assert "in update_provider_tree" in stuck.log, "where it hangs"


def test_sighup_takes_over_what_may_change_and_names_what_needs_a_restart(agent, placement) -> None:
    agent.options = "update_resources_interval = 3600\nperiodic_fuzzy_delay = 0\n"
    agent.options += "[registry]\nreport_interval = 3600\nservice_down_time = 9000\n"
    agent.start()
    agent.until_logged("to Placement", times=1)
    refused = "The configuration was not reloaded, the previous one stays in use: "
    for times, wrong in enumerate(("graceful_shutdown_timeout", "debug"), start=1):
        agent.write(options=f"update_resources_interval = 1\n{wrong} = soon\n")
        agent.send(signal.SIGHUP)
        agent.until_logged(refused, times=times)
        assert wrong in agent.log.rpartition(refused)[2]
    assert "changed from" not in agent.log
    quick = "update_resources_interval = 1\nperiodic_fuzzy_delay = 7\ndebug = true\n"
    agent.options = quick + "[compute]\nresource_provider_association_refresh = 1\n"
    agent.options += "driver_timeout = 77\n[registry]\nreport_interval = 1\n"
    agent.write()
    agent.send(signal.SIGHUP)
    agent.until_logged("update_resources_interval changed from [3600] to [1]", times=1)
    agent.until_logged("compute.driver_timeout changed from [None] to [77]", times=1)
    agent.until_logged("Ignoring change to immutable option DEFAULT.periodic_fuzzy_delay", times=1)
    agent.until_logged("DEBUG", times=1)
    placement.stranger.set_inventory(own_uuid(agent), {"VCPU": {"total": 1}})
    agent.until_logged("set 1 inventory (", times=1)  # nobody asked for a period after that
    assert json.loads((agent.state_path / "status.json").read_text())["interval"] == 1.0
    agent.until_logged("registry.report_interval changed from [3600] to [1]", times=1)
    status = agent.state_path / "service.json"
    status.unlink()
    eventually(status.exists)  # the agent writes what is lost
    assert agent.stop() == 0
    assert agent.log.endswith("Stopped\n")


def test_a_signal_right_after_another_is_not_lost(agent: AgentProcess) -> None:
    agent.options = "update_resources_interval = 3600\nperiodic_fuzzy_delay = 0\n"
    agent.start()
    agent.until_logged("to Placement", times=1)
    for times in range(1, 13):
        agent.send(signal.SIGHUP)
        agent.send(signal.SIGUSR1)
        agent.until_logged("Ignoring SIGUSR1", times=times)
    agent.send(signal.SIGHUP)
    assert agent.stop() == 0


def test_sigusr1_ends_nothing_and_sigusr2_writes_a_report_without_secrets(agent) -> None:
    pytest.importorskip("oslo_reports")
    agent.options += "[registry]\nhost_key = the-secret-key\n"
    agent.start()
    agent.until_logged("to Placement", times=1)
    agent.send(signal.SIGUSR1)
    agent.until_logged("Ignoring SIGUSR1")
    agent.send(signal.SIGUSR2)
    agent.until_logged("token = ***", times=1)
    agent.until_logged("host_key = ***", times=1)
    for heading in ("Package", "Threads", "Processes", "Configuration of compute-agent"):
        assert re.search(rf"(?m)^====\s+{heading}\s+====$", agent.log)
    assert re.search(r"(?m)^version = ", agent.log)
    assert "the-secret-key" not in agent.log
    assert f" compute_agent.service [-] compute-agent {version()}\n" in agent.log
    assert json.loads((agent.state_path / "status.json").read_text())["agent_version"] == version()
    assert agent.stop() == 0


def test_a_second_process_on_the_same_state_path_is_refused_with_the_first(agent) -> None:
    agent.start()
    agent.until_logged("to Placement", times=1)
    assert agent.process is not None
    second = agent.once()
    assert second.returncode == 1
    assert f"state_path {agent.state_path} is in use by another compute-agent" in second.stderr
    assert f"(process {agent.process.pid})" in second.stderr
    agent.kill()
    assert agent.once().returncode == 0


def test_placement_lost_and_back_is_logged_once_each(tmp_path, own_placement) -> None:
    own_placement.start()
    options = "update_resources_interval = 1\nperiodic_fuzzy_delay = 0\n"
    options += "[compute]\nresource_provider_association_refresh = 1\n"
    with AgentProcess(tmp_path, own_placement.url, options=options) as agent:
        agent.until_logged("to Placement")
        own_placement.stop()
        agent.until_logged("no answer to GET")
        time.sleep(3.2)  # three more periods that fail
        own_placement.start()
        agent.until_logged("resolved: no answer to GET")
        time.sleep(1.2)
        assert agent.log.count("no answer to GET") == 2
        warnings = [line for line in agent.log.splitlines() if " WARNING " in line]
        slow = ("period took longer", "Starting without an answer")  # on a busy machine
        assert len([line for line in warnings if not any(word in line for word in slow)]) == 1
