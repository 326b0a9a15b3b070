"""The drivers that are shipped keep the rules of the kit."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from driverkit.scripted import FakeDriver
from driverkit.testing import DriverContract
from drivers.api import Device, DeviceDriver, DriverContext, ProviderTree
from drivers.libvirt.driver import LibvirtDriver
from tests.integration.agent_host import gpus_on_children
from tests.integration.test_readme import block

SCRIPT = """
nodes:
  "{host}":
    inventory: {VCPU: 16}
    traits: [HW_CPU_X86_AVX2, CUSTOM_SCRIPTED]
    aggregates: [6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01]
    children:
      gpu{n}: {count: 2, inventory: {VGPU: 8}}
    sharing:
      nfs:
        inventory: {DISK_GB: 20480}
        aggregates: [6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01]
"""
LOST = SCRIPT + "not_ready: the hypervisor is restarting\n"
ONE_CARD_LESS = SCRIPT.replace("count: 2", "count: 1")
MANY_CARDS = SCRIPT.replace("count: 2", "count: {devices}")
OLD_ROOT = "6a2d1c34-58b1-4a6d-9a5c-0f6a4d8f1e02"
GUEST = "5cb3a1ba-7e31-4f6b-a6c1-9d4c5f6e7a01"


class Script:
    """The file that stands for a hypervisor."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.edits = 0
        self.write(SCRIPT)

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self.edits += 1
        later = self.path.stat().st_mtime_ns + self.edits  # two edits in one tick of the clock
        os.utime(self.path, ns=(later, later))

    def lose(self):
        self.write(LOST)
        return lambda: self.write(SCRIPT)


class TestFakeDriver(DriverContract):
    @pytest.fixture
    def script(self, tmp_path: Path) -> Script:
        return Script(tmp_path / "script.yaml")

    @pytest.fixture
    def driver_config(self, script: Script) -> str:
        return f"[fake]\nscript = {script.path}\n"

    @pytest.fixture
    def make_driver(self, driver_context):
        return lambda: FakeDriver(driver_context)

    @pytest.fixture
    def lose_backend(self, script: Script):
        return script.lose

    @pytest.fixture
    def lose_device(self, script: Script):
        return lambda: script.write(ONE_CARD_LESS)

    @pytest.fixture
    def make_big_driver(self, tmp_path: Path):
        def make(devices: int) -> FakeDriver:
            path = tmp_path / f"{devices}.yaml"
            path.write_text(MANY_CARDS.replace("{devices}", str(devices)))
            conf = SimpleNamespace(fake=SimpleNamespace(script=str(path)))
            return FakeDriver(DriverContext("host1", tmp_path, conf))

        return make

    @pytest.fixture
    def reshape_case(self, script: Script):
        script.write(gpus_on_children(vcpus=16, vgpus=8))
        tree = ProviderTree()
        tree.new_root("host1", OLD_ROOT)
        tree.update_inventory("host1", {"VCPU": {"total": 16}, "VGPU": {"total": 16}})
        held = {"host1": {"resources": {"VCPU": 2, "VGPU": 5}}}
        return tree, {GUEST: {"allocations": held}}


class TestFakeDriverByDefault(DriverContract):
    """The script that is shipped: NUMA nodes, SR-IOV, shared storage."""

    @pytest.fixture
    def make_driver(self, driver_context):
        return lambda: FakeDriver(driver_context)


class TwoSources(DeviceDriver):
    def devices(self, node):
        return {
            "disks": [Device(name, {"CUSTOM_DISK": 1}) for name in ("sda", "sdb")],
            "gpus": [Device("gpu0", {"VGPU": 4})],
        }


class TestDeviceDriverWhoseLastSourceHasOneDevice(DriverContract):
    """Without that device the source lists nothing."""

    @pytest.fixture
    def make_driver(self, driver_context):
        return lambda: TwoSources(driver_context)


class TestLibvirtDriver(DriverContract):
    """On libvirt's own test driver, whose host is always there."""

    @pytest.fixture
    def driver_config(self) -> str:
        return "[libvirt]\nvirt_type = test\n"

    @pytest.fixture
    def make_driver(self, driver_context):
        return lambda: LibvirtDriver(driver_context)


class TestTheReadmesDriver(DriverContract):
    """On the disks of this machine."""

    @pytest.fixture
    def make_driver(self, driver_context):
        names: dict = {}
        exec(block(".. code-block:: python"), names)
        return lambda: names["Disks"](driver_context)
