"""Service records, and the registries that have them.  Pure, and reads no clock.

Whether a service is up follows from ``silent_for``, which the registry's database computes with its
own clock when it reads the record.  So clocks of different hosts are never compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agent.registry.checks import AUTO, HeartbeatMessage, StatusChange

DOWN_AFTER = 60.0
"""Seconds without a heartbeat after which a service counts as down."""


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """The record of one compute service.

    ``roots`` are the UUIDs of its root providers.  ``address`` distinguishes agents with the same
    host name.  ``version`` grows with each change of status, never with heartbeats.  A change by
    an operator sets it to at least the current time in seconds, so that it is later than any
    version from before a restore of the database.
    """

    id: int
    uuid: str
    host: str
    disabled: bool = False
    disabled_reason: str | None = None
    disabled_at: datetime | None = None
    """When it was disabled (UTC, by the database's clock); ``None`` if unknown."""
    forced_down: bool = False
    rpc_version: str | None = None
    last_seen: datetime | None = None
    """The last heartbeat (UTC, by the database's clock); ``None`` before the first."""
    silent_for: float | None = None
    """Seconds from the last heartbeat until this record was read; ``None`` before the first, and of
    a single host's agent that has ended."""
    roots: tuple[str, ...] = ()
    address: str | None = None
    contested_by: str | None = None
    """The address of another agent with this host's name, refused within the last minute."""
    version: int = 1
    attached: bool = False
    """Whether its agent is in attach mode: then Nova's API disables the host."""
    agent_version: str = ""
    degraded: str = ""
    """Conditions of the host that need an operator, a line for each."""
    hosts: int | None = None
    """Number of hosts that are up, at most a minute old; only in answers to heartbeats."""

    def is_up(self, down_after: float = DOWN_AFTER) -> bool:
        """Return whether heartbeats arrive and the service is not forced down."""
        return not self.forced_down and is_alive(self, down_after)

    @property
    def status(self) -> str:
        """The status: ``enabled`` or ``disabled``."""
        return "disabled" if self.disabled else "enabled"

    @property
    def is_auto(self) -> bool:
        """Whether the agent disabled it automatically, and may enable it again."""
        return self.disabled and (self.disabled_reason or "").startswith(AUTO)


class Records(Protocol):
    """Service records by host; :class:`agent.registry.client.RegistryClient` describes all this."""

    def list_services(self) -> list[ServiceRecord]:
        """Return all records, sorted by host."""

    def get_service(self, host: str) -> ServiceRecord:
        """Return the record of a host."""

    def set_status(self, change: StatusChange) -> ServiceRecord:
        """Disable or enable a host."""

    def set_forced_down(
        self, host: str, *, forced_down: bool, expected_version: int | None = None
    ) -> ServiceRecord:
        """Force a service down, or take that back."""

    def delete(self, host: str, *, uuid: str | None = None) -> None:
        """Delete a record."""


class Registry(Records, Protocol):
    """A registry to which agents report."""

    def heartbeat(self, report: HeartbeatMessage) -> ServiceRecord | None:
        """Record that the agent of a host is alive; ``None``: the answer is not awaited."""

    def holders(self, report: HeartbeatMessage) -> list[ServiceRecord]:
        """Return the records that have a root of the report, and that of its host."""


def is_alive(record: ServiceRecord, down_after: float = DOWN_AFTER) -> bool:
    """Return whether heartbeats arrive, also if the service is forced down."""
    return record.silent_for is not None and record.silent_for <= down_after


def rivals(
    records: Iterable[ServiceRecord], report: HeartbeatMessage, down_after: float
) -> dict[str, str]:
    """Return why a host may not write to roots of its report, by UUID; empty if it may.

    A root belongs to one host that is up: to another one whose record has it, or to an agent with
    the same host name elsewhere.  An agent whose host was renamed is no rival of its own.
    """
    denied: dict[str, str] = {}
    for record in records:
        if not is_alive(record, down_after) or place_of(record.address) == place_of(report.address):
            continue
        theirs = report.roots if record.host == report.host else record.roots
        for root in {*report.roots}.intersection(theirs):
            denied[root] = (
                f"nothing is written to the root provider {root}: it belongs to {record.host}, "
                f"which is up, at {record.address}. If this state_path is a copy, stop this agent "
                f"and empty state_path; if this host replaces that one, stop compute-agent there"
            )
    return denied


def place_of(address: str | None) -> str:
    """Return the boot id and the state directory of an address; all of it if they are unknown."""
    _, boot, place = (address or "").partition(" (boot ")
    return place if boot and not place.startswith("?") else address or ""
