"""The registry over RPC, for agents and operators: no database, no credentials for one."""

import socket
from dataclasses import asdict
from functools import partial
from typing import Any

from agent.bus.caller import NOBODY, Caller
from agent.bus.messaging import RpcClient, Target
from agent.bus.signing import Operator, Sign, signed
from agent.errors import CallRefused, MessagingError, RegistryUnavailable, SignatureRefused
from agent.opts import RegistrySettings
from agent.registry import wire
from agent.registry.checks import HeartbeatMessage, StatusChange
from agent.registry.record import ServiceRecord

TIMEOUT = 10.0
"""Seconds for one call."""


class RegistryClient:
    """Service records by host, over RPC.

    :class:`compute_registry.store.SqlRegistry` has the same methods.  Every method may raise
    :class:`RegistryUnavailable`, and those that name a host
    :class:`~agent.errors.UnknownHost`.
    """

    def __init__(
        self,
        transport: Any,
        timeout: float = TIMEOUT,
        caller: Caller = NOBODY,
        sign: Sign | None = None,
    ) -> None:
        """Calls end after ``timeout`` seconds; ``caller`` is for the log of compute-registry."""
        names = {"namespace": wire.NAMESPACE, "version": wire.VERSION}
        target = Target(exchange=wire.EXCHANGE, topic=wire.TOPIC, **names)
        self.rpc, self.caller = RpcClient(transport, target, timeout, sign=sign), caller

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

    def heartbeat(self, report: HeartbeatMessage) -> ServiceRecord | None:
        """Record that the agent of a host is alive; the first heartbeat creates the record.

        If the report has a ``known_version``, the answer is not awaited, and ``None`` is returned;
        if the record has another version, the registry calls the agent.

        :raises HostTaken: an agent at another address, that is up, uses this name.
        :raises Changed: the agent at another address is down, and ``replaces`` is not when it was
            last heard.
        """
        if report.known_version is not None:
            known = {"address": report.address, "version": report.known_version}
            self.call("keep_alive", answered=False, host=report.host, **known)
            return None
        return wire.from_wire(self.call("heartbeat", **asdict(report)))

    def holders(self, report: HeartbeatMessage) -> list[ServiceRecord]:
        """Return the records that have a root of the report, and that of its host."""
        return list(map(wire.from_wire, self.call("holders", **asdict(report))))

    def set_status(self, change: StatusChange) -> ServiceRecord:
        """Disable or enable a host.

        :raises Changed: see :class:`~agent.registry.checks.StatusChange`.
        """
        return wire.from_wire(self.call("set_status", **asdict(change)))

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

        :raises agent.errors.RegistryError: the registry refused it, or is away.
        """
        context = self.caller.context()
        try:
            answer = self.rpc.call(method, context=context, answered=answered, **arguments)
        except CallRefused as err:
            raise SignatureRefused(str(err)) from err
        except MessagingError as err:
            raise RegistryUnavailable(f"compute-registry: {err}") from err
        return wire.value_of(answer) if answered else None


def open_registry(
    settings: RegistrySettings,
    transport: Any,
    caller: Caller | None = None,
    *,
    host: str = "",
    command_on: str = "",
) -> RegistryClient:
    """Return the registry for an agent or a command.

    ``caller`` is for the log of compute-registry, by default the agent of this machine.  ``host``:
    an agent's host, whose key signs its calls.  ``command_on``: the host on which a command runs;
    without a master key its calls are signed with that host's key, and have the permissions of its
    agent.

    :raises RegistryUnavailable: there is no message bus: ``transport`` is ``None``.
    """
    if transport is None:
        raise RegistryUnavailable("[registry] access = rpc needs a transport_url")
    named = caller or Caller(user="compute-agent", where=socket.gethostname())
    sign: Sign | None = None
    if settings.master_key and not (host and settings.host_key):
        sign = Operator(settings.master_key).sign
    elif settings.host_key and (own := host or command_on):
        sign = partial(signed, [settings.host_key], own)
    return RegistryClient(transport, caller=named, sign=sign)
