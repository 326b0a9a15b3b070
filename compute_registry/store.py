"""Service records in the fleet's database.

Each change is one conditional UPDATE, so concurrent writers lose no change.  Heartbeats write
columns of their own, so they undo no change by an operator.  All times are the database's.
"""

import itertools
import logging
import time
import uuid as uuidlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Any, TypeVar

import sqlalchemy as sa

from agent import errors
from agent.errors import RegistryUnavailable, UnknownHost
from agent.registry import checks
from agent.registry.checks import ABOUT_AGENT, HeartbeatMessage, StatusChange
from agent.registry.record import DOWN_AFTER, ServiceRecord, is_alive
from compute_registry.database.fleet_database import FleetDatabase
from compute_registry.database.tables import CLOCK, NOW, ROOTS, SERVICES, TICK

VERSION_EPOCH = 1577836800
"""2020-01-01 in UTC: seconds since then fit the column ``version`` until 2088."""
COUNTED_EVERY = 60.0
"""Seconds for which the number of hosts that are up is used again."""
AT_ONCE = 100
"""Heartbeats in one statement."""
ROOTS_AT_ONCE = 1000
"""Root providers in one statement."""
SAME_TIME = 0.001
"""Seconds by which two times of one heartbeat may differ."""
LOG = logging.getLogger(__name__)
RECORDS_LOG = LOG.getChild("records")
"""Has a line each time a root is refused; ``limit_repeats`` drops repeated ones."""

R = TypeVar("R")
TransactionListener = Callable[[float, bool], object]
"""Called after each transaction with its duration in seconds and whether the database answered."""

_ROW = SERVICES.c
_HELD = {"last_seen": NOW, "heard": CLOCK}
"""The columns that each heartbeat writes."""
_INTERNAL = {"heard", "ordered", "contested_by", "contested_since", "contested_at"}
_DOWN = _ROW.heard < CLOCK - sa.bindparam("down_after")
_STATE = sa.case((sa.not_(sa.or_(_ROW.forced_down, _DOWN)), "up"), else_="down").label("state")
_STATUS = sa.case((_ROW.disabled, "disabled"), else_="enabled").label("status")
_COUNTS = sa.select(_STATE, _STATUS, sa.func.count().label("number")).group_by("state", "status")
_REPORT = (
    SERVICES.update()
    .where(
        _ROW.host == sa.bindparam("of_host"),
        sa.or_(
            _ROW.address == sa.bindparam("address"),
            _ROW.address.is_(None),
            sa.and_(_DOWN, sa.func.abs(_ROW.last_seen - sa.bindparam("replaces")) < SAME_TIME),
        ),
    )
    .values(_HELD | {name: sa.bindparam(name) for name in ABOUT_AGENT})
)
_GOES_ON = sa.and_(
    _ROW.contested_by == sa.bindparam("refused"), _ROW.contested_at > CLOCK - DOWN_AFTER
)
# In this order: in MySQL an assignment sees the results of those before it.
_REFUSAL = (
    SERVICES.update()
    .where(_ROW.id == sa.bindparam("of_id"))
    .ordered_values(
        (_ROW.contested_since, sa.case((_GOES_ON, _ROW.contested_since), else_=CLOCK)),
        (_ROW.contested_by, sa.bindparam("refused")),
        (_ROW.contested_at, CLOCK),
    )
)
_SUMMARY = sa.select(_ROW.id, _ROW.host, _ROW.address, _ROW.version, _ROW.disabled, _ROW.attached)
_OWNERS = sa.select(ROOTS.c.service_id)
# A version that is new even after a restore of the database from a backup.
_LATER = sa.func.greatest(_ROW.version + 1, sa.cast(sa.func.round(NOW - VERSION_EPOCH), sa.Integer))


def _records(table: Any = SERVICES) -> sa.Select[Any]:
    """Return the statement for the records of these rows of ``services``, a row for each root."""
    column = table.c
    own = [each for each in column if each.name not in _INTERNAL]
    # The served agent has to be heard after the other: after a reboot only one of them lives.
    both = (column.contested_by != column.address, column.heard > column.contested_since)
    lately = column.contested_at > CLOCK - DOWN_AFTER
    contested = sa.case((sa.and_(lately, *both), column.contested_by))
    return (
        sa.select(
            *own,
            ROOTS.c.root,
            (CLOCK - column.heard).label("silent_for"),
            contested.label("contested_by"),
        )
        .select_from(table.outerjoin(ROOTS, ROOTS.c.service_id == column.id))
        .order_by(column.host, ROOTS.c.root)
    )


