"""os-hypervisors of the compute API, read-only, from the service records.

A hypervisor is a root provider.  The records have no amounts of resources, which are in Placement;
older microversions require such fields: they are 0, or null where the API allows it.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from agent.registry.checks import is_uuid
from agent.registry.control import Control
from agent.registry.record import ServiceRecord
from compute_registry.rest.request import Answer, Refused, Request, Version

OBJECT_CPU_INFO: Version = (2, 28)
PAGES: Version = (2, 33)
UUIDS: Version = (2, 53)
EMPTY_SERVERS: Version = (2, 75)
WITHOUT_AMOUNTS: Version = (2, 88)
_AMOUNTS = ("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used")
_UNKNOWN_AMOUNTS = (
    *("free_ram_mb", "free_disk_gb", "current_workload", "running_vms", "disk_available_least"),
)
_QUERY = frozenset({"limit", "marker", "hypervisor_hostname_pattern", "with_servers"})
_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "off", "n", "no"})


@dataclass(frozen=True, slots=True)
class Hypervisor:
    """A hypervisor: one root of a service."""

    uuid: str
    record: ServiceRecord

    @property
    def name(self) -> str:
        """The host's name if the host has one root, else the UUID: records have no node names."""
        return self.record.host if len(self.record.roots) == 1 else self.uuid

    @property
    def number(self) -> int:
        """The numeric id of microversions before 2.53: 52 bits, exact in every JSON reader."""
        return uuid.UUID(self.uuid).int >> 76

    def has_id(self, text: str, version: Version) -> bool:
        """Whether ``text`` is this hypervisor's id in that microversion."""
        if version >= UUIDS:
            return uuid.UUID(self.uuid) == uuid.UUID(text)
        return str(self.number) == text


