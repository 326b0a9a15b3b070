"""A fact of the host: what is asked, how the answer is judged, and so what is asserted.

Each is a class in one file, with the options that it needs as fields.  ``docs/libvirt/facts.rst``
says how to add one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from xml.etree.ElementTree import Element

from drivers.inventory import CurrentInventory
from drivers.libvirt.connection.host import Host
from drivers.libvirt.facts.numa import Observed
from drivers.libvirt.facts.sources import Sources
from drivers.libvirt.tree.reported import HostReport


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the host.  What is asked through ``sources`` is remembered for when it fails."""

    host: Host
    sources: Sources
    capabilities: Element


@dataclass(frozen=True, slots=True)
class Subject:
    """Of what is judged; ``observed`` is what Placement has of this host's providers, by name.

    ``by_cell``: NUMA cells are providers; ``disk_elsewhere``: a sharing provider stands for
    the host's disk.
    """

    node: str
    capabilities: Element
    observed: Observed = field(default_factory=dict)
    by_cell: bool = False
    disk_elsewhere: bool = False

    @property
    def current(self) -> CurrentInventory:
        """The root's inventory, as Placement has it."""
        return self.observed.get(self.node, {})


class Fact(Protocol):
    """``name`` is the source whose word its inventory of the root is."""

    @property
    def name(self) -> str:
        """As in ``degraded`` and the ledger."""

    def ask(self, look: Look) -> Any:
        """The answer, as plain values; what can't be told is ``None``, or left out."""

    def judge(self, answer: Any, of: Subject, /) -> HostReport:
        """What it comes to.  Pure."""


Answers = Mapping[str, Any]
"""By the fact's name."""
