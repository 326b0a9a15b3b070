"""Registries and agents in memory, that record what they are asked."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agent.errors import Changed, RegistryUnavailable, UnknownHost
from agent.registry.checks import StatusChange
from agent.registry.record import ServiceRecord

SEEN = datetime(2030, 1, 2, 3, 4, 5, 678, UTC)


def record(host: str = "host1", **fields: object) -> ServiceRecord:
    """One that is up and speaks a version that is new enough."""
    said = {"rpc_version": "6.5", "last_seen": SEEN, "silent_for": 1.0, **fields}
    return ServiceRecord(1, "6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca", host, **said)


class EmptyDatabase:
    """With nothing in it; ``away`` is why it does not answer."""

    away = ""

    def run(self, work: Any) -> Any:
        if self.away:
            raise RegistryUnavailable(self.away)
        return []


class OneRecord:
    """A registry of one host."""

    def __init__(self, held: ServiceRecord, log: list[object]) -> None:
        self.held, self.log = held, log

    def list_services(self) -> list[ServiceRecord]:
        return [self.held]

    def get_service(self, host: str) -> ServiceRecord:
        if host != self.held.host:
            raise UnknownHost(f"no service has the host name {host}")
        return self.held

    def find_service(self, uuid: str) -> ServiceRecord:
        if uuid != self.held.uuid:
            raise UnknownHost(f"no service has the UUID {uuid}")
        return self.held

    def set_status(self, change: StatusChange) -> ServiceRecord:
        self._expect(change.host, change.expected_version)
        self.log.append(("record", change.host, change.disabled, change.reason))
        self.held = replace(
            self.held,
            disabled=change.disabled,
            disabled_reason=change.reason,
            version=self.held.version + 1,
        )
        return self.held

    def set_forced_down(
        self, host: str, *, forced_down: bool, expected_version: int | None = None
    ) -> ServiceRecord:
        self._expect(host, expected_version)
        self.log.append(("forced_down", host, forced_down))
        self.held = replace(self.held, forced_down=forced_down, version=self.held.version + 1)
        return self.held

    def _expect(self, host: str, version: int | None) -> None:
        if self.get_service(host).version != version is not None:
            raise Changed(f"the record of {host} has version {self.held.version}, not {version}")

    def delete(self, host: str, *, uuid: str | None = None) -> None:
        assert uuid == self.held.uuid
        self.log.append(("delete", host))


class Agents:
    def __init__(self, log: list[object], fails: Exception | None = None) -> None:
        self.log, self.fails = log, fails

    def set_host_enabled(
        self, host: str, enabled: bool, *, record_version: int | None = None, about=None
    ) -> str:
        self.about = about
        self.log.append(("call", host, enabled))
        if self.fails:
            raise self.fails
        return "enabled" if enabled else "disabled"
