"""The interface of a service registry: the store, or its client over RPC."""

from collections.abc import Sequence
from typing import Protocol

from agent.registry.record import ServiceRecord


class Registry(Protocol):
    """Service records by host.

    Every method may raise :class:`~agent.registry.errors.RegistryUnavailable`, and those
    that name a host :class:`~agent.registry.errors.UnknownHost`.
    """

    def list_services(self) -> list[ServiceRecord]:
        """Return all records, sorted by host."""

    def get_service(self, host: str) -> ServiceRecord:
        """Return the record of a host."""

    def find_service(self, uuid: str) -> ServiceRecord:
        """Return the record with this UUID."""

    def heartbeat(
        self,
        host: str,
        address: str,
        rpc_version: str | None,
        roots: Sequence[str],
        *,
        attached: bool = False,
    ) -> ServiceRecord:
        """Record that the agent of ``host`` is alive; the first heartbeat creates the record.

        ``address`` comes from :func:`agent.registry.access.agent_address`.  It has to be the
        same after a restart of the agent: with another address the restarted agent is refused
        until the old one counts as down.

        :raises HostTaken: an agent at another address, that is up, uses this name.
        """

    def set_status(
        self,
        host: str,
        *,
        disabled: bool,
        reason: str | None = None,
        expected_version: int | None = None,
    ) -> ServiceRecord:
        """Disable or enable a host.

        With ``expected_version`` only if the record still has this version
        (:class:`Changed` otherwise).

        :raises ReasonRefused: too long, or given while enabling.
        """

    def set_forced_down(self, host: str, *, forced_down: bool) -> ServiceRecord:
        """Force a service down, whatever its heartbeats say, or take that back."""

    def delete(self, host: str) -> None:
        """Delete a record.  :raises StillUp: its agent still sends heartbeats."""
