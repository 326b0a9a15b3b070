"""What docs/lab.rst shows, and the same of a tree, whatever hypervisor it came from."""

from __future__ import annotations

import re

from computectl.drawing.text_tree import draw_tree
from computectl.shared.screen import Screen
from tests.agents import ROOT, Agent
from tests.integration.transcripts import block

NOT_SHOWN = ("COMPUTE_", "CUSTOM_OWNER", "HW_CPU_")
VARYING = re.compile(r"((?:DISK_GB|MEMORY_MB) ).*")
"""The kernel divides memory anew at each boot, and the disk is this machine's."""


def shown(name: str) -> str:
    return block("lab", name)


def drawn(agent: Agent) -> str:
    """The tree without the traits that say what any compute node with libvirt can do."""
    tree = agent.nodes.trackers[ROOT].view.edit()
    for uuid in tree.get_provider_uuids(ROOT):
        general = [t for t in tree.data(uuid).traits if t.startswith(NOT_SHOWN)]
        tree.remove_traits(uuid, *general)
    return draw_tree(tree.freeze(), ROOT, screen=Screen(width=88))


def comparable(text: str) -> list[str]:
    return [" ".join(VARYING.sub(r"\1...", line).split()) for line in text.splitlines()]
