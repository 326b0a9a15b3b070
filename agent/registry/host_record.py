"""The service record of a host without a fleet: a document in ``state_path``.

The agent and ``computectl service`` read it, and change it under a lock.  Nothing depends on a
clock: the service is up while the agent's process runs, and each change of its status has the next
version.  A record that is lost or damaged is made again from ``service.json``.
"""

import logging
import os
import uuid as uuidlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.registry import checks, errors, wire
from agent.registry.checks import Report, StatusChange
from agent.registry.errors import Changed, RecordUnusable, StillUp, UnknownHost
from agent.registry.opts import RECORD
from agent.registry.record import BINARY, ServiceRecord
from agent.reporting.status import lives, started_at
from agent.state import files
from agent.state.document import Damaged, Document, Unusable
from agent.state.lock import lock_file

LOG = logging.getLogger("compute_agent.registry")

STATUS = "service.json"
LOCKED_WITHIN = 20.0
"""Seconds to wait for another process that changes the record."""


@dataclass(frozen=True, slots=True)
class _Saved:
    """The record, and the process of the agent that reported to it: see :func:`lives`."""

    record: ServiceRecord
    pid: int = 0
    started: int | None = None

    def seen(self) -> ServiceRecord:
        """Return the record as it is now: without a heartbeat while the process does not run."""
        if not (self.pid and lives(self.pid, self.started)):
            return self.record
        return replace(self.record, last_seen=datetime.now(UTC), silent_for=0.0)


@dataclass(frozen=True, slots=True)
class HostRecord:
    """See :class:`agent.registry.access.Registry`; there is one record, or none."""

    state_path: Path
    binary: str = BINARY

    @property
    def path(self) -> Path:
        """The document."""
        return self.state_path / RECORD

    def list_services(self) -> list[ServiceRecord]:
        saved = self._read(Document(self.path))
        return [] if saved is None else [saved.seen()]

    def get_service(self, host: str) -> ServiceRecord:
        checks.require_host(host)
        return _required(self._read(Document(self.path)), host).seen()

    def heartbeat(self, report: Report) -> ServiceRecord:
        """Write what has changed, if anything has; the agent alone calls this.

        ``replaces`` is ignored: no other agent has this directory.
        """

        def reporting(saved: _Saved | None) -> _Saved:
            before, pid = saved or _Saved(self._new(report.host)), os.getpid()
            reported = replace(
                before.record, host=report.host, roots=report.roots, **report.about_agent()
            )
            if _Saved(reported, pid, started_at(pid)) == before:
                return before
            return _Saved(replace(reported, last_seen=datetime.now(UTC)), pid, started_at(pid))

        return replace(self._change(reporting, own=True), hosts=1)

    def set_status(self, change: StatusChange) -> ServiceRecord:
        def changed(record: ServiceRecord) -> ServiceRecord:
            disabled, since = change.disabled, record.disabled_at or datetime.now(UTC)
            return replace(
                record,
                disabled=disabled,
                disabled_reason=change.reason,
                disabled_at=since if disabled else None,
            )

        return self._set(change.host, changed, change.expected_version)

    def set_forced_down(
        self, host: str, *, forced_down: bool, expected_version: int | None = None
    ) -> ServiceRecord:
        checks.flag("forced_down", forced_down)
        checks.versions(expected_version)
        return self._set(
            host, lambda record: replace(record, forced_down=forced_down), expected_version
        )

    def delete(self, host: str, *, uuid: str | None = None) -> None:
        """Remove the document, unless the agent runs and is not forced down."""
        record = self.get_service(host)
        if uuid is not None and checks.require_uuid(uuid) != record.uuid:
            raise Changed(errors.recreated(host, uuid))
        if record.is_up():
            raise StillUp(
                f"{host} is up, at {record.address}: its next heartbeat would create the record "
                "again; stop its agent, or force it down"
            )
        try:
            files.remove(self.path)
        except OSError as err:
            raise _unwritable(self.path, err) from err

    def _set(
        self,
        host: str,
        change: Callable[[ServiceRecord], ServiceRecord],
        expected: int | None,
    ) -> ServiceRecord:
        self.get_service(host)  # so that nothing is created for an unknown host

        def set_it(saved: _Saved | None) -> _Saved:
            found = _required(saved, host)
            record = found.record
            if expected not in (None, record.version):
                raise Changed(errors.outdated(host, record.version, expected))
            return replace(found, record=replace(change(record), version=record.version + 1))

        return self._change(set_it)

    def _change(
        self, change: Callable[[_Saved | None], _Saved], *, own: bool = False
    ) -> ServiceRecord:
        """Save what ``change`` returns for the saved record, under the lock, and return it.

        ``own``: whether the caller is the agent, which replaces a damaged file.
        """
        document = Document(self.path)
        try:
            with lock_file(self.path, LOCKED_WITHIN):
                saved = change(self._read(document, own=own))
                record = wire.to_wire(saved.record)
                document.save({"record": record, "pid": saved.pid, "started": saved.started})
        except OSError as err:
            raise _unwritable(self.path, err) from err
        return saved.seen()

    def _read(self, document: Document, *, own: bool = False) -> _Saved | None:
        try:
            return document.read(_parsed)
        except Damaged as err:
            if not own:
                raise RecordUnusable(str(err)) from err
            LOG.warning("%s%s; it is made again", err, files.set_aside(document.path))
            return None
        except Unusable as err:
            raise RecordUnusable(str(err)) from err

    def _new(self, host: str) -> ServiceRecord:
        """Return a record with the agent's saved status, and a version after all before."""
        record = ServiceRecord(1, str(uuidlib.uuid4()), host, self.binary)
        try:
            status = Document(self.state_path / STATUS).read(dict) or {}
        except Unusable:
            return record
        disabled, seen = status.get("disabled"), status.get("record_version")
        if disabled is None or seen is None:
            return record
        reason = status.get("reason") if disabled else None
        return replace(record, disabled=disabled, disabled_reason=reason, version=seen + 1)


def _parsed(fields: Mapping[str, Any]) -> _Saved:
    return _Saved(wire.from_wire(fields["record"]), fields["pid"], fields["started"])


def _required(saved: _Saved | None, host: str) -> _Saved:
    if saved is None or saved.record.host != host:
        raise UnknownHost(f"no service has the host name {host}")
    return saved


def _unwritable(path: Path, err: OSError) -> RecordUnusable:
    return RecordUnusable(f"{path} can't be written: {files.describe_error(err)}")
