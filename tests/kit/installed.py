"""Distributions with a driver, as pip would leave them: a module and its entry point."""

from __future__ import annotations

from pathlib import Path

SETS_ALL_TRAITS = """\
from drivers.api import ComputeDriver


class AllTraits(ComputeDriver):
    def get_available_nodes(self):
        return [self.context.host]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        provider_tree.update_inventory(nodename, {"VCPU": {"total": 8}})
        provider_tree.update_traits(nodename, ["HW_CPU_X86_AVX2"])
"""
LISTS = """\
from drivers.api import Device, DeviceDriver


class Lists(DeviceDriver):
    def devices(self, node):
        yield Device("sda", {"CUSTOM_LOCAL_DISK": 1}, ["COMPUTE_STATUS_DISABLED", "CUSTOM_FAST"])
        yield Device("sdb", {"CUSTOM_LOCAL_DISK": 1}, parent="sda", healthy=False)
"""
TWO_SOURCES = """\
from drivers.api import Device, DeviceDriver


class TwoSources(DeviceDriver):
    def devices(self, node):
        disks = [Device("sda", {"CUSTOM_LOCAL_DISK": 1}), Device("sdb", {"CUSTOM_LOCAL_DISK": 1})]
        return {"disks": disks, "cards": [Device("card0", {"CUSTOM_CARD": 1})]}
"""
REMOVES_NOTHING = """\
from drivers.api import Device, DeviceDriver


class RemovesNothing(DeviceDriver):
    def devices(self, node):
        return [Device("sda"), Device("sdb")]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        for device in self.devices(nodename):
            name = f"{nodename}_{device.name}"
            if not provider_tree.exists(name):
                provider_tree.new_child(name, nodename)
            provider_tree.update_inventory(name, {"CUSTOM_LOCAL_DISK": {"total": 1}})
"""
EXITS_LATER = """\
import os

from drivers.api import ComputeDriver


class ExitsLater(ComputeDriver):
    calls = 0

    def get_available_nodes(self):
        ExitsLater.calls += 1
        if ExitsLater.calls > 3:
            os._exit(7)
        return [self.context.host]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        provider_tree.update_inventory(nodename, {"VCPU": {"total": 8}})
"""

HANGS_LATER = """\
import subprocess
import threading
from pathlib import Path

from drivers.api import ComputeDriver


class HangsLater(ComputeDriver):
    calls = 0

    def get_available_nodes(self):
        child = subprocess.Popen(["sleep", "100000"])
        with Path(__file__).with_name("started").open("a") as file:
            file.write(f"{child.pid}\\n")
        return [self.context.host]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        HangsLater.calls += 1
        if HangsLater.calls > 4:
            threading.Event().wait()
        provider_tree.update_inventory(nodename, {"VCPU": {"total": 8}})
"""
FOLDERS = """\
from pathlib import Path

from drivers.api import ComputeDriver
from oslo_config import cfg


class Folders(ComputeDriver):
    @classmethod
    def list_opts(cls):
        return [("folders", [cfg.StrOpt("root", default="/nowhere")])]

    def get_available_nodes(self):
        return [self.context.host]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        found = {f"{nodename}_{it.name}" for it in Path(self.context.conf.folders.root).iterdir()}
        for uuid in provider_tree.get_provider_uuids(nodename)[1:]:
            name = provider_tree.exists(uuid) and provider_tree.data(uuid).name
            if name and name.startswith(f"{nodename}_f") and name not in found:
                if "foreign" not in name:
                    provider_tree.remove(uuid)
        for name in sorted(found):
            if not provider_tree.exists(name):
                provider_tree.new_child(name, nodename)
            provider_tree.update_inventory(name, {"CUSTOM_FOLDER": {"total": 1}})
"""
FOLDERS_FIXTURES = """\
import shutil

import pytest
from disks import Folders

from driverkit.testing import DriverContract


class TestFolders(DriverContract):
    @pytest.fixture
    def root(self, tmp_path):
        for number in range(3):
            (tmp_path / "root" / f"f{number}").mkdir(parents=True)
        return tmp_path / "root"

    @pytest.fixture
    def driver_config(self, root):
        return f"[folders]\\nroot = {root}\\n"

    @pytest.fixture
    def make_driver(self):
        pytest.fail("the installed driver is meant")

    @pytest.fixture
    def lose_backend(self, root):
        return lambda: shutil.rmtree(root)

    @pytest.fixture
    def lose_device(self, root):
        return lambda: (root / "f1").rmdir()

    @pytest.fixture
    def make_big_driver(self, root, driver_context):
        def make(devices):
            shutil.rmtree(root)
            for number in range(devices):
                (root / f"f{number}").mkdir(parents=True)
            return Folders(driver_context)

        return make
"""

IN_A_PACKAGE = {
    "conftest.py": """\
import pytest


@pytest.fixture
def top(tmp_path):
    return tmp_path / "top"
""",
    "tests/__init__.py": "",
    "tests/conftest.py": """\
import pytest


@pytest.fixture
def root(top):
    (top / "f0").mkdir(parents=True)
    return top
""",
    "tests/common.py": """\
import pytest
from disks import Folders

from driverkit.testing import DriverContract


class Common(DriverContract):
    @pytest.fixture
    def make_driver(self, driver_context):
        return lambda: Folders(driver_context)
""",
    "tests/test_mine.py": """\
import pytest
from disks import Folders

from tests.common import Common


@pytest.fixture
def line(root):
    return f"root = {root}"


class Base(Common):
    pass


class TestMine(Base):
    @pytest.fixture
    def driver_config(self, line):
        return f"[folders]\\n{line}\\n"
""",
}


def install(site: Path, name: str, source: str) -> Path:
    """Put a driver of this name below ``site``, for PYTHONPATH."""
    module = name.replace("-", "_")
    attribute = source.partition("class ")[2].partition("(")[0]
    site.mkdir(parents=True, exist_ok=True)
    (site / f"{module}.py").write_text(source)
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    entry = f"[compute_agent.drivers]\n{name} = {module}:{attribute}\n"
    (info / "entry_points.txt").write_text(entry)
    return site
