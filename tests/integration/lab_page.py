"""What docs/lab.rst shows, and the same of a tree, whatever hypervisor it came from."""

from __future__ import annotations

import re

from tests.agents import Agent
from tests.integration import libvirt_hosts
from tests.integration.transcripts import block

NOT_SHOWN = ("COMPUTE_", "CUSTOM_OWNER", "HW_CPU_")
VARYING = re.compile(r"((?:DISK_GB|MEMORY_MB) ).*")
"""The kernel divides memory anew at each boot, and the disk is this machine's."""


def shown(name: str) -> str:
    return block("lab", name)


def drawn(agent: Agent) -> str:
    return libvirt_hosts.drawn(agent, NOT_SHOWN)


def comparable(text: str) -> list[str]:
    return [" ".join(VARYING.sub(r"\1...", line).split()) for line in text.splitlines()]
