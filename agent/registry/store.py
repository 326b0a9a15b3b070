"""Service records in a database.

Each change is one conditional UPDATE, so concurrent writers lose no change.  Heartbeats write
columns of their own, so they undo no change by an operator.  All times are the database's.
"""

import logging
import time
import uuid as uuidlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, TypeVar

from agent.registry import checks, errors
from agent.registry.checks import LARGEST_VERSION
from agent.registry.database import Database, Duplicate, Transaction
from agent.registry.errors import RegistryUnavailable, UnknownHost, Unreadable
from agent.registry.record import (
    BINARY,
    DOWN_AFTER,
    RECREATE,
    ServiceRecord,
    record_from_row,
    unreadable,
)

VERSION_EPOCH = 1577836800
"""2020-01-01 in UTC: seconds since then fit the column ``version`` until 2088."""
COUNTED_EVERY = 60.0
"""Seconds for which the number of hosts that are up is used again."""
AT_ONCE = 100
"""Heartbeats in one statement."""
_SENDERS = " OR ".join(f"(host = :h{each} AND address = :a{each})" for each in range(AT_ONCE))
_UNAWARE = " OR ".join(
    f"(host = :h{each} AND address = :a{each} AND version <> :v{each})" for each in range(AT_ONCE)
)
LOG = logging.getLogger("compute_agent.registry")

R = TypeVar("R")
TransactionListener = Callable[[float, bool], object]
"""Called after each transaction with its duration in seconds and whether the database answered."""