@dataclass(frozen=True, slots=True)
class Hypervisors:
    """The calls of os-hypervisors; all are read-only."""

    control: Control

    def summaries(self, request: Request) -> Answer:
        """Answer ``GET /os-hypervisors``: all, a page, or those that match a name pattern."""
        return self._list(request, detail=False)

    def details(self, request: Request) -> Answer:
        """Answer ``GET /os-hypervisors/detail``."""
        return self._list(request, detail=True)

    def show(self, request: Request, hypervisor_id: str) -> Answer:
        """Answer ``GET /os-hypervisors/{id}``."""
        query = request.query(("with_servers",), UUIDS)
        hypervisor = self._hypervisor(request.version, hypervisor_id)
        shown = self._as_json(hypervisor, request.version, query, detail=True)
        return Answer({"hypervisor": shown})

    def uptime(self, request: Request, hypervisor_id: str) -> Answer:
        """Refuse with 501, since the records have no uptime."""
        if request.version >= WITHOUT_AMOUNTS:
            raise Refused(
                404, "/uptime was removed in microversion 2.88: see uptime in os-hypervisors/detail"
            )
        self._hypervisor(request.version, hypervisor_id)
        raise Refused(501, "the uptime of hypervisors is not recorded")

    def search(self, request: Request, pattern: str) -> Answer:
        """Search hypervisors by a part of the name; microversions before 2.53."""
        if request.version >= UUIDS:
            text = "/search was removed in microversion 2.53: use hypervisor_hostname_pattern"
            raise Refused(404, text)
        named = self._named(pattern)
        return Answer({"hypervisors": self._all_as_json(named, request.version, {}, detail=False)})

    def _list(self, request: Request, *, detail: bool) -> Answer:
        query = request.query(_QUERY, UUIDS)
        version = request.version
        pattern = query.get("hypervisor_hostname_pattern") if version >= UUIDS else None
        links: list[dict[str, str]] = []
        if pattern is not None:
            if query.keys() & {"limit", "marker"}:
                text = "hypervisor_hostname_pattern can't be combined with limit or marker"
                raise Refused(400, text)
            listed = self._named(pattern)
        else:
            listed = list(self._hypervisors())
            if version >= PAGES:
                listed, links = _page(listed, request, query)
        body: dict[str, Any] = {
            "hypervisors": self._all_as_json(listed, version, query, detail=detail)
        }
        return Answer(body | ({"hypervisors_links": links} if links else {}))

    def _hypervisors(self) -> Iterator[Hypervisor]:
        for record in self.control.registry.list_services():
            for root in record.roots:
                yield Hypervisor(str(uuid.UUID(root)), record)

    def _named(self, part: str) -> list[Hypervisor]:
        named = [hypervisor for hypervisor in self._hypervisors() if part in hypervisor.name]
        if not named:
            raise Refused(404, f"no hypervisor has {part!a} in its name")
        return named

    def _hypervisor(self, version: Version, hypervisor_id: str) -> Hypervisor:
        if version >= UUIDS and not is_uuid(hypervisor_id):
            text = f"{hypervisor_id!a} is not a UUID: from microversion 2.53 on ids are UUIDs"
            raise Refused(400, text)
        for hypervisor in self._hypervisors():
            if hypervisor.has_id(hypervisor_id, version):
                return hypervisor
        raise Refused(404, f"no hypervisor has the id {hypervisor_id}")

    def _all_as_json(
        self, listed: list[Hypervisor], version: Version, query: dict[str, str], *, detail: bool
    ) -> list[dict[str, Any]]:
        return [self._as_json(hypervisor, version, query, detail=detail) for hypervisor in listed]

    def _as_json(
        self, hypervisor: Hypervisor, version: Version, query: dict[str, str], *, detail: bool
    ) -> dict[str, Any]:
        record, uuids = hypervisor.record, version >= UUIDS
        shown: dict[str, Any] = {
            "id": hypervisor.uuid if uuids else hypervisor.number,
            "hypervisor_hostname": hypervisor.name,
            "state": "up" if record.is_up(self.control.down_after) else "down",
            "status": record.status,
        }
        if version >= UUIDS and _flag("with_servers", query) and version >= EMPTY_SERVERS:
            shown["servers"] = []
        if not detail:
            return shown
        shown |= {"hypervisor_type": "unknown", "hypervisor_version": 0, "host_ip": None}
        shown["service"] = {
            "id": record.uuid if uuids else record.id,
            "host": record.host,
            "disabled_reason": record.disabled_reason,
        }
        if version >= WITHOUT_AMOUNTS:
            return shown | {"uptime": None}
        shown |= dict.fromkeys(_AMOUNTS, 0) | dict.fromkeys(_UNKNOWN_AMOUNTS)
        return shown | {"cpu_info": {} if version >= OBJECT_CPU_INFO else ""}


def _flag(name: str, query: dict[str, str]) -> bool:
    text = query.get(name, "no").lower()
    if text not in _TRUE | _FALSE:
        raise Refused(400, f"{name} is {text!a}; it has to be true or false")
    return text in _TRUE


def _page(
    listed: list[Hypervisor], request: Request, query: dict[str, str]
) -> tuple[list[Hypervisor], list[dict[str, str]]]:
    """Return at most ``limit`` hypervisors after ``marker``, and the link to the next page."""
    marker, limit = query.get("marker"), query.get("limit")
    if marker is not None:
        version = request.version
        usable = version < UUIDS or is_uuid(marker)
        places = [n for n, each in enumerate(listed) if usable and each.has_id(marker, version)]
        if not places:
            raise Refused(400, f"marker {marker!a} is not the id of a hypervisor")
        listed = listed[places[0] + 1 :]
    if limit is None:
        return listed, []
    if not (limit.isascii() and limit.isdigit()):
        raise Refused(400, f"limit is {limit!a}; it has to be an integer, 0 or more")
    page = listed[: int(limit[:9]) or None]
    if not page or len(page) == len(listed):
        return page, []
    last = page[-1]
    more = {"limit": limit, "marker": last.uuid if request.version >= UUIDS else last.number}
    return page, [{"rel": "next", "href": f"{request.url}?{urlencode(more)}"}]
