"""libvirtd upgraded, taken back, and restarted while a period waits for its answers.

There is one libvirtd on a machine: as another version it tells another version, of itself and of
QEMU, and has the same of everything else.
"""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.ownership.policy import DISABLED
from drivers.libvirt.facts.guest_models import IGB, VIRTIO_SOUND
from tests.integration.foreign import FOREIGN_AGGREGATE, tree_of
from tests.integration.switched import root_of, status_of
from tests.servers.agent import AgentProcess
from tests.servers.libvirtd import PrivateLibvirtd, private_libvirtd
from tests.servers.placement import RealPlacement

pytestmark = [pytest.mark.faults, pytest.mark.needs("gcc")]

SOURCE = Path(__file__).with_name("other_versions.c")
LATER = {"LIBVIRT_SAYS": "10004000", "QEMU_SAYS": "8002000"}
ITS_TRAITS = {IGB, VIRTIO_SOUND}
OPTIONS = """\
update_resources_interval = 1
periodic_fuzzy_delay = 0
[compute]
resource_provider_association_refresh = 2
{group}
images_type = qcow2
call_timeout = 120
keepalive_interval = 0
"""
"""Nobody gives up a libvirtd that hangs, before it is killed."""


@pytest.fixture
def libvirtd(tmp_path: Path) -> Iterator[PrivateLibvirtd]:
    library = tmp_path / "other_versions.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    with private_libvirtd() as daemon:
        daemon.environment["LD_PRELOAD"] = str(library)
        daemon.stop()
        daemon.start()
        yield daemon


@pytest.fixture
def agent(
    tmp_path: Path, placement: RealPlacement, libvirtd: PrivateLibvirtd
) -> Iterator[AgentProcess]:
    """All reported, and somebody else's things beside it."""
    options = OPTIONS.format(group=libvirtd.group)
    (tmp_path / "host").mkdir()
    agent = AgentProcess(
        tmp_path / "host", placement.url, options=options, compute_driver="libvirt"
    )
    with agent:
        status = agent.state_path / "status.json"
        agent.until(lambda: status.exists() and status_of(agent)["nodes"][0]["ok"])
        root, stranger = root_of(agent), placement.stranger
        stranger.add_trait(root, "CUSTOM_FOREIGN")
        stranger.set_aggregates(root, {FOREIGN_AGGREGATE})
        child = stranger.create_child(root, "foreign-child")
        stranger.set_inventory(child, {"CUSTOM_FOREIGN_THING": {"total": 3}})
        agent.until(lambda: DISABLED not in stranger.traits(root))
        yield agent


def upgraded(libvirtd: PrivateLibvirtd) -> None:
    libvirtd.stop()
    libvirtd.environment |= LATER
    libvirtd.start()


def upgraded_in_the_middle_of_a_period(libvirtd: PrivateLibvirtd) -> None:
    """A period that began meanwhile waits for an answer that never comes."""
    libvirtd.sigstop()
    time.sleep(3)
    libvirtd.kill9()
    libvirtd.environment |= LATER
    libvirtd.start()


def taken_back(libvirtd: PrivateLibvirtd) -> None:
    libvirtd.stop()
    for name in LATER:
        del libvirtd.environment[name]
    libvirtd.start()


def without_totals(placement: RealPlacement, root: str) -> dict[str, Any]:
    """The tree; a machine's memory is not the same all the time, but what it has is."""
    tree = tree_of(placement, root)
    return {name: {**one, "inventory": set(one["inventory"])} for name, one in tree.items()}


@pytest.mark.parametrize(
    "upgrade", [upgraded, upgraded_in_the_middle_of_a_period], ids=lambda how: how.__name__
)
def test_the_traits_of_its_version_come_and_go_and_nothing_else_changes(
    agent: AgentProcess,
    placement: RealPlacement,
    libvirtd: PrivateLibvirtd,
    upgrade: Callable[[PrivateLibvirtd], None],
) -> None:
    root = root_of(agent)
    before = without_totals(placement, root)
    [own] = [one for one in before.values() if one["parent"] is None]
    assert not ITS_TRAITS & own["traits"]
    assert "CUSTOM_FOREIGN" in own["traits"]

    upgrade(libvirtd)
    own["traits"] |= ITS_TRAITS
    agent.until(lambda: without_totals(placement, root) == before, 180)

    taken_back(libvirtd)
    own["traits"] -= ITS_TRAITS
    agent.until(lambda: without_totals(placement, root) == before, 180)
