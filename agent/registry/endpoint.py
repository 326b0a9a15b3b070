"""The registry's side of the RPC: calls in, the store asked, answers out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agent.messaging import Target
from agent.registry import wire
from agent.registry.errors import RegistryError, RegistryUnavailable
from agent.registry.store import SqlRegistry

LOG = logging.getLogger(__name__)

Answer = dict[str, Any]
Context = dict[str, Any]


@dataclass(slots=True)
class Outage:
    """A thousand agents ask; that the database is away is said once, and once that it is back."""

    lasts: bool = False

    def began(self, err: Exception) -> None:
        """Something failed."""
        if not self.lasts:
            LOG.warning("The database is lost: %s", err)
        self.lasts = True

    def ended(self) -> None:
        """Something worked."""
        if self.lasts:
            LOG.info("The database is back")
        self.lasts = False


@dataclass(frozen=True, slots=True)
class RegistryEndpoint:
    """Methods by the names of :class:`agent.registry.api.Registry`."""

    target: ClassVar[Any] = Target(namespace=wire.NAMESPACE, version=wire.VERSION)

    store: SqlRegistry
    outage: Outage = field(default_factory=Outage)

    def list_services(self, _: Context, after: str, limit: int) -> Answer:
        """A page: at most ``limit`` records, of hosts after this one."""
        pages = min(limit, wire.PAGE)
        return self._answer(
            lambda: [
                wire.to_wire(each) for each in self.store.list_services(after=after, limit=pages)
            ]
        )

    def get_service(self, _: Context, host: str) -> Answer:
        """One record."""
        return self._answer(lambda: wire.to_wire(self.store.get_service(host)))

    def find_service(self, _: Context, uuid: str) -> Answer:
        """One record, by UUID."""
        return self._answer(lambda: wire.to_wire(self.store.find_service(uuid)))

    def heartbeat(
        self, _: Context, host: str, address: str, rpc_version: str | None, roots: list[str]
    ) -> Answer:
        """An agent is alive."""
        return self._answer(
            lambda: wire.to_wire(self.store.heartbeat(host, address, rpc_version, roots))
        )

    def set_status(
        self,
        _: Context,
        host: str,
        *,
        disabled: bool,
        reason: str | None,
        expected_version: int | None,
    ) -> Answer:
        """Disable or enable."""
        return self._answer(
            lambda: wire.to_wire(
                self.store.set_status(
                    host, disabled=disabled, reason=reason, expected_version=expected_version
                )
            )
        )

    def set_forced_down(self, _: Context, host: str, *, forced_down: bool) -> Answer:
        """Force down, or take it back."""
        return self._answer(
            lambda: wire.to_wire(self.store.set_forced_down(host, forced_down=forced_down))
        )

    def delete(self, _: Context, host: str) -> Answer:
        """Forget a host."""
        return self._answer(lambda: self.store.delete(host))

    def _answer(self, work: Callable[[], Any]) -> Answer:
        try:
            value = work()
        except RegistryUnavailable as err:
            self.outage.began(err)
            return wire.failure(err)
        except RegistryError as err:
            return wire.failure(err)
        self.outage.ended()
        return {"value": value}
