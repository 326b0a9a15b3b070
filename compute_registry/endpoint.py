"""The RPC endpoint of compute-registry."""

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, ClassVar

from agent.bus.caller import Caller
from agent.bus.messaging import Target
from agent.registry import checks, wire
from agent.registry.control import log_deleted, log_forced, log_switched
from agent.registry.errors import RegistryError, RegistryUnavailable
from agent.registry.record import ServiceRecord
from compute_registry.store import SqlRegistry

Answer = dict[str, Any]
Context = dict[str, Any]


_REPORTED = {"attached", "agent_version", "degraded", "replaces"}
"""Fields that an agent reports about itself; earlier agents do not."""


def _answered(method: Callable[..., Any]) -> Callable[..., Answer]:
    """Answer with records, or errors of the registry, as JSON values."""

    @functools.wraps(method)
    def answer(endpoint: "RegistryEndpoint", *args: Any, **arguments: Any) -> Answer:
        try:
            value = method(endpoint, *args, **arguments)
        except RegistryError as err:
            return wire.failure(err)
        if value is None:
            return {"value": None}
        if isinstance(value, list):
            return {"value": [wire.to_wire(each) for each in value]}
        return {"value": wire.to_wire(value)}

    return answer


@dataclass(frozen=True, slots=True)
class RegistryEndpoint:
    """Methods by the names of :class:`agent.registry.client.RegistryClient`."""

    target: ClassVar[Any] = Target(namespace=wire.NAMESPACE, version=wire.VERSION)

    store: SqlRegistry
    received: "SimpleQueue[tuple[str, str, int]]" = field(default_factory=SimpleQueue)
    """Heartbeats that report nothing new, for :class:`compute_registry.heartbeats.Heartbeats`."""
    on_echo: Callable[[object], object] = lambda _: None
    """Called with the number of a message that this instance may have sent to itself."""
    _reporting: set[str] = field(default_factory=set)
    """Hosts with a heartbeat at work: another one waits for no connection to the database."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def echo(self, _: Context, number: object) -> None:
        """Note that a message came back; nobody awaits an answer."""
        self.on_echo(number)

    @_answered
    def list_services(self, _: Context, after: str, limit: int | None) -> list[ServiceRecord]:
        """Return at most ``limit`` records, of hosts after this one."""
        checks.page(after, limit)
        return self.store.list_services(after=after, limit=min(limit or wire.PAGE, wire.PAGE))

    @_answered
    def get_service(self, _: Context, host: str) -> ServiceRecord:
        """Return the record of a host."""
        return self.store.get_service(host)

    @_answered
    def find_service(self, _: Context, uuid: str) -> ServiceRecord:
        """Return the record of this UUID."""
        return self.store.find_service(uuid)

    @_answered
    def heartbeat(
        self,
        _: Context,
        host: str,
        address: str,
        rpc_version: str | None,
        roots: list[str],
        **reported: Any,
    ) -> ServiceRecord:
        """Record a heartbeat; arguments of later versions are ignored.

        :raises RegistryUnavailable: an earlier heartbeat of this host has no answer yet.
        """
        checks.report(host, address)
        with self._lock:
            if host in self._reporting:
                raise RegistryUnavailable(f"an earlier heartbeat of {host} has no answer yet")
            self._reporting.add(host)
        known = {name: reported[name] for name in _REPORTED & reported.keys()}
        try:
            return self.store.heartbeat(host, address, rpc_version, roots, **known)
        finally:
            self._reporting.remove(host)

    @_answered
    def keep_alive(
        self, _: Context, host: str, address: str, version: int, **_unknown: Any
    ) -> None:
        """Note a heartbeat that reports nothing new; nobody awaits an answer."""
        checks.report(host, address)
        checks.versions(version)
        self.received.put((host, address, version))

    @_answered
    def set_status(  # noqa: PLR0913  the arguments on the wire
        self,
        context: Context,
        host: str,
        *,
        disabled: bool,
        reason: str | None,
        expected_version: int | None = None,
        new_version: int | None = None,
    ) -> ServiceRecord:
        """Disable or enable a host."""
        changed = self.store.set_status(
            host,
            disabled=disabled,
            reason=reason,
            expected_version=expected_version,
            new_version=new_version,
        )
        log_switched(changed, Caller.from_context(context))
        return changed

    @_answered
    def set_forced_down(
        self, context: Context, host: str, *, forced_down: bool, expected_version: int | None = None
    ) -> ServiceRecord:
        """Force a host down, or take that back."""
        changed = self.store.set_forced_down(
            host, forced_down=forced_down, expected_version=expected_version
        )
        log_forced(changed, Caller.from_context(context))
        return changed

    @_answered
    def delete(self, context: Context, host: str, uuid: str | None = None) -> None:
        """Delete a host's record."""
        self.store.delete(host, uuid=uuid)
        log_deleted(host, Caller.from_context(context))
