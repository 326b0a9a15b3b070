"""Optional methods of drivers, as small protocols.  Pure.

A driver has an ability if it defines the protocol's methods.  The agent checks this once, when
it loads the driver (:class:`drivers.loaded.LoadedDriver`).  The first line of each method says when
it is called.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Configurable(Protocol):
    """A driver with options of its own."""

    @classmethod
    def list_opts(cls) -> list[tuple[str, list[Any]]]:
        """Called once, before the driver is created, to register its options.

        Return ``[(group, [oslo.config options])]``.
        """


@runtime_checkable
class Lifecycle(Protocol):
    """A driver that opens and closes connections or files, with Nova's methods."""

    def init_host(self, host: str) -> None:
        """Called once, first; it has to return within seconds.

        A backend that can't be reached yet is reported later, by raising :class:`DriverNotReady`
        from other methods.  If ``init_host`` raises, the agent calls ``cleanup_host`` and then
        ``init_host`` again.
        """

    def cleanup_host(self, host: str) -> None:
        """Called once, last; also after a failed init_host."""


@runtime_checkable
class Identified(Protocol):
    """A driver whose backend has a UUID for each node; the method is Nova's."""

    def get_nodenames_by_uuid(self) -> Mapping[str, str]:
        """Called at each period, without arguments.

        Return ``{uuid: nodename}`` for nodes of ``get_available_nodes``.
        """


class Notify(Protocol):
    """Callback of a watching driver."""

    def __call__(self, reason: str | None, node: str | None = None, /) -> None:
        """Report that a node, or all of this host, is lost for a reason, or back (``None``)."""


@runtime_checkable
class Watched(Protocol):
    """A driver that notices by itself when its connection to the hypervisor is lost or back."""

    def watch(self, notify: Notify, /) -> None:
        """Called once, after init_host.

        The driver calls ``notify(reason)`` when the hypervisor can't be reached, and
        ``notify(None)`` when it can: once at the start, then at each change.  A driver of many
        nodes may call ``notify(reason, node)`` and ``notify(None, node)``: only that node takes no
        new guests meanwhile.  ``notify`` may be called from any thread and returns at once.
        """


@runtime_checkable
class Degradable(Protocol):
    """A driver that names the parts of a node that are ill, or that it can't read."""

    def degraded(self, node: str, /) -> Mapping[str, str]:
        """Called after each period of a node.

        Return ``{part: reason}``; empty if every part of the node is healthy and was read.  What
        the driver reports of a part, such as its last values or nothing free, is in the tree.
        """


@runtime_checkable
class Hosting(Protocol):
    """A driver that knows the guests of its nodes."""

    def guests(self, node: str, /) -> Iterable[str]:
        """Called after Placement was restored or emptied, until all guests have allocations.

        Return the UUIDs of the node's guests, running or not, as consumers in Placement have them.
        """


@runtime_checkable
class Timed(Protocol):
    """A driver that measures how long its sources take, for ``computectl status --sources``."""

    def took(self) -> Mapping[str, float]:
        """Called after each period: seconds by source.

        Return ``{source: seconds}``: how long the last read of each source took.
        """


@runtime_checkable
class Switched(Protocol):
    """A driver to be notified when its host is enabled or disabled; the method is Nova's."""

    def set_host_enabled(self, enabled: bool) -> object:
        """Called at the start and at each change; the agent writes the trait itself.

        It is called in the loop's thread, and its result is ignored.  The agent writes
        COMPUTE_STATUS_DISABLED whether or not this call succeeds.  An exception is logged, and the
        call is repeated in the next period.
        """


LEGACY = ("get_inventory", "get_traits", "get_available_resource")
"""Nova's older methods, used in place of ``update_provider_tree``: see :mod:`drivers.legacy`."""
OPTIONAL = (Configurable, Lifecycle, Identified, Watched, Degradable, Hosting, Timed, Switched)
"""All optional protocols.  A driver defines all methods of a protocol, or none of them."""


def methods(*abilities: type) -> tuple[str, ...]:
    """Return the method names of protocols."""
    return tuple(
        name for ability in abilities for name in vars(ability) if not name.startswith("_")
    )


ABILITY_OF = {name: ability for ability in OPTIONAL for name in methods(ability)}
"""The protocol of each optional method."""
