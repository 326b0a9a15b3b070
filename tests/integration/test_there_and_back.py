"""From nova-compute's reporting to this agent's, back, and to both: walked with Nova's own tracker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent_host import Here
from tests.servers.placement import RealPlacement
from tests.servers.reference import NovaBeside, reference_python

ROOT, NODE = "c0ffee00-0000-4000-8000-00000000000a", "compute1"
OWNER = "CUSTOM_OWNER_COMPUTE_AGENT"
INSTEAD = (
    f"nodes: {{{NODE}: {{inventory: {{VCPU: 8}}, children: {{gpu: {{inventory: {{VGPU: 4}}}}}}}}}}"
)
BESIDE = (
    f"nodes: {{{NODE}: {{traits: [CUSTOM_CARDS], children: {{card: {{inventory: {{FPGA: 1}}}}}}}}}}"
)
ATTACHED = (
    "[compute]\nroot_provider = attach\nremoved_child_delay = 1\n"
    "resource_provider_association_refresh = 1\n"
)

pytestmark = pytest.mark.needs("nova")


@pytest.fixture
def nova(placement: RealPlacement, tmp_path: Path) -> Iterator[NovaBeside]:
    python = reference_python()
    assert python is not None
    made = NovaBeside(python, placement.url, tmp_path / "nova.log")
    yield made
    made.stop()


@pytest.fixture
def host(placement: RealPlacement, nova: NovaBeside, tmp_path: Path) -> Here:
    """nova-compute has reported it; the agent has its UUID, and has never run."""
    for _ in range(2):
        nova.period()
    host = Here(tmp_path / "agent", placement.url, NODE)
    host.compute_id.parent.mkdir(parents=True)
    host.compute_id.write_text(f"{ROOT}\n")
    return host


def instead(host: Here) -> None:
    host.configure()
    host.script(INSTEAD)
    for _ in range(2):
        assert host.agent().code == 0


def test_a_host_goes_to_the_agent_and_back_with_its_guests(
    host: Here, nova: NovaBeside, placement: RealPlacement
) -> None:
    stranger = placement.stranger
    assert "COMPUTE_NODE" in stranger.traits(ROOT) and OWNER not in stranger.traits(ROOT)
    instead(host)
    assert OWNER in stranger.traits(ROOT)
    guest = stranger.put_allocation({ROOT: {"VCPU": 2}})
    stranger.add_trait(ROOT, "COMPUTE_STATUS_DISABLED")
    before = stranger.inventory(ROOT), stranger.traits(ROOT)

    said = host.ctl("retire", "--hand-back")
    assert (said.code, said.err) == (0, "")
    words = " ".join(said.out.split())
    assert f"{NODE} ({ROOT}) is handed back to nova-compute: {OWNER} removed" in words
    assert f"openstack compute service set --disable {NODE} nova-compute" in words
    assert (stranger.inventory(ROOT), stranger.traits(ROOT)) == (before[0], before[1] - {OWNER})
    assert stranger.allocation(guest)["allocations"][ROOT]["resources"] == {"VCPU": 2}

    nova.period()
    assert "COMPUTE_NODE" in stranger.traits(ROOT)
    said = host.ctl("audit", "--all")
    assert "provider delete" not in said.out + said.err
    # Whoever retires it now would take nova-compute's root.
    said = host.ctl("retire", "--yes")
    words = " ".join(said.out.split())
    assert f"{ROOT} is not removed: it has COMPUTE_NODE, but no owner trait" in words
    assert ROOT in placement.uuids().values()

    # And to the agent once more, with the state of then.
    instead(host)
    assert OWNER in stranger.traits(ROOT)
    assert stranger.allocation(guest)["allocations"][ROOT]["resources"] == {"VCPU": 2}


def test_a_root_that_was_the_agents_is_novas_once_it_is_attached(
    host: Here, nova: NovaBeside, placement: RealPlacement
) -> None:
    stranger = placement.stranger
    instead(host)
    host.configure(more=ATTACHED)
    host.script(BESIDE)
    said = host.agent()
    assert said.code == 0
    assert "root_provider was changed from own to attach" in said.err
    assert {"COMPUTE_NODE", "CUSTOM_CARDS"} <= stranger.traits(ROOT)
    assert OWNER not in stranger.traits(ROOT)
    assert stranger.inventory(ROOT)["VCPU"]["total"] == 8
    for _ in range(2):
        nova.period()
    rows = host.ctl("retire", "-f", "json").json()
    assert ROOT not in {row["uuid"] for row in rows}
    assert f"{NODE}_card" in {row["provider"] for row in rows}


def test_retiring_an_attached_host_takes_the_steps_of_a_child_that_goes(
    host: Here, nova: NovaBeside, placement: RealPlacement
) -> None:
    """nova-compute, which has the children in its copy, never fails."""
    host.compute_id.unlink()
    host.configure(more=ATTACHED)
    host.report(BESIDE)
    nova.period()
    assert f"{NODE}_card" in placement.uuids()
    said = host.ctl("retire", "--yes")
    assert said.code == 0, said
    assert "1 provider stays outside the tree, emptied, for" in said.err
    assert f"{NODE}_card" not in " ".join(placement.uuids())
    assert "CUSTOM_CARDS" not in placement.stranger.traits(ROOT)
    nova.period()