@dataclass(slots=True)
class SqlRegistry:
    """See :class:`agent.registry.client.RegistryClient`; its schema has to be up to date."""

    database: Database
    down_after: float = DOWN_AFTER
    binary: str = BINARY
    unreadable: set[str] = field(default_factory=set)
    """Hosts whose records can't be read, which was logged."""
    refused: set[tuple[str, str]] = field(default_factory=set)
    """Refused claims that were logged: the root, and the host that claimed it."""
    _hosts: tuple[float, int] = (-inf, 0)
    """When hosts that are up were counted (monotonic), and their number."""

    def list_services(self, *, after: str = "", limit: int | None = None) -> list[ServiceRecord]:
        """Return all records sorted by host, or at most ``limit`` of those after a host."""
        checks.page(after, limit)
        wanted = f"{self._select} WHERE host > :after ORDER BY host LIMIT :most"
        most = limit or LARGEST_VERSION
        return self._run(
            lambda sql: [self._listed(row) for row in sql.rows(wanted, after=after, most=most)]
        )

    def get_service(self, host: str) -> ServiceRecord:
        checks.require_host(host)
        return self._run(lambda sql: self._existing(sql, host))

    def find_service(self, uuid: str) -> ServiceRecord:
        checks.require_uuid(uuid)
        wanted = f"{self._select} WHERE uuid = :uuid"
        rows = self._run(lambda sql: sql.rows(wanted, uuid=uuid))
        if not rows:
            raise UnknownHost(f"no service has the UUID {uuid}")
        return self._record(rows[0])

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
        known_version: int | None = None,  # noqa: ARG002  an answer costs nothing here
    ) -> ServiceRecord:
        checks.heartbeat(host, address, rpc_version, roots)
        checks.flag("attached", attached)
        checks.short_text("agent_version", agent_version)
        checks.short_text("degraded", degraded)
        reported = {
            "address": address,
            "rpc_version": rpc_version,
            "roots": " ".join(roots),
            "attached": attached,
            "agent_version": agent_version,
            "degraded": degraded,
        }
        for _ in range(3):  # another process may create or delete the record in between
            if (record := self._beat(host, reported)) is not None:
                break
            self._insert(host)
        else:
            raise UnknownHost(f"the record of {host} was deleted during its heartbeat")
        if record.address != address:
            raise errors.HostTaken(
                f"host name {host} is used by another agent, which is up: that agent runs at "
                f"{record.address}, this one at {address}"
            )
        return replace(record, hosts=self._number_up())

    def keep_alive(self, beats: Mapping[str, tuple[str, int]]) -> list[Mapping[str, Any]]:
        """Record heartbeats that report nothing new, and keep the database's clock going.

        ``beats`` has by host the address of its agent, and the version of the record that the agent
        has seen.  Return host, version and ``disabled`` of the records with another version; those
        of agents in attach mode are left out.
        """
        now, clock, changed = self.database.now, self.database.clock, list[Mapping[str, Any]]()
        if self.database.tick:  # a transaction of its own: others wait for the row of the clock
            self._run(lambda sql: sql.change(self.database.tick))
        alive = f"UPDATE services SET last_seen = {now}, heard = {clock} WHERE {_SENDERS}"
        unaware = (
            f"SELECT host, version, disabled FROM services WHERE NOT attached AND ({_UNAWARE})"
        )
        items = list(beats.items())
        for first in range(0, len(items), AT_ONCE):
            part = items[first : first + AT_ONCE]
            part += part[-1:] * (AT_ONCE - len(part))  # so that the statement is always the same
            values: dict[str, Any] = {}
            for number, (host, (address, version)) in enumerate(part):
                values |= {f"h{number}": host, f"a{number}": address, f"v{number}": version}

            def work(
                sql: Transaction, values: dict[str, Any] = values
            ) -> Sequence[Mapping[str, Any]]:
                sql.change(alive, **values)
                return sql.rows(unaware, **values)

            changed += self._run(work)
        return changed

    def _number_up(self) -> int:
        """Return the number of hosts that are up, counted at most once a minute."""
        counted_at, number = self._hosts
        if time.monotonic() - counted_at > COUNTED_EVERY:
            wanted = (
                f"SELECT COUNT(*) AS up FROM services WHERE NOT (forced_down OR {self._is_silent})"
            )
            rows = self._run(lambda sql: sql.rows(wanted, down_after=self.down_after))
            number = int(rows[0]["up"])
            self._hosts = time.monotonic(), number
        return number

    def _beat(self, host: str, reported: dict[str, Any]) -> ServiceRecord | None:
        """Return the record after the heartbeat, ``None`` if there is no record.

        If the record has another address, the heartbeat was refused.
        """
        beat = (
            "UPDATE services SET address = :address, rpc_version = :rpc_version, roots = :roots, "
            "attached = :attached, agent_version = :agent_version, degraded = :degraded, "
            f"last_seen = {self.database.now}, heard = {self.database.clock} WHERE host = :host "
            f"AND (address = :address OR address IS NULL OR {self._is_silent})"
        )
        contest = (
            "UPDATE services SET contested_by = :address, "
            f"contested_at = {self.database.now} WHERE host = :host"
        )

        def work(sql: Transaction) -> ServiceRecord | None:
            key = {"host": host, "down_after": self.down_after}
            changed = sql.change(f"{beat} AND roots = :roots", **key, **reported)
            row = self._row(sql, host)
            if row is not None and not changed:
                recorded, claimed = str(row["roots"]).split(), reported["roots"].split()
                roots = " ".join(self._granted(sql, host, recorded, claimed))
                changed = sql.change(beat, **key, **{**reported, "roots": roots})
                row = self._row(sql, host)
            if row is None or (not changed and row["address"] in (None, reported["address"])):
                return None  # created by another process after the UPDATE: try again
            if not changed:
                sql.change(contest, host=host, address=reported["address"])
            return self._record(row)

        return self._run(work)

    def _granted(
        self, sql: Transaction, host: str, recorded: Sequence[str], roots: Sequence[str]
    ) -> list[str]:
        """Return the roots without those of other hosts that are up; ``recorded``: in the record.

        A root of a host that is down moves to this host.
        """
        granted = list(roots)
        for root in (root for root in roots if root not in recorded):
            for rival in sql.rows(
                f"{self._select} WHERE host <> :host AND roots LIKE :part",
                host=host,
                part=f"%{root}%",
            ):
                owner, silent_for = rival["host"], rival["silent_for"]
                if silent_for is None or silent_for > self.down_after:
                    left = [other for other in str(rival["roots"]).split() if other != root]
                    sql.change(
                        "UPDATE services SET roots = :roots WHERE host = :host",
                        roots=" ".join(left),
                        host=owner,
                    )
                    LOG.info(
                        "Root provider %s: moved to the record of %s from %s, which is down",
                        root,
                        host,
                        owner,
                    )
                elif root in granted:
                    granted.remove(root)
                    if (root, host) not in self.refused:
                        LOG.warning(
                            "Root provider %s: not added to the record of %s: it is in that of %s, "
                            "which is up",
                            root,
                            host,
                            owner,
                        )
                    self.refused.add((root, host))
        self.refused -= {(root, host) for root in granted}
        return granted

    def _insert(self, host: str) -> None:
        new = (
            f"INSERT INTO services (uuid, host, {self.database.binary}, version, disabled, "
            "forced_down, roots) VALUES (:uuid, :host, :binary, 1, :no, :no, '')"
        )
        row = {"uuid": str(uuidlib.uuid4()), "host": host, "binary": self.binary, "no": False}
        try:
            self._run(lambda sql: sql.change(new, **row))
        except Duplicate:
            return  # another process has created the record

    def set_status(
        self,
        host: str,
        *,
        disabled: bool,
        reason: str | None = None,
        expected_version: int | None = None,
        new_version: int | None = None,
    ) -> ServiceRecord:
        checks.flag("disabled", disabled)
        checks.version("expected_version", expected_version)
        checks.version("new_version", new_version)
        text = checks.reason(disabled=disabled, reason=reason)
        now = self.database.now
        keeps = f"disabled AND (disabled_at IS NULL OR disabled_at BETWEEN 0 AND {now})"
        since = f"CASE WHEN {keeps} THEN disabled_at ELSE {now} END"
        # In this order: in MySQL an assignment sees the results of those before it.
        assignments = f"disabled_at = {since if disabled else 'NULL'}, disabled = :disabled, "
        values = {"disabled": disabled, "disabled_reason": text}
        assignments += "disabled_reason = :disabled_reason"
        return self._set(host, assignments, values, expected_version, new_version)

    def set_forced_down(
        self, host: str, *, forced_down: bool, expected_version: int | None = None
    ) -> ServiceRecord:
        checks.flag("forced_down", forced_down)
        checks.version("expected_version", expected_version)
        values = {"forced_down": forced_down}
        return self._set(host, "forced_down = :forced_down", values, expected_version)

    def delete(self, host: str) -> None:
        """Delete a record, unless its service is up and not forced down."""
        checks.require_host(host)
        deletion = (
            "DELETE FROM services WHERE host = :host "
            f"AND (last_seen IS NULL OR forced_down OR {self._is_silent})"
        )

        def work(sql: Transaction) -> ServiceRecord | None:
            if sql.change(deletion, host=host, down_after=self.down_after):
                return None
            try:
                return self._existing(sql, host)
            except Unreadable:
                sql.change("DELETE FROM services WHERE host = :host", host=host)
                return None

        record = self._run(work)
        if record is not None:
            raise errors.StillUp(
                f"{host} is up, at {record.address}: its next heartbeat would create the record "
                "again; stop its agent, then wait until it counts as down "
                f"({self.down_after:g} s), or force it down"
            )

    def _set(
        self,
        host: str,
        assignments: str,
        values: dict[str, Any],
        expected: int | None,
        new: int | None = None,
    ) -> ServiceRecord:
        checks.require_host(host)
        version = self._later if new is None else ":new"
        change = f"UPDATE services SET {assignments}, version = {version} WHERE host = :host"
        if expected is not None:
            change += " AND version = :expected"
            values = {**values, "expected": expected}
        if new is not None:
            values = {**values, "new": new}

        def work(sql: Transaction) -> tuple[int, ServiceRecord]:
            return sql.change(change, host=host, **values), self._existing(sql, host)

        changed, record = self._run(work)
        if not changed:
            raise errors.Changed(
                f"the record of {host} was changed by another caller: it has version "
                f"{record.version}, not {expected}"
            )
        return record

    def _run(self, work: Callable[[Transaction], R]) -> R:
        return self.database.run(work)

    def _existing(self, sql: Transaction, host: str) -> ServiceRecord:
        row = self._row(sql, host)
        if row is None:
            raise UnknownHost(f"no service has the host name {host}")
        return self._record(row)

    def _row(self, sql: Transaction, host: str) -> Mapping[str, Any] | None:
        return next(iter(sql.rows(f"{self._select} WHERE host = :host", host=host)), None)

    def _record(self, row: Mapping[str, Any]) -> ServiceRecord:
        """Return the record of a row.  :raises Unreadable: a column can't be read."""
        record = self._listed(row)
        if record.unreadable:
            raise Unreadable(f"{unreadable(record.host)}: {RECREATE}")
        return record

    def _listed(self, row: Mapping[str, Any]) -> ServiceRecord:
        """Return the record of a row; log once that it can't be read, and once that it can."""
        record = record_from_row(row)
        if record.unreadable and record.host not in self.unreadable:
            LOG.warning("%s: %s", unreadable(record.host), RECREATE)
            self.unreadable.add(record.host)
        elif not record.unreadable and record.host in self.unreadable:
            LOG.info("The record of %s can be read again", record.host)
            self.unreadable.discard(record.host)
        return record

    @property
    def _select(self) -> str:
        now = self.database.now
        return (
            f"SELECT id, uuid, host, {self.database.binary}, disabled, disabled_reason, "
            "disabled_at, forced_down, rpc_version, last_seen, roots, address, version, attached, "
            f"agent_version, degraded, {self.database.clock} - heard AS silent_for, "
            f"CASE WHEN contested_at > {now} - {DOWN_AFTER} THEN contested_by END AS contested_by "
            "FROM services"
        )

    @property
    def _later(self) -> str:
        """SQL for a version that is new even after a restore of the database from a backup."""
        now = f"ROUND({self.database.now} - {VERSION_EPOCH})"
        return f"CASE WHEN version + 1 > {now} THEN version + 1 ELSE {now} END"

    @property
    def _is_silent(self) -> str:
        return f"heard < {self.database.clock} - :down_after"


@dataclass(slots=True)
class WatchedRegistry(SqlRegistry):
    """A registry that calls ``listener`` after each transaction.

    It logs once when the database is lost, and once when it is back.
    """

    listener: TransactionListener = lambda _seconds, _answered: None
    lost: bool = False

    def _run(self, work: Callable[[Transaction], R]) -> R:
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
