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
        """All records, by host."""

    def get_service(self, host: str) -> ServiceRecord:
        """Return the record of a host."""

    def find_service(self, uuid: str) -> ServiceRecord:
        """The record with this UUID."""

    def heartbeat(
        self,
        host: str,
        address: str,
        rpc_version: str | None,
        roots: Sequence[str],
        *,
        attached: bool = False,
    ) -> ServiceRecord:
        """Say that the agent of ``host`` is alive; the first time makes the record.

        ``address`` says where it runs, as :func:`agent.registry.access.agent_address` does: it has
        to be the same after a restart of the agent, or the restarted one is taken for
        another one until the old one counts as down.

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
        """Disable or enable; what else is in the record stays.

        With ``expected_version`` only if nobody has changed the record since it was read
        (:class:`Changed` otherwise): for decisions that rest on what was in it.

        :raises ReasonRefused: too long, or given while enabling.
        """

    def set_forced_down(self, host: str, *, forced_down: bool) -> ServiceRecord:
        """Say that it is down whatever its heartbeats say, or take that back."""

    def delete(self, host: str) -> None:
        """Forget it.  :raises StillUp: heartbeats come, so that it would be back at once."""
