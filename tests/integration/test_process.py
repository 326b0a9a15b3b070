"""The real process against a real Placement: exit codes, signals, and what the log says."""

from __future__ import annotations

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


def test_once_reports_and_exits_0(agent: AgentProcess, placement: RealPlacement) -> None:
    done = agent.once()
    assert done.returncode == 0, done.stderr
    assert set(placement.stranger.inventory(own_uuid(agent))) == {"VCPU", "MEMORY_MB"}


def test_a_second_once_writes_nothing(agent: AgentProcess, placement: RealPlacement) -> None:
    agent.once()
    mark = placement.mark()
    assert agent.once().returncode == 0
    assert not [str(request) for request in placement.since(mark) if request.is_write]
    assert placement.since(mark)


def assert_ended(done: subprocess.CompletedProcess[str], code: int, said: str) -> None:
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_once_without_placement_exits_1(agent: AgentProcess) -> None:
    agent.placement_url = f"http://127.0.0.1:{free_port()}"
    assert_ended(agent.once(), 1, "no answer to GET /resource_providers")


def test_once_with_a_driver_that_raises_exits_1_and_names_it(agent: AgentProcess) -> None:
    agent.make_sick("raise RuntimeError('a screw is loose')")
    assert_ended(agent.once(), 1, "driver sick: RuntimeError: a screw is loose")


def test_a_driver_that_can_not_start_now_exits_1_and_may_clean_up(stuck: AgentProcess) -> None:
    stuck.compute_driver = "notyet"
    done = stuck.once()
    said = "driver notyet could not start: ConnectionRefusedError: nobody at the other end"
    assert_ended(done, 1, said)
    assert "cleaned up" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "update_resource_interval = 5\n",
            "agent.conf: no option update_resource_interval in [DEFAULT], whose options are ",
        ),
        ("[compute]\nowner_trait = lower\n", "owner_trait"),
        ("host\n", "agent.conf"),
    ],
)
def test_a_bad_configuration_exits_2_and_says_where(
    agent: AgentProcess, placement: RealPlacement, options: str, said: str
) -> None:
    agent.options = options
    mark = placement.mark()
    done = agent.once()
    assert_ended(done, 2, said)
    assert placement.since(mark) == []


def test_groups_that_are_not_ours_are_somebody_elses(agent: AgentProcess) -> None:
    agent.options = "rpc_response_timeout = 9\n[api_database]\nconnection = sqlite://\n"
    assert agent.once().returncode == 0


def test_a_typo_in_the_login_exits_2_and_says_where(agent: AgentProcess) -> None:
    agent.write()
    agent.config.write_text(agent.config.read_text().replace("\nendpoint =", "\nendpiont ="))
    assert_ended(
        agent.once(), 2, "agent.conf: no option endpiont in [placement], whose options are "
    )


def test_a_configuration_file_that_is_not_there_exits_2(agent: AgentProcess) -> None:
    assert_ended(
        agent.once("--config-file", "/nonexistent/agent.conf"),
        2,
        "no such configuration file: /nonexistent/agent.conf",
    )


def test_an_unknown_driver_exits_2_and_lists_those_there_are(agent: AgentProcess) -> None:
    agent.compute_driver = "libvrit"
    done = agent.once()
    assert_ended(done, 2, "no driver 'libvrit' is installed; is libvirt meant?")
    assert "fake, libvirt" in done.stderr


def test_no_way_to_log_in_exits_2(agent: AgentProcess) -> None:
    agent.write()
    agent.config.write_text(agent.config.read_text().partition("[placement]")[0])
    assert_ended(agent.once(), 2, "[placement] auth_type is not set")


def test_a_damaged_compute_id_exits_2_and_is_left_alone(agent: AgentProcess) -> None:
    agent.write()
    (agent.state_path / FILE_NAME).write_text("1234\n")
    assert_ended(agent.once(), 2, str(agent.state_path / FILE_NAME))
    assert (agent.state_path / FILE_NAME).read_text() == "1234\n"


def test_a_state_path_that_can_not_be_written_exits_2(agent: AgentProcess) -> None:
    # A file where the directory should be stops root as well.
    assert_ended(
        agent.once("--state-path", str(agent.config)),
        2,
        f"{agent.config / FILE_NAME} can't be written: Not a directory",
    )


# -- the running process


def test_sigterm_ends_it_at_once_with_0(agent: AgentProcess) -> None:
    agent.options = "update_resources_interval = 3600\nperiodic_fuzzy_delay = 0\n"
    agent.start()
    agent.until_logged("to Placement")
    assert agent.stop() == 0
    assert agent.log.endswith("Stopped\n")


def test_sigterm_in_a_period_lets_it_end(agent: AgentProcess, placement: RealPlacement) -> None:
    agent.make_sick("print('sleeping', flush=True); time.sleep(1.5)")
    agent.start()
    agent.until_logged("sleeping")
    assert agent.stop() == 0


