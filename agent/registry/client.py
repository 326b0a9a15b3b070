"""The registry over RPC, for agents and operators: no database, no credentials for one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent.bus.caller import NOBODY, Caller
from agent.bus.errors import CallRefused, MessagingError, Sign
from agent.bus.messaging import RpcClient, Target
from agent.registry import wire
from agent.registry.errors import RegistryUnavailable, SignatureRefused
from agent.registry.record import ServiceRecord

TIMEOUT = 10.0
"""Seconds for one call."""


@dataclass(frozen=True, slots=True)
class RegistryClient:
    """Service records by host, over RPC; :meth:`over` makes one.

    :class:`compute_registry.store.SqlRegistry` has the same methods.  Every method may raise
    :class:`RegistryUnavailable`, and those that name a host
    :class:`~agent.registry.errors.UnknownHost`.
    """

    rpc: RpcClient
    caller: Caller = NOBODY
    """For the log of compute-registry."""

    @classmethod
    def over(
        cls,
        transport: Any,
        timeout: float = TIMEOUT,
        caller: Caller = NOBODY,
        sign: Sign | None = None,
    ) -> "RegistryClient":
        """Return a client on this transport; calls end after ``timeout`` seconds."""
        target = Target(
            exchange=wire.EXCHANGE,
            topic=wire.TOPIC,
            namespace=wire.NAMESPACE,
            version=wire.VERSION,
        )
        return cls(RpcClient(transport, target, timeout, sign=sign), caller)

    def list_services(self) -> list[ServiceRecord]:
        """Return all records, sorted by host, read page by page."""
        records: list[ServiceRecord] = []
        while True:
            after = records[-1].host if records else ""
            page = self.call("list_services", after=after, limit=wire.PAGE)
            records += map(wire.from_wire, page)
            if len(page) < wire.PAGE:
                return records

    def get_service(self, host: str) -> ServiceRecord:
        """Return the record of a host."""
        return wire.from_wire(self.call("get_service", host=host))

    def find_service(self, uuid: str) -> ServiceRecord:
        """Return the record with this UUID."""
        return wire.from_wire(self.call("find_service", uuid=uuid))

    def heartbeat(  # noqa: PLR0913  what an agent reports
        self,
        host: str,
        address: str,
        rpc_version: str | None,
        roots: Sequence[str],
        *,
        attached: bool = False,
        agent_version: str = "",
        degraded: str = "",
        replaces: str = "",
        known_version: int | None = None,
    ) -> ServiceRecord | None:
        """Record that the agent of ``host`` is alive; the first heartbeat creates the record.

        ``degraded``: what does not work there, a line for each condition.  ``known_version``: the
        version of the record that the agent has seen, if this heartbeat reports nothing new.  Then
        the answer is not awaited, and ``None`` is returned; if the record has another version, the
        registry calls the agent.

        ``address`` comes from :func:`agent.registry.access.agent_address`.  It has to be the
        same after a restart of the agent: with another address the restarted agent is refused
        until the old one counts as down.  Then its first heartbeat has to name in ``replaces`` when
        the old one was last heard (``last_seen`` in ISO format), so that a recorded heartbeat of an
        earlier life takes over nothing; else it is refused with :class:`Changed`.

        :raises HostTaken: an agent at another address, that is up, uses this name.
        """
        if known_version is not None:
            sent: dict[str, Any] = {"host": host, "address": address, "version": known_version}
            self.call("keep_alive", answered=False, **sent)
            return None
        arguments: dict[str, Any] = {
            "address": address,
            "rpc_version": rpc_version,
            "roots": list(roots),
        }
        more: dict[str, Any] = {
            "attached": attached,
            "agent_version": agent_version,
            "degraded": degraded,
            "replaces": replaces,
        }
        return wire.from_wire(self.call("heartbeat", host=host, **arguments, **more))

    def set_status(
        self,
        host: str,
        *,
        disabled: bool,
        reason: str | None = None,
        expected_version: int | None = None,
        new_version: int | None = None,
    ) -> ServiceRecord:
        """Disable or enable a host.

        With ``expected_version`` only if the record still has this version
        (:class:`Changed` otherwise), so that a message that is delivered twice, or late, changes
        nothing.  ``new_version`` is the record's version after that, so that a caller whose
        reply was lost can recognize its own change; without it the registry chooses a later one.

        :raises ReasonRefused: too long, or given while enabling.
        """
        change: dict[str, Any] = {"disabled": disabled, "reason": reason}
        versions: dict[str, Any] = {
            "expected_version": expected_version,
            "new_version": new_version,
        }
        return wire.from_wire(self.call("set_status", host=host, **change, **versions))

    def set_forced_down(
        self, host: str, *, forced_down: bool, expected_version: int | None = None
    ) -> ServiceRecord:
        """Force a service down, whatever its heartbeats say, or take that back."""
        change: dict[str, Any] = {"forced_down": forced_down, "expected_version": expected_version}
        return wire.from_wire(self.call("set_forced_down", host=host, **change))

    def delete(self, host: str, *, uuid: str | None = None) -> None:
        """Delete a record; with ``uuid`` only this one, and none that was created after it.

        :raises StillUp: its agent still sends heartbeats.
        :raises Changed: the record has another UUID.
        """
        self.call("delete", host=host, uuid=uuid)

    def call(self, method: str, *, answered: bool = True, **arguments: Any) -> Any:
        """Call a method of the registry by its name, and return its answer's value, if awaited.

        :raises agent.registry.errors.RegistryError: the registry refused it, or is away.
        """
        try:
            answer = self.rpc.call(
                method, context=self.caller.context(), answered=answered, **arguments
            )
        except CallRefused as err:
            raise SignatureRefused(str(err)) from err
        except MessagingError as err:
            raise RegistryUnavailable(f"compute-registry: {err}") from err
        return wire.value_of(answer) if answered else None
