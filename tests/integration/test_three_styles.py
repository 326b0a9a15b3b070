"""Three styles of driver, side by side in one real Placement: the tree, inventory and
traits, and the available resource; each installed as a package is, run by the agent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.servers.agent import REPOSITORY, AgentProcess
from tests.servers.placement import RealPlacement

MODULE = """
from drivers.api import ComputeDriver

class Named(ComputeDriver):
    def get_available_nodes(self):
        return [self.context.host + self.suffix]

class Tree(Named):
    suffix = "-tree"
    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        provider_tree.update_inventory(nodename, {"VCPU": {"total": 4}})
        if not provider_tree.exists("board"):
            provider_tree.new_child("board", nodename)
        provider_tree.update_inventory("board", {"CUSTOM_BOARD": {"total": 2}})
        provider_tree.add_traits("board", "CUSTOM_FAST")

class Inventory(Named):
    suffix = "-inventory"
    def get_inventory(self, nodename):
        return {"VCPU": {"total": 8}, "CUSTOM_FPGA": {"total": 1, "max_unit": 1}}
    def get_traits(self, nodename):
        return ["HW_CPU_X86_AVX", "CUSTOM_GOLD"]
    def get_available_resource(self, nodename):
        return {"vcpus": 666, "memory_mb": 666, "local_gb": 666}

class Resource(Named):
    suffix = "-resource"
    def get_available_resource(self, nodename):
        return {"vcpus": 16, "memory_mb": 4096, "local_gb": 100, "cpu_info": "{}"}
"""
STYLES = ("tree", "inventory", "resource")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "lib"
    info = folder / "styles-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "styles.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: styles\nVersion: 1.0\n")
    points = "".join(f"s-{style} = styles:{style.capitalize()}\n" for style in STYLES)
    (info / "entry_points.txt").write_text(f"[compute_agent.drivers]\n{points}")
    return folder


def agent(style: str, placement: RealPlacement, tmp_path: Path, library: Path) -> AgentProcess:
    directory = tmp_path / style
    directory.mkdir()
    options = "reserved_host_memory_mb = 1024\ncpu_allocation_ratio = 2.0\n"
    made = AgentProcess(directory, placement.url, compute_driver=f"s-{style}", options=options)
    made.environment["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), str(library)])
    return made


def test_three_styles_are_reported_side_by_side(placement, tmp_path, library) -> None:
    agents = {style: agent(style, placement, tmp_path, library) for style in STYLES}
    said = {style: made.once() for style, made in agents.items()}
    for style, done in said.items():
        assert done.returncode == 0, f"{style}: {done.stderr}"
        assert done.stderr.count("deprecated") == (0 if style == "tree" else 1)
    uuids = placement.uuids()
    assert set(uuids) == {"testhost-tree", "board", "testhost-inventory", "testhost-resource"}

    def amounts(name: str) -> dict[str, tuple[int, int, float]]:
        found = placement.stranger.inventory(uuids[name])
        return {k: (r["total"], r["reserved"], r["allocation_ratio"]) for k, r in found.items()}

    assert amounts("testhost-tree") == {"VCPU": (4, 0, 1.0)}
    assert amounts("board") == {"CUSTOM_BOARD": (2, 0, 1.0)}
    assert amounts("testhost-inventory") == {"VCPU": (8, 0, 2.0), "CUSTOM_FPGA": (1, 0, 1.0)}
    assert amounts("testhost-resource") == {
        "VCPU": (16, 0, 2.0),
        "MEMORY_MB": (4096, 1024, 1.0),
        "DISK_GB": (100, 0, 1.0),
    }
    ours = {"COMPUTE_NODE", "CUSTOM_OWNER_COMPUTE_AGENT"}
    traits = {name: placement.stranger.traits(uuids[name]) - ours for name in uuids}
    assert traits.pop("testhost-inventory") == {"HW_CPU_X86_AVX", "CUSTOM_GOLD"}
    assert traits == {"testhost-tree": set(), "board": {"CUSTOM_FAST"}, "testhost-resource": set()}

    mark = placement.mark()
    for made in agents.values():
        assert made.once().returncode == 0
    assert {request.method for request in placement.since(mark)} == {"GET"}, "all is said"