@pytest.mark.parametrize("driver", ["sick", "stuck"])
def test_sigterm_does_not_wait_for_a_driver_that_hangs(stuck: AgentProcess, driver: str) -> None:
    stuck.make_sick("print('stuck now', flush=True); time.sleep(100000)")
    stuck.compute_driver = driver
    stuck.options += "graceful_shutdown_timeout = 1\n"
    stuck.start()
    stuck.until_logged("stuck now")
    assert stuck.stop() == 1
    assert "Not stopped after graceful_shutdown_timeout (1 s): exiting now" in stuck.log
    assert "in update_provider_tree" in stuck.log, "where it hangs"


def test_sighup_asks_for_a_period(agent: AgentProcess, placement: RealPlacement) -> None:
    agent.options = "update_resources_interval = -1\nperiodic_fuzzy_delay = 0\n"
    agent.start()
    agent.until_logged("to Placement", times=1)
    (agent.directory / "script.yaml").write_text(agent.script.replace("VCPU: 4", "VCPU: 6"))
    time.sleep(0.3)
    assert placement.stranger.inventory(own_uuid(agent))["VCPU"]["total"] == 4
    agent.send(signal.SIGHUP)
    agent.until_logged("set 1 inventory (", times=1)
    assert placement.stranger.inventory(own_uuid(agent))["VCPU"]["total"] == 6


def test_sighup_takes_over_what_may_change_and_names_what_needs_a_restart(
    agent: AgentProcess, placement: RealPlacement
) -> None:
    agent.options = "update_resources_interval = 3600\nperiodic_fuzzy_delay = 0\n"
    agent.options += "[registry]\nreport_interval = 3600\nservice_down_time = 9000\n"
    agent.start()
    agent.until_logged("to Placement", times=1)
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


def test_a_configuration_that_cant_be_used_changes_nothing_at_a_sighup(
    agent: AgentProcess,
) -> None:
    agent.options = "update_resources_interval = 3600\nperiodic_fuzzy_delay = 0\n"
    agent.start()
    agent.until_logged("to Placement", times=1)
    refused = "The configuration was not reloaded, the previous one stays in use: "
    for times, wrong in enumerate(("graceful_shutdown_timeout", "debug"), start=1):
        agent.options = f"update_resources_interval = 1\n{wrong} = soon\n"
        agent.write()
        agent.send(signal.SIGHUP)
        agent.until_logged(refused, times=times)
        assert wrong in agent.log.rpartition(refused)[2]
    assert "changed from" not in agent.log
    assert agent.stop() == 0


def test_sigusr2_writes_what_runs_where_and_no_secret(agent: AgentProcess) -> None:
    pytest.importorskip("oslo_reports")
    agent.options += "[registry]\nhost_key = the-secret-key\n"
    agent.start()
    agent.until_logged("to Placement", times=1)
    agent.send(signal.SIGUSR2)
    agent.until_logged("token = ***", times=1)
    agent.until_logged("host_key = ***", times=1)
    for heading in ("Package", "Threads", "Processes", "Configuration of compute-agent"):
        assert re.search(rf"(?m)^====\s+{heading}\s+====$", agent.log)
    assert re.search(r"(?m)^version = ", agent.log)
    assert "the-secret-key" not in agent.log


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


def test_signals_of_other_services_end_nothing_and_the_version_is_told(
    agent: AgentProcess,
) -> None:
    agent.start()
    agent.until_logged("to Placement", times=1)
    agent.send(signal.SIGUSR1)
    agent.until_logged("Ignoring SIGUSR1")
    assert agent.process is not None
    assert agent.process.poll() is None
    assert f" compute_agent.service [-] compute-agent {version()}\n" in agent.log
    assert json.loads((agent.state_path / "status.json").read_text())["agent_version"] == version()
    assert agent.stop() == 0


def test_a_second_process_on_the_same_state_is_refused_and_told_who_is_there(
    agent: AgentProcess,
) -> None:
    agent.start()
    agent.until_logged("to Placement", times=1)
    assert agent.process is not None
    second = agent.once()
    assert second.returncode == 1
    assert f"state_path {agent.state_path} is in use by another compute-agent" in second.stderr
    assert f"(process {agent.process.pid})" in second.stderr
    agent.kill()
    assert agent.once().returncode == 0


def test_a_password_that_all_may_read_is_told(agent: AgentProcess) -> None:
    agent.options = "transport_url = kombu+memory://agent:pa55@/\n"
    agent.write()
    agent.config.chmod(0o644)
    assert "every user may read it: chmod o-r" in agent.once().stderr


def test_periods_that_fell_out_are_counted(agent: AgentProcess) -> None:
    agent.make_sick("deed.unlink(); time.sleep(2.3)")
    with agent:
        # More of them where the machine is slow.
        left_out = (
            r"The period took longer than update_resources_interval \(1 s\): ([2-9]|\d\d+) skipped"
        )
        agent.until(lambda: re.search(left_out, agent.log))


def test_placement_lost_and_back_is_logged_once_each(
    tmp_path: Path, own_placement: RealPlacement
) -> None:
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
