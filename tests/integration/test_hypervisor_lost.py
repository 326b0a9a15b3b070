"""A real agent on a real libvirtd that is killed or hung: disabled at once, enabled when it is back."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.registry.checks import StatusChange
from tests.integration.switched import (
    has_trait,
    is_known,
    options,
    record_of,
    registry_of,
    root_of,
    status_of,
)
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


@pytest.mark.parametrize("how", ["is not there", "hangs"])
def test_a_host_that_starts_without_its_hypervisor_is_disabled(
    agent, placement, libvirtd, how
) -> None:
    root = root_of(agent)
    agent.kill()
    assert not has_trait(placement, root)
    harm(libvirtd, how)
    agent.start()
    eventually(lambda: has_trait(placement, root))
    eventually(lambda: (record_of(agent).disabled_reason or "").startswith("AUTO: "))
    mend(libvirtd, how)
    eventually(lambda: not has_trait(placement, root))
    eventually(lambda: reported(agent))


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


@pytest.mark.faults
def test_enabled_soon_after_a_long_absence(agent, placement, libvirtd) -> None:
    """An attempt to connect comes each second however long it was away."""
    root = root_of(agent)
    libvirtd.kill9()
    eventually(lambda: has_trait(placement, root))
    time.sleep(20)
    libvirtd.start()
    eventually(lambda: not has_trait(placement, root))


def reported(agent: AgentProcess) -> bool:
    return agent.has_reported() and status_of(agent)["nodes"][0]["ok"]


def harm(libvirtd: PrivateLibvirtd, how: str) -> None:
    libvirtd.sigstop() if how == "hangs" else libvirtd.kill9()


def mend(libvirtd: PrivateLibvirtd, how: str) -> None:
    libvirtd.sigcont() if how == "hangs" else libvirtd.start()


@pytest.mark.parametrize("how", ["is killed", "hangs"])
def test_lost_it_disables_and_back_it_enables(agent, placement, libvirtd, how) -> None:
    root = root_of(agent)
    harm(libvirtd, how)
    eventually(lambda: has_trait(placement, root))  # nobody waits for a period
    eventually(lambda: (record_of(agent).disabled_reason or "").startswith("AUTO: "))
    eventually(lambda: (status_of(agent)["service"]["reason"] or "").startswith("AUTO: "))
    assert how == "hangs" or libvirtd.uri in record_of(agent).disabled_reason
    mend(libvirtd, how)
    eventually(lambda: not has_trait(placement, root))
    eventually(lambda: not record_of(agent).disabled)


def test_an_operators_decision_is_not_touched(agent, placement, libvirtd) -> None:
    root = root_of(agent)
    registry_of(agent).set_status(StatusChange("testhost", disabled=True, reason="new disks"))
    eventually(lambda: has_trait(placement, root))
    libvirtd.kill9()
    time.sleep(2)
    libvirtd.start()
    time.sleep(12)  # long enough for a return to count
    assert has_trait(placement, root)
    assert record_of(agent).disabled_reason == "new disks"


def test_lost_while_the_agent_was_killed(agent, placement, libvirtd) -> None:
    root = root_of(agent)
    libvirtd.kill9()
    eventually(lambda: has_trait(placement, root))
    agent.kill()
    libvirtd.start()
    agent.start()
    eventually(lambda: not has_trait(placement, root))


def test_a_libvirtd_that_flaps_leaves_the_host_disabled(agent, placement, libvirtd) -> None:
    root = root_of(agent)
    libvirtd.kill9()
    eventually(lambda: has_trait(placement, root))
    mark = placement.mark()
    for _ in range(2):
        libvirtd.start()
        time.sleep(2)
        libvirtd.kill9()
    time.sleep(2)
    assert has_trait(placement, root)
    assert not [r for r in placement.since(mark) if r.is_write and r.path.endswith("/traits")]
