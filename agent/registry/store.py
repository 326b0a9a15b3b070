"""Service records in a database.

Each change is one UPDATE that names what it needs to find, so that two writers can't lose
each other's change, and a heartbeat, which touches columns of its own only, can't undo an
operator's.  All times are the database's.
"""

import functools
import uuid as uuidlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

import sqlalchemy as sa
from oslo_db import api as oslo_db_api
from oslo_db import exception as db_exception

from agent.registry import checks
from agent.registry.errors import (
    Changed,
    HostTaken,
    InputRefused,
    RegistryUnavailable,
    StillUp,
    UnknownHost,
)
from agent.registry.record import BINARY, DOWN_AFTER, ServiceRecord
from agent.registry.schema import one_line, shown
from agent.registry.tables import SERVICES, Now
from reportclient.plain_text import plain

P = ParamSpec("P")
R = TypeVar("R")
_C = SERVICES.c
_READ = [column for column in _C if column.name not in {"contested_by", "contested_at"}]
_SELECT = sa.select(
    *_READ,
    (Now() - _C.last_seen).label("silent_for"),
    sa.case((_C.contested_at > Now() - sa.literal(DOWN_AFTER, sa.Double), _C.contested_by)).label(
        "contested_by"
    ),
)


def _again_after_a_deadlock(method: Callable[P, R]) -> Callable[P, R]:
    retried: Callable[P, R] = oslo_db_api.wrap_db_retry(
        max_retries=5, retry_interval=0.05, inc_retry_interval=True, retry_on_deadlock=True
    )(method)

    @functools.wraps(method)
    def tried(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return retried(*args, **kwargs)
        except db_exception.DBDeadlock as err:
            raise RegistryUnavailable(f"the database is too busy: {one_line(err)}") from err

    return tried


@dataclass(frozen=True, slots=True)
class SqlRegistry:
    """See :class:`agent.registry.api.Registry`; its schema has to be up to date."""

    engine: sa.Engine
    down_after: float = DOWN_AFTER
    binary: str = BINARY

    def list_services(self, *, after: str = "", limit: int | None = None) -> list[ServiceRecord]:
        """All records by host, or a page of them: ``limit`` of those after this host."""
        checks.page(after, limit)
        wanted = _SELECT.where(_C.host > after).order_by(_C.host).limit(limit)
        with self._transaction() as connection:
            return [_record(row) for row in connection.execute(wanted)]

    def get_service(self, host: str) -> ServiceRecord:
        """One record."""
        checks.known_host(host)
        with self._transaction() as connection:
            return _one(connection, host)

    def find_service(self, uuid: str) -> ServiceRecord:
        """The record with this UUID."""
        checks.known_uuid(uuid)
        with self._transaction() as connection:
            row = connection.execute(_SELECT.where(_C.uuid == uuid)).one_or_none()
        if row is None:
            raise UnknownHost(f"no service has the UUID {uuid}")
        return _record(row)

    def heartbeat(
        self, host: str, address: str, rpc_version: str | None, roots: Sequence[str]
    ) -> ServiceRecord:
        """Say that the agent of ``host`` is alive; the first time makes the record."""
        checks.heartbeat(host, address, rpc_version, roots)
        said = {"address": address, "rpc_version": rpc_version, "roots": " ".join(roots)}
        found = self._beat(host, said)
        if found is None:
            self._insert(host)
            found = self._beat(host, said)
        if found is None:  # somebody else made it, or deleted it, in between
            found = self._beat(host, said)
        if found is None:
            raise UnknownHost(f"the record of {host} was deleted at this moment")
        return found

    @_again_after_a_deadlock
    def _beat(self, host: str, said: dict[str, Any]) -> ServiceRecord | None:
        ours = sa.or_(
            _C.address == said["address"],
            _C.address.is_(None),
            self._is_silent(),
        )
        beat = sa.update(SERVICES).where(_C.host == host, ours).values(**said, last_seen=Now())
        with self._transaction() as connection:
            changed = connection.execute(beat).rowcount
            row = connection.execute(_SELECT.where(_C.host == host)).one_or_none()
            if row is None or (not changed and row.address in (None, said["address"])):
                return None  # made by another after our update looked: look again
            if not changed:
                contest = {"contested_by": said["address"], "contested_at": Now()}
                connection.execute(sa.update(SERVICES).where(_C.host == host).values(**contest))
        if not changed:
            raise HostTaken(
                f"{host} is the name of another agent, that is up: it runs at {row.address}, "
                f"this one at {said['address']}"
            )
        return _record(row)

    @_again_after_a_deadlock
    def _insert(self, host: str) -> None:
        new = {"uuid": str(uuidlib.uuid4()), "host": host, "binary": self.binary, "version": 1}
        row = {**new, "disabled": False, "forced_down": False, "roots": ""}
        try:
            with self._transaction() as connection:
                connection.execute(sa.insert(SERVICES).values(**row))
        except db_exception.DBDuplicateEntry:
            return  # somebody was faster; there is a record, and that was wanted

    @_again_after_a_deadlock
    def set_status(
        self,
        host: str,
        *,
        disabled: bool,
        reason: str | None = None,
        expected_version: int | None = None,
    ) -> ServiceRecord:
        """Disable or enable; what else is in the record stays."""
        checks.flag("disabled", disabled)
        checks.version("expected_version", expected_version)
        text = checks.reason(disabled=disabled, reason=reason)
        since = sa.case((_C.disabled, _C.disabled_at), else_=Now()) if disabled else None
        # In this order: MySQL's assignments see what those before them have changed.
        values = {"disabled_at": since, "disabled": disabled, "disabled_reason": text}
        return self._set(host, values, expected_version)

    @_again_after_a_deadlock
    def set_forced_down(self, host: str, *, forced_down: bool) -> ServiceRecord:
        """Say that it is down whatever its heartbeats say, or take that back."""
        checks.flag("forced_down", forced_down)
        return self._set(host, {"forced_down": forced_down}, None)

    @_again_after_a_deadlock
    def delete(self, host: str) -> None:
        """Forget it, unless heartbeats come and nobody has said that it is down all the same."""
        checks.known_host(host)
        silent = sa.or_(_C.last_seen.is_(None), _C.forced_down, self._is_silent())
        with self._transaction() as connection:
            if connection.execute(sa.delete(SERVICES).where(_C.host == host, silent)).rowcount:
                return
            found = _one(connection, host)
        raise StillUp(
            f"{host} is up, at {found.address}: its next heartbeat would make the record anew; "
            f"stop its agent, then wait until it counts as down ({self.down_after:g} s), or force "
            "it down"
        )

    def _set(self, host: str, values: dict[str, Any], expected: int | None) -> ServiceRecord:
        checks.known_host(host)
        change = sa.update(SERVICES).where(_C.host == host)
        if expected is not None:
            change = change.where(_C.version == expected)
        with self._transaction() as connection:
            written = change.ordered_values(*values.items(), ("version", _C.version + 1))
            changed = connection.execute(written).rowcount
            found = _one(connection, host)
        if not changed:
            raise Changed(
                f"somebody else has changed the record of {host}: it has version "
                f"{found.version}, not {expected}"
            )
        return found

    def _is_silent(self) -> sa.ColumnElement[bool]:
        return _C.last_seen < Now() - sa.literal(self.down_after, sa.Double)

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Of which the first statement writes, if any does: SQLite then waits for its turn."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except (db_exception.DBDeadlock, db_exception.DBDuplicateEntry):
            raise
        except db_exception.DBDataError as err:
            raise InputRefused(one_line(err)) from err
        except (db_exception.DBError, sa.exc.SQLAlchemyError) as err:
            raise RegistryUnavailable(f"{shown(self.engine)}: {one_line(err)}") from err


def _one(connection: sa.Connection, host: str) -> ServiceRecord:
    row = connection.execute(_SELECT.where(_C.host == host)).one_or_none()
    if row is None:
        raise UnknownHost(f"no service has the host name {host}")
    return _record(row)


def _record(row: Any) -> ServiceRecord:
    values = dict(row._mapping)  # noqa: SLF001  SQLAlchemy's public name for it
    silent = values["silent_for"]
    for name in ("last_seen", "disabled_at"):
        at = values[name]
        values[name] = None if at is None else datetime.fromtimestamp(at, UTC)
    # A clock that was set back must not make it silent for less than nothing.
    values["silent_for"] = None if silent is None else max(0.0, float(silent))
    values["roots"] = tuple(values["roots"].split())
    if values["disabled_reason"] is not None:  # an older version stored it as it came
        values["disabled_reason"] = plain(values["disabled_reason"])
    return ServiceRecord(**values)
