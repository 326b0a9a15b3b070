"""All that an author of a driver imports.

A driver subclasses :class:`ComputeDriver`, writes two methods, and is named by an
entry point of the group ``compute_agent.drivers``::

    class MyDriver(ComputeDriver):
        def get_available_nodes(self):
            return [self.context.host]

        def update_provider_tree(self, provider_tree, nodename, allocations=None):
            provider_tree.update_inventory(nodename, {"VCPU": {"total": 8}})

Everything else is optional: the small protocols (``drivers/abilities.py``) are looked
for once, when the driver is loaded.  ``docs/driver-api.rst`` is the reference.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from drivers.abilities import (
    Configurable,
    Identified,
    Lifecycle,
    Switched,
    TellsInventory,
    TellsResources,
    TellsTraits,
    Timed,
    Unwell,
    Watched,
)
from drivers.errors import (
    DriverError,
    DriverNotReady,
    ReshapeFailed,
    ReshapeNeeded,
)
from drivers.inventory import DISK_GB
from drivers.legacy import policy_of, update_by_older_methods
from reportclient.model import Allocations, ProviderData
from reportclient.provider_tree import ProviderTree

__all__ = [
    "API_VERSION",
    "OLDEST_API_VERSION",
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
    "Store",
    "Switched",
    "TellsInventory",
    "TellsResources",
    "TellsTraits",
    "Timed",
    "Unwell",
    "Watched",
]

API_VERSION = (1, 0)
"""Major, minor.

A new minor version adds: drivers for older minor versions work unchanged.  A new major
version may take away or change, and is announced a release before.  A driver that was
written for a newer version is refused, and so is one for a version before
``OLDEST_API_VERSION``.
"""

OLDEST_API_VERSION = (1, 0)
"""The oldest version whose drivers are still taken."""


class Store(Protocol):
    """A driver's storage over restarts: JSON objects by name, which begins with the driver's own.

    The agent writes it, under ``state_path``.
    """

    def load(self, name: str) -> Mapping[str, Any] | None:
        """Return the object saved last; ``None`` if there is none, or it is damaged."""

    def save(self, name: str, fields: Mapping[str, Any]) -> None:
        """Replace it, safe from crashes; what can't be written is logged once."""


@dataclass(slots=True)
class InMemory:
    """A store for tests, and for where no agent is: it ends with the process."""

    saved: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def load(self, name: str) -> Mapping[str, Any] | None:
        """See :class:`Store`."""
        return self.saved.get(name)

    def save(self, name: str, fields: Mapping[str, Any]) -> None:
        """See :class:`Store`."""
        self.saved[name] = dict(fields)


def _nothing() -> None:
    """Stands where nobody listens."""


@dataclass(frozen=True, slots=True)
class DriverContext:
    """The agent's context for a driver that is created.

    ``conf`` is the loaded oslo.config object, with the driver's own options on it;
    ``wake`` asks for a period now (any thread may call it); ``store`` keeps what the driver
    has to know after a restart.
    """

    host: str
    state_path: Path
    conf: Any = None
    wake: Callable[[], None] = field(default=_nothing, repr=False)
    store: Store = field(default_factory=InMemory, repr=False)


class ComputeDriver(ABC):
    """A hypervisor, seen by Placement."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)
    """The API that the driver was written for: a tuple of two whole numbers."""

    capabilities: Mapping[str, bool] = {}
    """What it can do, by the names of Nova's drivers (``supports_…``, ``has_…``).

    Those that have a COMPUTE_* trait are set on the root if true, removed if false;
    those that are not named here are left alone.  It may be set in ``__init__`` or
    ``init_host`` as well, and is read in each period.
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

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Allocations | None = None,  # noqa: ARG002  for those who define it
    ) -> None:
        """Change ``provider_tree`` so that it says what ``nodename`` has.

        The tree holds what Placement knows: the node's tree (its root is there
        already, by the name ``nodename``), and the sharing providers associated with
        it as lone roots.  It is the driver's to change, and not to keep.  Providers,
        traits and aggregates of others may be in it: add and remove only your own.

        The threads it is called from are the agent's: not always the same one, and
        several at once for a driver of many nodes that says it is ``thread_safe``.

        ``allocations`` is ``None``, or after :class:`ReshapeNeeded` all allocations
        on the tree by consumer, to be edited in place.

        :raises ReshapeNeeded: inventory has to move, and ``allocations`` is ``None``.
        :raises ReshapeFailed: the allocations can't be moved.
        :raises DriverNotReady: the backend can't say; the node is left as it is.

        A driver that does not define it has to have one of Nova's older methods, by
        which this one then goes (:mod:`drivers.legacy`).
        """
        update_by_older_methods(self, provider_tree, nodename)

    # Two helpers of Nova's base class, which bodies of its drivers call.

    def _get_allocation_ratios(
        self, inventory: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, float]:
        """``{class: ratio}`` of VCPU, MEMORY_MB and DISK_GB, from the options of these names.

        A configured ratio holds; else that of ``inventory``, which is what Placement has;
        else the initial one.
        """
        ratios = policy_of(self).ratios
        return {name: ratio.given(inventory.get(name)) for name, ratio in ratios.items()}

    def _get_reserved_host_disk_gb_from_config(self) -> int:
        """``reserved_host_disk_mb`` in GiB, rounded up."""
        return policy_of(self).reserved(DISK_GB)
