"""All that an author of a driver imports.

A driver subclasses :class:`ComputeDriver`, writes two methods, and is named by an
entry point of the group ``compute_agent.drivers``::

    class MyDriver(ComputeDriver):
        def get_available_nodes(self):
            return [self.context.host]

        def update_provider_tree(self, provider_tree, nodename, allocations=None):
            provider_tree.update_inventory(nodename, {"VCPU": {"total": 8}})

Everything else is optional: the small protocols below are checked once, when the
driver is loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from drivers.errors import (
    DriverError,
    DriverNotReady,
    ReshapeFailed,
    ReshapeNeeded,
)
from reportclient.model import Allocations, ProviderData
from reportclient.provider_tree import ProviderTree

__all__ = [
    "API_VERSION",
    "Allocations",
    "ComputeDriver",
    "Configurable",
    "DriverContext",
    "DriverError",
    "DriverNotReady",
    "Identified",
    "Lifecycle",
    "ProviderData",
    "ProviderTree",
    "ReshapeFailed",
    "ReshapeNeeded",
    "Unwell",
    "Watched",
]

API_VERSION = (1, 0)
"""Major, minor.  A driver that was written for a newer one is refused."""


def _nothing() -> None:
    """Stands where nobody listens."""


@dataclass(frozen=True, slots=True)
class DriverContext:
    """What the agent hands to a driver when it makes it.

    ``conf`` is the loaded oslo.config object, with the driver's own options on it;
    ``wake`` asks for a period now (any thread may call it).
    """

    host: str
    state_path: Path
    conf: Any = None
    wake: Callable[[], None] = field(default=_nothing, repr=False)


class ComputeDriver(ABC):
    """A hypervisor, seen by Placement."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)
    """The API that the driver was written for."""

    capabilities: ClassVar[Mapping[str, bool]] = {}
    """What it can do, by the names of Nova's drivers (``supports_…``, ``has_…``).

    Those that have a COMPUTE_* trait are set on the root if true, removed if false;
    those that are not named here are left alone.
    """

    thread_safe: ClassVar[bool] = False
    """Whether ``update_provider_tree`` may run for several nodes at once, in threads.

    Otherwise it is called for one node after the other.
    """

    def __init__(self, context: DriverContext) -> None:
        self.context = context

    @abstractmethod
    def get_available_nodes(self) -> Sequence[str]:
        """Names of the nodes (root providers) that this driver reports, now.

        A list, even for one; none twice.  An empty one is told to the operator.

        :raises DriverNotReady: the backend can't say.
        """

    @abstractmethod
    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Allocations | None = None,
    ) -> None:
        """Change ``provider_tree`` so that it says what ``nodename`` has.

        The tree holds what Placement knows: the node's tree (its root is there
        already, by the name ``nodename``), and the sharing providers associated with
        it as lone roots.  It is the driver's to change, and not to keep.  Providers,
        traits and aggregates of strangers may be in it: add and remove only your own.

        The threads it is called from are the agent's: not always the same one, and
        several at once for a driver of many nodes that says it is ``thread_safe``.

        ``allocations`` is ``None``, or after :class:`ReshapeNeeded` all allocations
        on the tree by consumer, to be edited in place.

        :raises ReshapeNeeded: inventory has to move, and ``allocations`` is ``None``.
        :raises ReshapeFailed: the allocations can't be moved.
        :raises DriverNotReady: the backend can't say; the node is left as it is.
        """


@runtime_checkable
class Lifecycle(Protocol):
    """A driver that opens and closes something, by Nova's names."""

    def init_host(self, host: str) -> None:
        """Called once before anything else is.  It must return within seconds: what
        can't be reached yet is :class:`DriverNotReady` later, not here.
        """

    def cleanup_host(self, host: str) -> None:
        """Called once at the end, also after a failed ``init_host``."""


@runtime_checkable
class Configurable(Protocol):
    """A driver with options of its own; they are registered before it is made."""

    @classmethod
    def list_opts(cls) -> list[tuple[str, list[Any]]]:
        """``[(group, [oslo.config options])]``."""


@runtime_checkable
class Identified(Protocol):
    """A driver whose nodes have UUIDs of their own, by Nova's name."""

    def get_nodenames_by_uuid(self) -> Mapping[str, str]:
        """``{uuid: nodename}`` for nodes of ``get_available_nodes``."""


@runtime_checkable
class Watched(Protocol):
    """A driver that notices by itself when its hypervisor is lost, and when it is back."""

    def watch(self, tell: Callable[[str | None], None]) -> None:
        """Called once, after ``init_host``.

        ``tell(why)`` says that the hypervisor can't be reached, in a few words, and
        ``tell(None)`` that it can: both on changes only, and the first time that it is
        known.  Any thread may call it, and it returns at once.
        """


@runtime_checkable
class Unwell(Protocol):
    """A driver that can name what it could not read and reports from memory."""

    def degraded(self) -> Mapping[str, str]:
        """``{part: reason}``; empty when all is well."""
