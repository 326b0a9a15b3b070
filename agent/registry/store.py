"""Service records in a database.

Each change is one UPDATE with a condition, so two writers can't lose each other's change, and a
heartbeat has columns of its own, so it can't undo an operator's.  All times are the database's.
"""

import logging
import time
import uuid as uuidlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agent.registry import checks
from agent.registry.checks import LARGEST_VERSION
from agent.registry.database import Database, Duplicate, Transaction
from agent.registry.errors import Changed, HostTaken, RegistryUnavailable, StillUp, UnknownHost
from agent.registry.record import BINARY, DOWN_AFTER, REPAIR, ServiceRecord, damage
from agent.registry.stored import record_from_row
from reportclient.plain_text import plain

VERSION_EPOCH = 1577836800
"""2020-01-01 in UTC: a version that counts seconds from then fits its column until 2088."""
LOG = logging.getLogger(__name__)

R = TypeVar("R")
TransactionListener = Callable[[float, bool], object]
"""Called after each transaction with its seconds and whether the database answered."""


@dataclass(slots=True)
class SqlRegistry:
    """See :class:`agent.registry.client.RegistryClient`; its schema has to be up to date."""

    database: Database
    down_after: float = DOWN_AFTER
    binary: str = BINARY
    damaged: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns that can't be read and were logged, by host."""
    refused: set[tuple[str, str]] = field(default_factory=set)
    """Roots of hosts that are up, each with the host whose claim was refused and logged."""

    def list_services(self, *, after: str = "", limit: int | None = None) -> list[ServiceRecord]:
        """Return all records sorted by host, or at most ``limit`` of those after a host."""
        checks.page(after, limit)
        wanted = f"{self._select} WHERE host > :after ORDER BY host LIMIT :most"
        most = limit or LARGEST_VERSION
        return self._run(
            lambda sent: [self._record(row) for row in sent.rows(wanted, after=after, most=most)]
        )

    def get_service(self, host: str) -> ServiceRecord:
        checks.require_host(host)
        return self._run(lambda sent: self._one(sent, host))

    def find_service(self, uuid: str) -> ServiceRecord:
        checks.require_uuid(uuid)
        wanted = f"{self._select} WHERE uuid = :uuid"
        found = self._run(lambda sent: sent.rows(wanted, uuid=uuid))
        if not found:
            raise UnknownHost(f"no service has the UUID {uuid}")
        return self._record(found[0])

    def heartbeat(
        self,
        host: str,
        address: str,
        rpc_version: str | None,
        roots: Sequence[str],
        *,
        attached: bool = False,
    ) -> ServiceRecord:
        checks.heartbeat(host, address, rpc_version, roots)
        checks.flag("attached", attached)
        said = {
            "address": address,
            "rpc_version": rpc_version,
            "roots": " ".join(roots),
            "attached": attached,
        }
        found = self._beat(host, said)
        if found is None:
            self._insert(host)
            found = self._beat(host, said)
        if found is None:  # somebody else made it, or deleted it, in between
            found = self._beat(host, said)
        if found is None:
            raise UnknownHost(f"the record of {host} was deleted at this moment")
        if found.address != address:
            raise HostTaken(
                f"{host} is the name of another agent, that is up: it runs at {found.address}, "
                f"this one at {address}"
            )
        return found

    def _beat(self, host: str, said: dict[str, Any]) -> ServiceRecord | None:
        """Return the record after the heartbeat; with another address it was refused."""
        beat = (
            "UPDATE services SET address = :address, rpc_version = :rpc_version, roots = :roots, "
            f"attached = :attached, last_seen = {self.database.now} WHERE host = :host "
            f"AND (address = :address OR address IS NULL OR {self._is_silent})"
        )
        contest = (
            "UPDATE services SET contested_by = :address, "
            f"contested_at = {self.database.now} WHERE host = :host"
        )

        def work(sent: Transaction) -> ServiceRecord | None:
            known = {"host": host, "down_after": self.down_after}
            changed = sent.change(f"{beat} AND roots = :roots", **known, **said)
            if not changed:
                roots = " ".join(self._granted(sent, host, said["roots"].split()))
                changed = sent.change(beat, **known, **{**said, "roots": roots})
            row = self._row(sent, host)
            if row is None or (not changed and row["address"] in (None, said["address"])):
                return None  # made by another after our update looked: look again
            if not changed:
                sent.change(contest, host=host, address=said["address"])
            return self._record(row)

        return self._run(work)

    def _granted(self, sent: Transaction, host: str, roots: Sequence[str]) -> list[str]:
        """Return the roots without those of other hosts that are up.

        A root of a host that is down moves to this host.
        """
        row = next(iter(sent.rows("SELECT roots FROM services WHERE host = :host", host=host)), {})
        had = str(row.get("roots") or "").split()
        granted = list(roots)
        for root in (one for one in roots if one not in had):
            for rival in sent.rows(
                f"{self._select} WHERE host <> :host AND roots LIKE :part",
                host=host,
                part=f"%{root}%",
            ):
                other, silent_for = rival["host"], rival["silent_for"]
                if silent_for is None or silent_for > self.down_after:
                    left = [one for one in str(rival["roots"]).split() if one != root]
                    sent.change(
                        "UPDATE services SET roots = :roots WHERE host = :host",
                        roots=" ".join(left),
                        host=other,
                    )
                    LOG.info("The root %s of %s, which is down, is now %s's", root, other, host)
                elif root in granted:
                    granted.remove(root)
                    if (root, host) not in self.refused:
                        LOG.warning(
                            "%s claims the root %s of %s, which is up: refused", host, root, other
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
            self._run(lambda sent: sent.change(new, **row))
        except Duplicate:
            return  # somebody was faster; there is a record, and that was wanted

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
        now = self.database.now
        known = f"disabled AND (disabled_at IS NULL OR disabled_at BETWEEN 0 AND {now})"
        since = f"CASE WHEN {known} THEN disabled_at ELSE {now} END"
        # In this order: MySQL's assignments see what those before them have changed.
        said = f"disabled_at = {since if disabled else 'NULL'}, disabled = :disabled, "
        values = {"disabled": disabled, "disabled_reason": text}
        return self._set(
            host, f"{said}disabled_reason = :disabled_reason", values, expected_version
        )

    def set_forced_down(self, host: str, *, forced_down: bool) -> ServiceRecord:
        checks.flag("forced_down", forced_down)
        return self._set(host, "forced_down = :forced_down", {"forced_down": forced_down}, None)

    def delete(self, host: str) -> None:
        """Delete a record, unless its service is up and not forced down."""
        checks.require_host(host)
        gone = (
            "DELETE FROM services WHERE host = :host "
            f"AND (last_seen IS NULL OR forced_down OR {self._is_silent})"
        )

        def work(sent: Transaction) -> ServiceRecord | None:
            if sent.change(gone, host=host, down_after=self.down_after):
                return None
            return self._one(sent, host)

        found = self._run(work)
        if found is not None:
            raise StillUp(
                f"{host} is up, at {found.address}: its next heartbeat would make the record anew; "
                f"stop its agent, then wait until it counts as down ({self.down_after:g} s), or "
                "force it down"
            )

    def _set(
        self, host: str, said: str, values: dict[str, Any], expected: int | None
    ) -> ServiceRecord:
        checks.require_host(host)
        change = f"UPDATE services SET {said}, version = {self._later} WHERE host = :host"
        if expected is not None:  # who names the version knows the next: a reply may be lost
            change = f"UPDATE services SET {said}, version = version + 1 WHERE host = :host"
            change += " AND version = :expected"
            values = {**values, "expected": expected}

        def work(sent: Transaction) -> tuple[int, ServiceRecord]:
            return sent.change(change, host=host, **values), self._one(sent, host)

        changed, found = self._run(work)
        if not changed:
            raise Changed(
                f"the record of {host} was changed meanwhile: it has version "
                f"{found.version}, not {expected}"
            )
        return found

    def _run(self, work: Callable[[Transaction], R]) -> R:
        return self.database.run(work)

    def _one(self, sent: Transaction, host: str) -> ServiceRecord:
        row = self._row(sent, host)
        if row is None:
            raise UnknownHost(f"no service has the host name {host}")
        return self._record(row)

    def _row(self, sent: Transaction, host: str) -> Mapping[str, Any] | None:
        return next(iter(sent.rows(f"{self._select} WHERE host = :host", host=host)), None)

    def _record(self, row: Mapping[str, Any]) -> ServiceRecord:
        """Return a row as a record; log once that it is damaged, and once that it is not."""
        found = record_from_row(row)
        if found.damaged != self.damaged.get(found.host, ()):
            if found.damaged:
                LOG.warning("%s; %s", damage(found), REPAIR)
                self.damaged[found.host] = found.damaged
            else:
                LOG.info("The record of %s can be read in full again", plain(found.host))
                self.damaged.pop(found.host, None)
        return found

    @property
    def _select(self) -> str:
        now = self.database.now
        return (
            f"SELECT id, uuid, host, {self.database.binary}, disabled, disabled_reason, "
            "disabled_at, forced_down, rpc_version, last_seen, roots, address, version, attached, "
            f"{now} - last_seen AS silent_for, "
            f"CASE WHEN contested_at > {now} - {DOWN_AFTER} THEN contested_by END AS contested_by "
            "FROM services"
        )

    @property
    def _later(self) -> str:
        """SQL for a version that is new also if the database was restored from a backup."""
        now = f"ROUND({self.database.now} - {VERSION_EPOCH})"
        return f"CASE WHEN version + 1 > {now} THEN version + 1 ELSE {now} END"

    @property
    def _is_silent(self) -> str:
        return f"last_seen < {self.database.now} - :down_after"


@dataclass(slots=True)
class WatchedRegistry(SqlRegistry):
    """A registry that calls ``listener`` after each transaction.

    It logs once that the database is lost, and once that it is back.
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
                LOG.warning("The database is lost: %s", err)
            self.lost = True
            raise
        finally:
            if answered and self.lost:
                self.lost = False
                LOG.info("The database is back")
            self.listener(time.monotonic() - began, answered)
