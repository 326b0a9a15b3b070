"""Distributions with a driver, as pip would leave them: a module and its entry point."""

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
EXITS_LATER = """\
import os

from drivers.api import ComputeDriver


class ExitsLater(ComputeDriver):
    calls = 0

    def get_available_nodes(self):
        ExitsLater.calls += 1
        if ExitsLater.calls > 3:
            os._exit(0)  # which must not pass for a good result
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
SICK = """\
import time
from pathlib import Path

from driverkit.scripted.driver import FakeDriver
from drivers.api import DriverNotReady


class Sick(FakeDriver):
    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        deed = Path(self.context.conf.fake.script).with_name("deed.py")
        if deed.exists():
            exec(deed.read_text())
        super().update_provider_tree(provider_tree, nodename, allocations)
"""
"""The scripted driver; before it reports, it runs ``deed.py`` beside its script, if that exists."""
MOVES_VGPUS = """\
from driverkit.scripted.driver import FakeDriver
from drivers.api import ReshapeNeeded
from drivers.reallocate import Move, move_allocations


class MovesVgpus(FakeDriver):
    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        root = provider_tree.data(nodename)
        moves = "VGPU" in root.inventory and "VGPU" not in self.devices(nodename)[0].inventory
        if moves and allocations is None:
            raise ReshapeNeeded(f"VGPU of {nodename} moves to its cards")
        super().update_provider_tree(provider_tree, nodename, allocations)
        if moves:
            below = provider_tree.get_provider_uuids(nodename)[1:]
            cards = tuple(it for it in below if "VGPU" in provider_tree.data(it).inventory)
            move = Move({root.uuid: frozenset({"VGPU"})}, cards)
            move_allocations(provider_tree, [move], allocations)
"""
"""The scripted driver; VGPUs that its script no longer has on the root move to the cards."""
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
        for name in sorted(found):
            if not provider_tree.exists(name):
                provider_tree.new_child(name, nodename)
            provider_tree.update_inventory(name, {"CUSTOM_FOLDER": {"total": 1}})
"""
NUMBERS_A_SET = """\
from drivers.api import ComputeDriver


class NumbersASet(ComputeDriver):
    def get_available_nodes(self):
        return [self.context.host]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        for number, total in enumerate({"16", "32", "48", "64", "80"}):
            name = f"{nodename}_card{number}"
            if not provider_tree.exists(name):
                provider_tree.new_child(name, nodename)
            provider_tree.update_inventory(name, {"VGPU": {"total": int(total)}})
"""
NUMBERS_ONCE = (
    NUMBERS_A_SET.replace('enumerate({"16", "32", "48", "64", "80"})', "enumerate(self.numbered())")
    + """\

    def numbered(self):
        file = self.context.state_path / "numbers"
        if not file.exists():
            file.write_text(" ".join({"16", "32", "48", "64", "80"}))
        return file.read_text().split()
"""
)
"""Numbers a set, but saves the numbers: they stay over a restart."""


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
