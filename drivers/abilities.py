"""Optional abilities of drivers: small protocols.

Having the methods is all it takes.  They are looked for once, when the driver is
loaded (:class:`drivers.loaded.LoadedDriver`); later nobody asks whether a method is there.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Lifecycle(Protocol):
    """A driver that opens and closes something, by Nova's names."""

    def init_host(self, host: str) -> None:
        """Called once before anything else is.  It must return within seconds: what
        can't be reached yet is :class:`DriverNotReady` later, not here.  If it fails all
        the same it is called again, after ``cleanup_host``.
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


@runtime_checkable
class Timed(Protocol):
    """A driver that can say how long its sources take, for ``computectl status --sources``."""

    def took(self) -> Mapping[str, float]:
        """``{source: seconds}``, of the last time that each was asked."""


@runtime_checkable
class Switched(Protocol):
    """A driver that wants to hear whether its host takes new guests, by Nova's name."""

    def set_host_enabled(self, enabled: bool) -> object:
        """Called when the status is first known and at each change, in the loop's thread.

        The agent writes COMPUTE_STATUS_DISABLED itself, whatever happens here.  What
        is returned is not used; what is raised is logged, and the driver is told again
        in the next period.
        """


OPTIONAL: tuple[type, ...] = (Lifecycle, Identified, Watched, Unwell, Timed, Switched)
"""What is looked for when a driver is loaded; all methods of one, or none, are there."""


def methods(ability: type) -> tuple[str, ...]:
    """Those of a protocol, by name."""
    return tuple(name for name in vars(ability) if not name.startswith("_"))


@runtime_checkable
class TellsInventory(Protocol):
    """An older way: the inventory of the root, and of nothing below it."""

    def get_inventory(self, nodename: str) -> Mapping[str, Mapping[str, Any]]:
        """``{resource class: {"total": …, "reserved": …, …}}``: all that the root has."""


@runtime_checkable
class TellsTraits(Protocol):
    """An older way: traits of the root."""

    def get_traits(self, nodename: str) -> Iterable[str]:
        """Names.  What it told before and tells no more is taken away."""


@runtime_checkable
class TellsResources(Protocol):
    """The oldest way: numbers from which the root's inventory is made."""

    def get_available_resource(self, nodename: str) -> Mapping[str, Any]:
        """Nova's dict.  Of it ``vcpus``, ``memory_mb`` (MiB) and ``local_gb`` (GiB) are used."""
