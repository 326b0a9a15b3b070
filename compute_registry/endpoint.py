"""The RPC endpoint of compute-registry, and who may call it."""

import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from queue import SimpleQueue
from typing import Any, ClassVar

from agent.bus.caller import Caller
from agent.bus.messaging import Target
from agent.bus.signing import SIGNED_BY, Operator
from agent.errors import InputRefused, NotPermitted, RegistryError, RegistryUnavailable
from agent.registry import checks, wire
from agent.registry.checks import HeartbeatMessage, StatusChange
from agent.registry.record import ServiceRecord
from compute_registry.control import log_deleted, log_forced, log_switched
from compute_registry.store import SqlRegistry

Answer = dict[str, Any]
Context = dict[str, Any]

AGENT_METHODS = frozenset({"heartbeat", "keep_alive", "get_service", "holders", "set_status"})
"""Methods that an agent may call, for its own host."""
UNSIGNED = "echo"
"""Its argument is known only to the instance of the registry that calls itself."""
BOUND_BY: Mapping[str, str] = {
    "set_status": "expected_version",
    "set_forced_down": "expected_version",
    "delete": "uuid",
}
"""The argument of each change that says what it was made for: a replay finds another record."""

_REPORTED = {each.name for each in fields(HeartbeatMessage)}


def _answered(method: Callable[..., Any]) -> Callable[..., Answer]:
    """Answer with records, or errors of the registry, as JSON values."""

    @functools.wraps(method)
    def answer(endpoint: "RegistryEndpoint", *args: Any, **arguments: Any) -> Answer:
        try:
            value = method(endpoint, *args, **arguments)
        except RegistryError as err:
            return wire.failure(err)
        if isinstance(value, list):
            return {"value": [wire.to_wire(each) for each in value]}
        return {"value": None if value is None else wire.to_wire(value)}

    return answer


def _report(host: str, address: str, more: Mapping[str, Any]) -> HeartbeatMessage:
    """Return the report in a call's arguments, without those of later versions."""
    return HeartbeatMessage(host, address, **{name: more[name] for name in more.keys() & _REPORTED})


@dataclass(frozen=True, slots=True)
class RegistryEndpoint:
    """Methods by the names of :class:`agent.registry.client.RegistryClient`."""

    target: ClassVar[Any] = Target(namespace=wire.NAMESPACE, version=wire.VERSION)

    store: SqlRegistry
    received: "SimpleQueue[HeartbeatMessage]" = field(default_factory=SimpleQueue)
    """Heartbeats that report nothing new, for :class:`compute_registry.heartbeats.Heartbeats`."""
    on_echo: Callable[[object], object] = lambda _: None
    """Called with the number of a message that this instance may have sent to itself."""
    _reporting: set[str] = field(default_factory=set)
    """Hosts with a heartbeat at work: another one waits for no connection to the database."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @_answered
    def echo(self, _: Context, number: object) -> None:
        """Note that a message came back."""
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
    def heartbeat(self, _: Context, host: str, address: str, **more: Any) -> ServiceRecord:
        """Record a heartbeat; arguments of later versions are ignored.

        :raises RegistryUnavailable: an earlier heartbeat of this host has no answer yet.
        """
        report = _report(host, address, more)
        with self._lock:
            if report.host in self._reporting:
                text = f"an earlier heartbeat of {report.host} has no answer yet"
                raise RegistryUnavailable(text)
            self._reporting.add(report.host)
        try:
            return self.store.heartbeat(report)
        finally:
            self._reporting.remove(report.host)

    @_answered
    def holders(self, _: Context, host: str, address: str, **more: Any) -> list[ServiceRecord]:
        """Return the records that have a root of a report, and that of its host."""
        return self.store.holders(_report(host, address, more))

    @_answered
    def keep_alive(
        self, _: Context, host: str, address: str, version: int, **_unknown: Any
    ) -> None:
        """Note a heartbeat that reports nothing new; nobody awaits an answer."""
        self.received.put(HeartbeatMessage(host, address, known_version=version))

    @_answered
    def set_status(
        self, context: Context, host: str, *, disabled: bool, **more: Any
    ) -> ServiceRecord:
        """Disable or enable a host; a change with an unknown condition is refused."""
        by_host = bool(context.get(SIGNED_BY))
        try:
            change = StatusChange(host, disabled=disabled, **more)
        except TypeError as err:
            raise InputRefused(str(err)) from err
        changed = self.store.set_status(change, by_host=by_host)
        log_switched(changed, Caller.from_context(context))
        return changed

    @_answered
    def set_forced_down(
        self, context: Context, host: str, *, forced_down: bool, expected_version: int | None = None
    ) -> ServiceRecord:
        """Force a host down, or take that back."""
        expected = {"expected_version": expected_version}
        changed = self.store.set_forced_down(host, forced_down=forced_down, **expected)
        log_forced(changed, Caller.from_context(context))
        return changed

    @_answered
    def delete(self, context: Context, host: str, uuid: str | None = None) -> None:
        """Delete a host's record."""
        self.store.delete(host, uuid=uuid)
        log_deleted(host, Caller.from_context(context))


@dataclass(frozen=True, slots=True)
class RegistryPermissions:
    """Calls to the registry: operators may make all, an agent those for its own host."""

    operator: Operator

    def __call__(
        self, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
    ) -> None:
        """:raises NotPermitted: the call is not signed, or not by one who may make it."""
        if method == UNSIGNED:
            return
        sender = self.operator.verified_sender(wire.TOPIC, method, arguments, context)
        if sender is None:
            raise NotPermitted(
                f"{method} is not signed, or not with a key of [registry]: set master_key where "
                "operators use computectl, host_key on the hypervisor"
            )
        bound_by = BOUND_BY.get(method)
        if bound_by is not None and arguments.get(bound_by) is None:
            raise NotPermitted(f"{method} is signed without {bound_by}, so it could be replayed")
        if sender and (method not in AGENT_METHODS or arguments.get("host") != sender):
            whom = f" {arguments['host']!a}" if "host" in arguments else ""
            raise NotPermitted(
                f"the host_key of {sender} does not allow {method}{whom}: run this where "
                "[registry] master_key is set"
            )

    def signed(self, _context: Mapping[str, Any], answer: Any) -> Any:
        """Return the answer: nobody else can read the call, and so answer it."""
        return answer
