"""A host with its agent, and what Placement shall have of it whatever happened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from agent.errors import RegistryError
from agent.nodes.identity import FILE_NAME
from agent.registry.checks import StatusChange
from agent.registry.client import RegistryClient
from reportclient.errors import PlacementError
from tests.integration.foreign import assert_stranger_untouched, tree_of, with_a_stranger
from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement

SCRIPT = """
nodes:
  testhost:
    inventory: {{VCPU: {vcpus}, MEMORY_MB: 65536}}
    traits: [HW_CPU_X86_AVX2, CUSTOM_ROOT]
    children:
      numa0: &cell {{inventory: {{CUSTOM_SLOT: {vcpus}}}, traits: [HW_NUMA_ROOT]}}
      numa1: *cell
"""
OPTIONS = """\
update_resources_interval = 1
periodic_fuzzy_delay = 0
{more}
[compute]
resource_provider_association_refresh = 2
"""
"""Everything often, so that a test waits seconds for what takes minutes by default."""


@dataclass
class Site:
    placement: RealPlacement
    agent: AgentProcess
    root: str
    vcpus: int = 4

    @classmethod
    def on(cls, placement: RealPlacement, directory: Path) -> Site:
        directory.mkdir()
        return cls(placement, AgentProcess(directory, placement.url), str(uuid4()))

    def write(self, more: str = "") -> None:
        """Configuration and identity; ``more`` are lines of [DEFAULT] and groups."""
        self.agent.options = OPTIONS.format(more=more)
        self.agent.script = SCRIPT.format(vcpus=self.vcpus)
        self.agent.write()
        (self.agent.state_path / FILE_NAME).write_text(f"{self.root}\n")

    def begin(self, more: str = "") -> None:
        """Somebody else's things beside ours, and everything reported."""
        self.write(more)
        with_a_stranger(self.placement, self.root)
        self.agent.start()
        self.converges()

    def change(self) -> None:
        """The hypervisor has something else from now on."""
        self.vcpus += 1
        script = SCRIPT.format(vcpus=self.vcpus)
        (self.agent.directory / "script.yaml").write_text(script)

    def changes(self) -> None:
        """The host has it, and Placement has it soon."""
        self.change()
        self.converges()

    def is_right(self) -> bool:
        """Whether Placement has what the hypervisor has; not if it can't be asked."""
        try:
            tree = tree_of(self.placement, self.root)
        except (PlacementError, OSError):
            return False
        return {name: _totals(tree, name) for name in tree if not name.startswith("foreign")} == {
            "testhost": {"VCPU": self.vcpus, "MEMORY_MB": 65536},
            "testhost_numa0": {"CUSTOM_SLOT": self.vcpus},
            "testhost_numa1": {"CUSTOM_SLOT": self.vcpus},
        } and {"CUSTOM_ROOT", "HW_CPU_X86_AVX2"} <= tree["testhost"]["traits"]

    def converges(self, seconds: float = 120.0, *, foreign: bool = True) -> None:
        """Wait until it is right; the agent has to live, and what is foreign to be there."""
        self.agent.until(self.is_right, seconds)
        if foreign:
            assert_stranger_untouched(tree_of(self.placement, self.root))


def recorded(client: RegistryClient, *, disabled: bool) -> bool:
    """Whether an operator's change is in the record; the agent hears of it by its heartbeat."""
    reason = "a test" if disabled else None
    try:
        client.set_status(StatusChange("testhost", disabled=disabled, reason=reason))
    except RegistryError:
        return False
    return True


def _totals(tree: dict[str, Any], name: str) -> dict[str, int]:
    return {each: record["total"] for each, record in tree[name]["inventory"].items()}
