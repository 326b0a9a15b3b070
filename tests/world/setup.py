"""How the hosts of a history are configured: drawn from its seed, told with its story."""

from __future__ import annotations

import random
from dataclasses import dataclass

HOSTS, NODES = 2, 3
"""At most."""


@dataclass(frozen=True)
class Setup:
    hosts: int = 1
    nodes: int = 1
    """Of each agent."""
    bulk: bool = False
    """Inventories are written through Placement's reshaper."""
    two_drivers: bool = False
    """The second one has the cards and the disks."""
    attached: bool = False
    """The roots are Nova's."""
    files: bool = False
    """Operators add to providers."""
    reshapes_at_start: bool = False
    """Allocations move only then."""

    @property
    def places(self) -> int:
        """Nodes in all, which events happen to."""
        return self.hosts * self.nodes

    def __str__(self) -> str:
        agents = "one agent" if self.hosts == 1 else f"{self.hosts} agents"
        nodes = f" with {self.nodes} nodes" if self.nodes > 1 else ""
        more = {
            "bulk writes": self.bulk,
            "two drivers": self.two_drivers,
            "roots of Nova's": self.attached,
            "provider files": self.files,
            "reshapes at start only": self.reshapes_at_start,
        }
        return ", ".join([agents + nodes, *(text for text, true in more.items() if true)])


def setup_of(seed: int) -> Setup:
    """One host, for what it can do to itself; every third time more, for what they do to others.

    Half of all histories are of agents as they come.
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
