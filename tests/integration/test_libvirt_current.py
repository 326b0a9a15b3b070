"""What changes on a real libvirt is in Placement long before the next period."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import libvirt
import pytest

from agent.loop import Loop
from drivers.api import DriverContext, ProviderTree
from drivers.libvirt.connection.host import Host, load_binding
from drivers.libvirt.connection.session import Deadlines
from drivers.libvirt.driver import LibvirtDriver
from tests.agents import Agent
from tests.hosts import context
from tests.integration.switched import options, root_of
from tests.integration.test_hypervisor_lost import reported
from tests.servers.agent import AgentProcess
from tests.servers.libvirtd import PrivateLibvirtd
from tests.servers.placement import RealPlacement
from tests.unit.libvirt.test_kept_current import QUIET
from tests.waiting import eventually

HOUR = 3600.0


def disk_gb(placement: RealPlacement, root: str) -> int | None:
    found = placement.stranger.inventory(root).get("DISK_GB")
    return None if found is None else int(found["total"])


# -- libvirt's test driver, in this process: its pools and devices are this process's own


class Looping:
    """An agent with its real loop and an hour between periods: only events make more."""

    def __init__(self, placement: RealPlacement, directory: Path, text: str) -> None:
        self.loop = Loop()
        made = context(directory, text)
        wakes = DriverContext(made.host, made.state_path, made.conf, self.loop.refresh)
        self.driver = LibvirtDriver(wakes)
        self.agent = Agent(placement, self.driver)
        self.periods = 0

    def period(self) -> bool:
        report = self.agent.period(1.0)
        self.periods += 1
        return report.ok


@pytest.fixture
def looping(placement: RealPlacement, tmp_path: Path) -> Iterator[Looping]:
    """With an RBD pool that is not there yet."""
    text = "[libvirt]\nvirt_type = test\nimages_type = rbd\nimages_rbd_pool = vms\n"
    looping = Looping(placement, tmp_path, text)
    looping.driver.init_host("host")
    thread = Thread(target=looping.loop.run, args=(looping.period, HOUR), daemon=True)
    thread.start()
    eventually(lambda: looping.periods)
    yield looping
    looping.loop.stop()
    thread.join(30)
    looping.driver.cleanup_host("host")


@pytest.fixture
def other() -> Iterator[libvirt.virConnect]:
    """Somebody else's connection to the same test driver."""
    connection = libvirt.open("test:///default")
    yield connection
    connection.close()


VPORT = """<device><parent>scsi_host2</parent><capability type='scsi_host'>
<capability type='fc_host'><wwnn>2000000012341234</wwnn><wwpn>1000000012341234</wwpn></capability>
</capability></device>"""


def test_a_device_that_is_plugged_or_unplugged_makes_a_period(looping, other) -> None:
    before = looping.periods
    device = other.nodeDeviceCreateXML(VPORT, 0)
    eventually(lambda: looping.periods > before)
    before = looping.periods
    device.destroy()
    eventually(lambda: looping.periods > before)


# -- a real libvirtd, and the agent as a process


def in_its_mounts(libvirtd: PrivateLibvirtd, *command: str) -> None:
    """What libvirtd sees as a disk; it ends with libvirtd's mount namespace."""
    subprocess.run(["nsenter", "--mount", "-t", str(libvirtd.pid), *command], check=True)


@pytest.fixture
def images(libvirtd: PrivateLibvirtd, tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 GiB that only libvirtd sees, as one of a far host would be."""
    path = tmp_path / "images"
    path.mkdir()
    in_its_mounts(libvirtd, "mount", "-t", "tmpfs", "-o", "size=3g", "tmpfs", str(path))
    yield path
    in_its_mounts(libvirtd, "umount", "-l", str(path))


def test_a_pool_and_its_new_size_are_in_placement_at_once(
    libvirtd: PrivateLibvirtd, images: Path, placement: RealPlacement, tmp_path: Path
) -> None:
    more = f"instances_path = {images}\n"
    group = libvirtd.group
    text = options(more=group).replace("[registry]", more + "[registry]")
    agent = AgentProcess(tmp_path, placement.url, options=text, compute_driver="libvirt")
    with agent:
        agent.until(lambda: reported(agent))
        root = root_of(agent)
        assert disk_gb(placement, root) not in (3, 5)  # the file system as the agent sees it
        connection = libvirt.open(libvirtd.uri)
        xml = f"<pool type='dir'><name>images</name><target><path>{images}</path></target></pool>"
        pool = connection.storagePoolCreateXML(xml, 0)
        eventually(lambda: disk_gb(placement, root) == 3)
        in_its_mounts(libvirtd, "mount", "-o", "remount,size=5g", str(images))
        pool.refresh(0)
        eventually(lambda: disk_gb(placement, root) == 5)
        pool.destroy()
        connection.close()
        shown = agent.computectl("status", "--sources").stdout
        listed = json.loads(agent.computectl("status", "--sources", "-f", "json").stdout)
        assert listed[0]["took"]["storage pools"] >= 0
        assert "storage pools: " in shown and "capabilities: " in shown
        assert all(line.endswith(" ms") for line in shown.splitlines() if line.startswith("    "))


class Counting:
    """A libvirt module, or a connection of it, whose calls are listed by name."""

    def __init__(self, real: Any, calls: list[str]) -> None:
        self._real = real
        self._calls = calls

    def open(self, uri: str) -> Counting:
        return Counting(self._real.open(uri), self._calls)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if isinstance(self._real, libvirt.virConnect):
            self._calls.append(name)
        return found


def test_a_quiet_period_costs_a_handful_of_calls(libvirtd: PrivateLibvirtd, tmp_path: Path) -> None:
    calls: list[str] = []
    host = Host(libvirtd.uri, Counting(load_binding(), calls), Deadlines(20, 60))
    text = libvirtd.group
    driver = LibvirtDriver(context(tmp_path, text), host)
    (node,) = driver.get_available_nodes()
    tree = ProviderTree()
    tree.new_root(node, str(uuid.uuid4()))
    driver.update_provider_tree(tree, node)
    calls.clear()
    driver.update_provider_tree(ProviderTree(tree.freeze()), node)
    driver.cleanup_host("host")
    asked = [name for name in calls if name.startswith(("get", "list", "baseline"))]
    assert asked == QUIET
    assert tree.has_traits(node, ["COMPUTE_STORAGE_BUS_VIRTIO", "COMPUTE_GRAPHICS_MODEL_VGA"])
