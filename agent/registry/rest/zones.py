"""os-availability-zone and os-aggregates of the compute API: one zone, no aggregates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent.registry.control import Control
from agent.registry.record import ServiceRecord
from agent.registry.rest.request import Answer, Request
from agent.registry.rest.services import ZONE, seen_at
from agent.registry.rest.versions import Version

STRICT: Version = (2, 102)
"""Refuses query parameters that it does not know."""


@dataclass(frozen=True, slots=True)
class Zones:
    """All hosts are in the default zone."""

    control: Control

    def summary(self, request: Request) -> Answer:
        """Available, if a host is enabled."""
        request.query((), STRICT)
        return _answer(self.control.registry.list_services(), None)

    def detail(self, request: Request) -> Answer:
        """The same, with the enabled hosts."""
        request.query((), STRICT)
        records = self.control.registry.list_services()
        hosts = {
            record.host: {
                record.binary: {
                    "available": record.is_up(self.control.down_after),
                    "active": True,
                    "updated_at": seen_at(record),
                }
            }
            for record in records
            if not record.disabled
        }
        return _answer(records, hosts or None)

    def aggregates(self, request: Request) -> Answer:  # noqa: ARG002  all calls are alike
        """None: those that the tools ask for beside a hypervisor are Nova's."""
        return Answer({"aggregates": []})


def _answer(records: Sequence[ServiceRecord], hosts: dict[str, Any] | None) -> Answer:
    available = any(not record.disabled for record in records)
    zone = {"zoneName": ZONE, "zoneState": {"available": available}, "hosts": hosts}
    return Answer({"availabilityZoneInfo": [zone] if records else []})
