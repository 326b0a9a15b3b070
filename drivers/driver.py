"""ComputeDriver, the base class of drivers, and the context that it is created with."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, ClassVar, Protocol

from drivers.inventory import DISK_GB
from drivers.legacy import policy_of, update_by_older_methods
from reportclient.model import Allocations, plain_str
from reportclient.provider_tree import ProviderTree

_NAME = re.compile(r"[\w.-]{1,200}")


class Store(Protocol):
    """Storage for a driver's data that has to survive a restart: JSON objects by name.

    Begin each name with the driver's name; it has letters, digits, ``.``, ``_`` and ``-``.  The
    agent writes the objects to ``state_path``.

    :raises ValueError: a name has other characters, or more than 200; or JSON has no such object.
    """

    def load(self, name: str) -> Mapping[str, Any] | None:
        """Return the saved object; ``None`` if there is none or its file is damaged."""

    def save(self, name: str, fields: Mapping[str, Any]) -> None:
        """Replace the object atomically; a failed write is logged once and not raised."""


def checked_name(name: str) -> str:
    """Return the name of a saved object.  :raises ValueError: see :class:`Store`."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!a} is no name of a saved object: letters, digits, '.', '_', '-'")
    return name


def as_saved(value: Any) -> Any:
    """Return a copy of what is saved, as JSON has it.  :raises ValueError: see :class:`Store`."""
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise ValueError(
                f"a saved object has the key {wrong[0]!r}: JSON has only texts as keys"
            )
        return {plain_str(key): as_saved(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_saved(each) for each in value]
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        raise ValueError(f"a saved object has {shortened(value)}, which JSON has not") from None


@dataclass(slots=True)
class InMemory:
    """A store in memory, for tests and for drivers that run without an agent."""

    saved: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def load(self, name: str) -> Mapping[str, Any] | None:
        """See :class:`Store`."""
        saved = self.saved.get(checked_name(name))
        return None if saved is None else dict(as_saved(saved))

    def save(self, name: str, fields: Mapping[str, Any]) -> None:
        """See :class:`Store`."""
        self.saved[checked_name(name)] = as_saved(dict(fields))


@dataclass(frozen=True, slots=True)
class DriverContext:
    """The arguments that the agent passes to a driver's constructor.

    ``host``: the agent's name for this host.  ``conf``: the oslo.config object, with the driver's
    options registered.  ``wake()`` requests a period now, from any thread.  ``store`` saves data
    that the driver needs after a restart.
    """

    host: str
    state_path: Path
    conf: Any = None
    wake: Callable[[], None] = field(default=lambda: None, repr=False)
    store: Store = field(default_factory=InMemory, repr=False)


class ComputeDriver(ABC):
    """Base class of drivers."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)
    """The ``API_VERSION`` that the driver was written for."""

    capabilities: Mapping[str, bool] = {}
    """The driver's capabilities, named as in Nova's drivers (``supports_…``, ``has_…``).

    The COMPUTE_* trait of a capability is set on the root if true, and removed if false; traits of
    capabilities that are not listed here are not changed.  The attribute is read in each period;
    it may also be set in ``__init__`` or ``init_host``.
    """

    thread_safe: ClassVar[bool] = False
    """Whether ``update_provider_tree`` may run for several nodes at once, in threads.

    If false, it is called for one node after the other.
    """

    def __init__(self, context: DriverContext) -> None:
        self.context = context

    @abstractmethod
    def get_available_nodes(self) -> Sequence[str]:
        """Return the names of the nodes (root providers) that this driver reports now.

        A list without duplicates, also for a single node.  An empty list is reported to the
        operator as a condition.

        :raises DriverNotReady: the backend can't answer.
        """

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Allocations | None = None,
    ) -> None:
        """Change ``provider_tree`` so that it describes the resources of ``nodename``.

        The tree has what Placement has: the root ``nodename``, which always exists, all providers
        below it, and its sharing providers as further roots.  The driver must not use the tree
        after it has returned.  The tree may contain providers, traits and aggregates of other
        services: add and remove only your own.

        Calls come from different threads, one at a time unless the driver is ``thread_safe``.

        ``allocations`` is ``None``, except in the call after a :class:`ReshapeNeeded`: then it has
        all allocations on the tree, by consumer, to be edited in place.

        :raises ReshapeNeeded: inventory has to move, and ``allocations`` is ``None``.
        :raises ReshapeFailed: the allocations can't be moved.
        :raises DriverNotReady: the backend can't answer; the node is left as it is.

        The default implementation calls Nova's older methods (:mod:`drivers.legacy`).
        """
        update_by_older_methods(self, provider_tree, nodename)

    # Two helpers of Nova's base class: methods ported from Nova's drivers call them.

    def _get_allocation_ratios(
        self, inventory: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, float]:
        """Return ``{class: allocation ratio}`` for VCPU, MEMORY_MB and DISK_GB.

        In this order: the configured ratio, the ratio in ``inventory`` (what Placement has), the
        initial ratio.
        """
        ratios = policy_of(self).ratios
        return {name: ratio.effective(inventory.get(name)) for name, ratio in ratios.items()}

    def _get_reserved_host_disk_gb_from_config(self) -> int:
        """Return the option ``reserved_host_disk_mb`` in GiB, rounded up."""
        return policy_of(self).reserved(DISK_GB)
