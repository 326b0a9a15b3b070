"""The registry's database in memory, by a clock of its own, beneath the real endpoint.

``test_parts.py`` asks it and the real store the same.
"""

from __future__ import annotations

import copy
import uuid as uuidlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from agent.registry import checks
from agent.registry.errors import (
    Changed,
    HostTaken,
    RegistryUnavailable,
    StillUp,
    UnknownHost,
)
from agent.registry.record import DOWN_AFTER, ServiceRecord


@dataclass
class Row:
    record: ServiceRecord
    seen: float | None = None
    contested: tuple[str, float] | None = None


@dataclass
class MemoryRegistry:
    """As :class:`agent.registry.store.SqlRegistry`."""

    clock: Callable[[], float]
    down_after: float = DOWN_AFTER
    rows: dict[str, Row] = field(default_factory=dict)
    away: bool = False
    _backup: dict[str, Row] = field(default_factory=dict)
    _number: int = 0

    # -- what happens to a database

    def back_up(self) -> None:
        self._backup = copy.deepcopy(self.rows)

    def restore(self) -> None:
        self.rows = copy.deepcopy(self._backup)

    # -- what it is asked

    def list_services(self, *, after: str = "", limit: int | None = None) -> list[ServiceRecord]:
        checks.page(after, limit)
        self._open()
        found = [self._read(row) for host, row in sorted(self.rows.items()) if host > after]
        return found[:limit]

    def get_service(self, host: str) -> ServiceRecord:
        checks.known_host(host)
        return self._read(self._row(host))

    def find_service(self, uuid: str) -> ServiceRecord:
        checks.known_uuid(uuid)
        self._open()
        for row in self.rows.values():
            if row.record.uuid == uuid:
                return self._read(row)
        raise UnknownHost(f"no service has the UUID {uuid}")

    def heartbeat(
        self, host: str, address: str, rpc_version: str | None, roots: Sequence[str]
    ) -> ServiceRecord:
        checks.heartbeat(host, address, rpc_version, roots)
        self._open()
        row = self.rows.get(host) or self._new(host)
        if row.record.address not in (None, address) and not self._is_silent(row):
            row.contested = address, self.clock()
            raise HostTaken(
                f"{host} is the name of another agent, that is up: it runs at "
                f"{row.record.address}, this one at {address}"
            )
        row.seen = self.clock()
        said = {"address": address, "rpc_version": rpc_version, "roots": tuple(roots)}
        row.record = replace(row.record, **said)  # type: ignore[arg-type]
        return self._read(row)

    def set_status(
        self,
        host: str,
        *,
        disabled: bool,
        reason: str | None = None,
        expected_version: int | None = None,
    ) -> ServiceRecord:
        checks.flag("disabled", disabled)
        checks.version("expected_version", expected_version)
        text = checks.reason(disabled=disabled, reason=reason)
        row = self._row(host)
        if expected_version not in (None, row.record.version):
            raise Changed(
                f"somebody else has changed the record of {host}: it has version "
                f"{row.record.version}, not {expected_version}"
            )
        version = row.record.version + 1
        row.record = replace(row.record, disabled=disabled, disabled_reason=text, version=version)
        return self._read(row)

    def set_forced_down(self, host: str, *, forced_down: bool) -> ServiceRecord:
        checks.flag("forced_down", forced_down)
        row = self._row(host)
        version = row.record.version + 1
        row.record = replace(row.record, forced_down=forced_down, version=version)
        return self._read(row)

    def delete(self, host: str) -> None:
        checks.known_host(host)
        row = self._row(host)
        if not (row.seen is None or row.record.forced_down or self._is_silent(row)):
            raise StillUp(f"{host} is up, at {row.record.address}")
        del self.rows[host]

    def _open(self) -> None:
        if self.away:
            raise RegistryUnavailable("the database does not answer")

    def _row(self, host: str) -> Row:
        self._open()
        if host not in self.rows:
            raise UnknownHost(f"no service has the host name {host}")
        return self.rows[host]

    def _new(self, host: str) -> Row:
        self._number += 1
        uuid = str(uuidlib.uuid5(uuidlib.NAMESPACE_DNS, f"{host} {self._number}"))
        row = self.rows[host] = Row(ServiceRecord(self._number, uuid, host))
        return row

    def _is_silent(self, row: Row) -> bool:
        return row.seen is not None and row.seen < self.clock() - self.down_after

    def _read(self, row: Row) -> ServiceRecord:
        now, by = self.clock(), row.contested
        return replace(
            row.record,
            last_seen=None if row.seen is None else datetime.fromtimestamp(row.seen, UTC),
            silent_for=None if row.seen is None else max(0.0, now - row.seen),
            contested_by=by[0] if by and by[1] > now - DOWN_AFTER else None,
        )