_BY_HOST = _records().where(_ROW.host == sa.bindparam("of_host"))


@dataclass(slots=True)
class SqlRegistry:
    """See :class:`agent.registry.client.RegistryClient`; its schema has to be up to date."""

    database: FleetDatabase
    down_after: float = DOWN_AFTER
    listener: TransactionListener = lambda _seconds, _answered: None
    lost: bool = False
    """Whether the database did not answer the last transaction."""
    _hosts: tuple[float, int] = (-inf, 0)
    """When hosts that are up were counted (monotonic), and their number."""

    def list_services(self, *, after: str = "", limit: int | None = None) -> list[ServiceRecord]:
        """Return all records sorted by host, or at most ``limit`` of those after a host."""
        page = SERVICES.select().where(_ROW.host > after).order_by(_ROW.host).limit(limit)
        return self._run(lambda sql: _select(sql, _records(page.subquery())))

    def get_service(self, host: str) -> ServiceRecord:
        checks.require_host(host)
        return self._run(lambda sql: self._existing(sql, host))

    def find_service(self, uuid: str) -> ServiceRecord:
        wanted = _records().where(_ROW.uuid == checks.require_uuid(uuid))
        return _only(self._run(lambda sql: _select(sql, wanted)), f"the UUID {uuid}")

    def holders(self, report: HeartbeatMessage) -> list[ServiceRecord]:
        """Return the records that have a root of the report, and that of its host."""

        def work(sql: sa.Connection) -> list[ServiceRecord]:
            numbers = set[int]()
            for part in _parts(report.roots, ROOTS_AT_ONCE):
                numbers.update(sql.scalars(_OWNERS.where(ROOTS.c.root.in_(part))))
            wanted = sa.or_(_ROW.host == report.host, _ROW.id.in_(numbers))
            return _select(sql, _records().where(wanted))

        return self._run(work)

    def heartbeat(self, report: HeartbeatMessage) -> ServiceRecord:
        record = self._run(lambda sql: self._report(sql, report))
        if record.address != report.address:
            raise errors.HostTaken(
                f"host name {report.host} is in use by the agent at {record.address}, this one is "
                f"at {report.address}: if both run, set another [DEFAULT] host for one of them"
            )
        return replace(record, hosts=self._number_up())

    def keep_alive(self, beats: Mapping[str, HeartbeatMessage]) -> list[tuple[str, int, bool]]:
        """Record heartbeats that report nothing new, and keep the database's clock going.

        ``beats`` has the last report of each host, with its ``known_version``.  Return host,
        version and ``disabled`` of the records that have another version; those of agents in
        attach mode are left out.
        """
        # A transaction of its own: others wait for the row of the clock.
        self._run(lambda sql: sql.execute(TICK))
        unaware: list[tuple[str, int, bool]] = []
        for hosts in _parts(beats, AT_ONCE):

            def work(sql: sa.Connection, hosts: Collection[str] = hosts) -> list[Any]:
                rows = sql.execute(_SUMMARY.where(_ROW.host.in_(hosts))).all()
                alive = [row for row in rows if row.address == beats[row.host].address]
                numbers = [row.id for row in alive]
                sql.execute(SERVICES.update().where(_ROW.id.in_(numbers)).values(_HELD))
                return alive

            unaware += [
                (row.host, row.version, row.disabled)
                for row in self._run(work)
                if not row.attached and row.version != beats[row.host].known_version
            ]
        return unaware

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the number of hosts by state (up, down) and status (enabled, disabled)."""
        values = {"down_after": self.down_after}
        rows = self._run(lambda sql: sql.execute(_COUNTS, values).all())
        kinds = itertools.product(("up", "down"), ("enabled", "disabled"))
        return dict.fromkeys(kinds, 0) | {(row.state, row.status): row.number for row in rows}

    def _number_up(self) -> int:
        """Return the number of hosts that are up, counted at most once a minute."""
        counted_at, number = self._hosts
        if time.monotonic() - counted_at > COUNTED_EVERY:
            number = sum(n for (state, _), n in self.counts().items() if state == "up")
            self._hosts = time.monotonic(), number
        return number

    def _report(self, sql: sa.Connection, report: HeartbeatMessage) -> ServiceRecord:
        """Return the record after the heartbeat.

        If the record has another address, the heartbeat was refused.
        """
        values = report.about_agent() | {"of_host": report.host, "down_after": self.down_after}
        values["replaces"] = report.replaced_at()
        for _ in range(3):  # another process may create or delete the record in between
            changed = sql.execute(_REPORT, values).rowcount
            found = _select(sql, _BY_HOST, of_host=report.host)
            if not found:
                sql.execute(SERVICES.insert().values(uuid=str(uuidlib.uuid4()), host=report.host))
                continue
            record = found[0]
            if changed and report.roots != record.roots:
                return replace(record, roots=self._claim(sql, record, report.roots))
            if changed or record.address not in (None, report.address):
                break
        else:
            raise UnknownHost(f"the record of {report.host} was deleted during its heartbeat")
        if not changed and not is_alive(record, self.down_after):
            raise errors.Changed(
                f"the record of {report.host} is that of an agent at {record.address}, which is "
                "down: read the record, and report when it was last seen"
            )
        if not changed:
            sql.execute(_REFUSAL, {"of_id": record.id, "refused": report.address})
        return record

    def _claim(
        self, sql: sa.Connection, record: ServiceRecord, claimed: Sequence[str]
    ) -> tuple[str, ...]:
        """Give the record these roots, without those of other hosts that are up; return them.

        A root of a host that is down moves to this host.
        """
        host, own, new = record.host, set(record.roots), set(claimed).difference(record.roots)
        rivals = sa.select(ROOTS.c.root, _ROW.host, CLOCK - _ROW.heard).join(SERVICES)
        of_record = ROOTS.delete().where(ROOTS.c.service_id == record.id)
        for part in _parts(own.difference(claimed), ROOTS_AT_ONCE):
            sql.execute(of_record.where(ROOTS.c.root.in_(part)))
        for part in _parts(new, ROOTS_AT_ONCE):
            for root, owner, silent_for in sql.execute(rivals.where(ROOTS.c.root.in_(part))).all():
                if silent_for is None or silent_for > self.down_after:
                    sql.execute(ROOTS.delete().where(ROOTS.c.root == root))
                    text = "Root provider %s: moved to the record of %s from %s, which is down"
                    LOG.info(text, root, host, owner)
                    continue
                new.remove(root)
                text = "Root provider %s: not added to the record of %s: it is in that of %s, %s"
                RECORDS_LOG.warning(text, root, host, owner, "which is up")
        if new:
            rows = [{"root": root, "service_id": record.id} for root in sorted(new)]
            sql.execute(ROOTS.insert(), rows)
        return tuple(sorted(own.intersection(claimed) | new))

    def set_status(self, change: StatusChange, *, by_host: bool = False) -> ServiceRecord:
        """``by_host``: the call was signed with the key of the host itself."""
        at = _ROW.disabled_at
        keeps = sa.and_(_ROW.disabled, sa.or_(at.is_(None), at.between(0, NOW)))
        # In this order: in MySQL an assignment sees the results of those before it.
        values = [
            (at, sa.case((keeps, at), else_=NOW) if change.disabled else None),
            (_ROW.disabled, change.disabled),
            (_ROW.disabled_reason, change.reason),
        ]
        if change.new_version is None and not by_host:
            return self._order(change.host, values, change.expected_version)
        version = _LATER if change.new_version is None else _ROW.version + 1
        held = _ROW.version == change.expected_version
        return self._set(change.host, [*values, (_ROW.version, version)], held)

    def set_forced_down(
        self, host: str, *, forced_down: bool, expected_version: int | None = None
    ) -> ServiceRecord:
        checks.flag("forced_down", forced_down)
        checks.versions(expected_version)
        return self._order(host, [(_ROW.forced_down, forced_down)], expected_version)

    def delete(self, host: str, *, uuid: str | None = None) -> None:
        """Delete a record, unless its service is up and not forced down."""
        checks.require_host(host)
        row = SERVICES.delete().where(_ROW.host == host)
        if uuid is not None:
            row = row.where(_ROW.uuid == checks.require_uuid(uuid))
        deletion = row.where(sa.or_(_ROW.last_seen.is_(None), _ROW.forced_down, _DOWN))

        def work(sql: sa.Connection) -> ServiceRecord | None:
            deleted = sql.execute(deletion, {"down_after": self.down_after}).rowcount
            return None if deleted else self._existing(sql, host)

        record = self._run(work)
        if record is not None and uuid is not None and record.uuid != checks.require_uuid(uuid):
            raise errors.Changed(f"the record of {host} was created again: its UUID is not {uuid}")
        if record is not None:
            raise errors.StillUp(
                f"{host} is up, at {record.address}: its next heartbeat would create the record "
                "again; stop its agent, then wait until it counts as down "
                f"({self.down_after:g} s), or force it down"
            )

    def _order(
        self, host: str, changes: Sequence[tuple[Any, Any]], read: int | None
    ) -> ServiceRecord:
        """Carry out an operator's change, whatever the host itself has changed since ``read``.

        It is refused if another operator has changed the record since: so a replay is.
        """
        free = sa.true() if read is None else sa.literal(read).between(_ROW.ordered, _ROW.version)
        return self._set(host, [*changes, (_ROW.ordered, _LATER), (_ROW.version, _LATER)], free)

    def _set(
        self, host: str, changes: Sequence[tuple[Any, Any]], free: sa.ColumnElement[bool]
    ) -> ServiceRecord:
        """Change the record if it is ``free`` to be changed.  :raises Changed: it is not."""
        checks.require_host(host)
        change = SERVICES.update().where(_ROW.host == host, free).ordered_values(*changes)
        changed, record = self._run(
            lambda sql: (sql.execute(change).rowcount, self._existing(sql, host))
        )
        if changed:
            return record
        text = f"the record of {host} was changed by another caller: it has version"
        raise errors.Changed(f"{text} {record.version} now")

    def _run(self, work: Callable[[sa.Connection], R]) -> R:
        """Run ``work`` in a transaction; log once that the database is lost, and that it is back.

        See :meth:`FleetDatabase.run`.
        """
        began, answered = time.monotonic(), True
        try:
            return self.database.run(work)
        except RegistryUnavailable as err:
            answered = False
            if not self.lost:
                LOG.warning("The database does not answer: %s", err)
            self.lost = True
            raise
        finally:
            if answered and self.lost:
                self.lost = False
                LOG.info("The database answers again")
            self.listener(time.monotonic() - began, answered)

    def _existing(self, sql: sa.Connection, host: str) -> ServiceRecord:
        return _only(_select(sql, _BY_HOST, of_host=host), f"the host name {host}")


def _select(sql: sa.Connection, wanted: sa.Select[Any], **values: Any) -> list[ServiceRecord]:
    return list(_from_rows(map(dict, sql.execute(wanted, values).mappings())))


def _only(records: Sequence[ServiceRecord], which: str) -> ServiceRecord:
    if not records:
        raise UnknownHost(f"no service has {which}")
    return records[0]


def _parts(items: Iterable[str], size: int) -> Iterator[Sequence[str]]:
    """Yield parts of at most this size, sorted, so that transactions lock in the same order."""
    ordered = sorted(items)
    return (ordered[first : first + size] for first in range(0, len(ordered), size))


def _from_rows(rows: Iterable[dict[str, Any]]) -> Iterator[ServiceRecord]:
    """Yield the records of rows, which are sorted by host and have a root each, or none."""
    for _, group in itertools.groupby(rows, lambda row: row["id"]):
        of_host = list(group)
        values = {**of_host[0]}
        del values["root"]
        values |= {name: _time(values[name]) for name in ("disabled_at", "last_seen")}
        if values["silent_for"] is not None:  # negative after the database's clock was set back
            values["silent_for"] = max(0.0, float(values["silent_for"]))
        values["roots"] = tuple(row["root"] for row in of_host if row["root"] is not None)
        yield ServiceRecord(**values)


def _time(seconds: float | None) -> datetime | None:
    """Return the time; ``None`` for what is no time, so that a damaged row hides no other."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
