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
