"""The configuration of the hosts of a history, chosen by its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

HOSTS, NODES = 2, 3
"""The largest numbers of hosts in a history, and of nodes of an agent."""
VERIFY, AUDIT = 80.0, 240.0
"""Mean seconds between verifications, and between audits: histories are short."""


@dataclass(frozen=True)
class Setup:
    hosts: int = 1
    nodes: int = 1
    """Number of nodes of each agent."""
    bulk: bool = False
    """Whether inventories are written through Placement's reshaper."""
    two_drivers: bool = False
    """Whether there is a second driver, which reports cards and disks."""
    attached: bool = False
    """Attach mode: the roots belong to nova-compute."""
    files: bool = False
    """Whether there are provider files."""
    reshapes_at_start: bool = False
    """Whether reshapes are allowed at start only."""
    verify_every: float = VERIFY
    audit_every: float = AUDIT
    first_within: float = 5.0
    """Seconds within which an agent's first period begins."""

    @property
    def places(self) -> int:
        """Number of nodes of all agents."""
        return self.hosts * self.nodes

    def __str__(self) -> str:
        agents = "one agent" if self.hosts == 1 else f"{self.hosts} agents"
        nodes = f" with {self.nodes} nodes" if self.nodes > 1 else ""
        more = {
            "bulk writes": self.bulk,
            "two drivers": self.two_drivers,
            "nova-compute's roots": self.attached,
            "provider files": self.files,
            "reshapes at start only": self.reshapes_at_start,
        }
        return ", ".join([agents + nodes, *(text for text, true in more.items() if true)])


def setup_of(seed: int) -> Setup:
    """Choose the configuration of a history: for every third seed there are two hosts.

    Half of all histories have the default configuration.
    """
    dice = random.Random(f"{seed} setup")
    hosts = 1 if seed % 3 else HOSTS
    if dice.random() < 0.5:
        return Setup(hosts)
    attached = dice.random() < 0.2
    many = not attached and dice.random() < 0.2
    return Setup(
        1 if attached or many else hosts,
        NODES if many else 1,
        bulk=dice.random() < 0.4,
        two_drivers=dice.random() < 0.4,
        attached=attached,
        files=dice.random() < 0.3,
        reshapes_at_start=not many and dice.random() < 0.2,
    )
