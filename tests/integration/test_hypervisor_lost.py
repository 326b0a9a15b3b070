"""A real agent on a real libvirtd that is killed or hung: disabled at once, enabled when it is back."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.switched import has_trait, is_known, options, record_of, root_of, status_of
from tests.servers.agent import AgentProcess
from tests.servers.libvirtd import PrivateLibvirtd, private_libvirtd
from tests.servers.placement import RealPlacement
from tests.waiting import eventually

LIBVIRT = """
{group}
connection_timeout = 2
call_timeout = 15
keepalive_interval = 1
keepalive_count = 2
images_type = qcow2
"""


@pytest.fixture
def libvirtd() -> Iterator[PrivateLibvirtd]:
    with private_libvirtd() as daemon:
        yield daemon


def agent_of(directory: Path, placement: RealPlacement, libvirtd: PrivateLibvirtd) -> AgentProcess:
    more = LIBVIRT.format(group=libvirtd.group)
    return AgentProcess(
        directory, placement.url, options=options(more=more), compute_driver="libvirt"
    )


@pytest.fixture
def agent(tmp_path: Path, placement: RealPlacement, libvirtd: PrivateLibvirtd):
    with agent_of(tmp_path, placement, libvirtd) as agent:
        agent.until(lambda: reported(agent))
        agent.until(lambda: is_known(agent))
        yield agent


def test_a_stop_leaves_a_libvirtd_that_hangs_behind(tmp_path, placement, libvirtd) -> None:
    patient = "call_timeout = 3600\nconnection_timeout = 3600\nkeepalive_interval = 0\n"
    agent = agent_of(tmp_path, placement, libvirtd)
    agent.options = "graceful_shutdown_timeout = 3600\n" + options(
        more=f"{libvirtd.group}{patient}images_type = qcow2\n"
    )
    with agent:
        agent.until(lambda: reported(agent), 60)
        libvirtd.sigstop()
        agent.send(signal.SIGHUP)  # asks for a period
        time.sleep(2)
        assert agent.stop() == 0
        libvirtd.sigcont()
    assert "does not return from" in agent.log


def reported(agent: AgentProcess) -> bool:
    return agent.has_reported() and status_of(agent)["nodes"][0]["ok"]


def until_lost(agent: AgentProcess, placement: RealPlacement, root: str) -> None:
    eventually(lambda: has_trait(placement, root))  # nobody waits for a period
    eventually(lambda: (record_of(agent).disabled_reason or "").startswith("AUTO: "))


def until_back(agent: AgentProcess, placement: RealPlacement, root: str) -> None:
    eventually(lambda: not has_trait(placement, root))
    eventually(lambda: not record_of(agent).disabled)


def test_lost_it_disables_and_back_it_enables(agent, placement, libvirtd) -> None:
    root = root_of(agent)
    libvirtd.kill9()
    until_lost(agent, placement, root)
    assert libvirtd.uri in record_of(agent).disabled_reason
    eventually(lambda: (status_of(agent)["service"]["reason"] or "").startswith("AUTO: "))
    agent.kill()  # a return that nobody sees
    libvirtd.start()
    agent.start()
    until_back(agent, placement, root)
    libvirtd.sigstop()
    until_lost(agent, placement, root)
    libvirtd.sigcont()
    until_back(agent, placement, root)


def test_a_host_that_starts_without_its_hypervisor_is_disabled(agent, placement, libvirtd) -> None:
    root = root_of(agent)
    agent.kill()
    assert not has_trait(placement, root)
    libvirtd.kill9()
    agent.start()
    until_lost(agent, placement, root)
    libvirtd.start()
    until_back(agent, placement, root)
    eventually(lambda: reported(agent))
