"""os-hypervisors of the compute API, to look at: what the service records know of them.

A hypervisor is a root provider.  Amounts are in Placement; where older microversions want
them here, they are 0, or null where the API allows it.
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
        """The host's, where it has one root; of several only the UUIDs are known."""
        return self.record.host if len(self.record.roots) == 1 else self.uuid

    @property
    def number(self) -> int:
        """An id for microversions before UUIDs; small enough for every JSON reader."""
        return uuid.UUID(self.uuid).int >> 76

    def has_id(self, text: str, version: Version) -> bool:
        """Whether this is how that microversion calls it."""
        if version >= UUIDS:
            return uuid.UUID(self.uuid) == uuid.UUID(text)
        return str(self.number) == text


@dataclass(frozen=True, slots=True)
class Hypervisors:
    """Calls as the compute API has them; none of them changes anything."""

    control: Control

    def summaries(self, request: Request) -> Answer:
        """All, or a page, or those with a part of a name."""
        return self._list(request, detail=False)

    def details(self, request: Request) -> Answer:
        """The same in full."""
        return self._list(request, detail=True)

    def show(self, request: Request, one: str) -> Answer:
        """One."""
        query = request.query(("with_servers",), UUIDS)
        found = self._one(request.version, one)
        return Answer({"hypervisor": self._as_json(found, request.version, query, detail=True)})

    def uptime(self, request: Request, one: str) -> Answer:
        """Nobody here knows it."""
        if request.version >= WITHOUT_AMOUNTS:
            raise Refused(404, "there is no uptime from version 2.88 on: it is in the details")
        self._one(request.version, one)
        raise Refused(501, "the service records do not know how long a hypervisor has been up")

    def search(self, request: Request, one: str) -> Answer:
        """Search hypervisors by a part of the name; microversions before 2.53."""
        if request.version >= UUIDS:
            raise Refused(404, "there is no search from version 2.53 on: it is in the list")
        found = self._named(one)
        return Answer({"hypervisors": self._all_as_json(found, request.version, {}, detail=False)})

    def _list(self, request: Request, *, detail: bool) -> Answer:
        query = request.query(_QUERY, UUIDS)
        version = request.version
        pattern = query.get("hypervisor_hostname_pattern") if version >= UUIDS else None
        links: list[dict[str, str]] = []
        if pattern is not None:
            if query.keys() & {"limit", "marker"}:
                raise Refused(400, "hypervisor_hostname_pattern can't be given with a page")
            found = self._named(pattern)
        else:
            found = list(self._hypervisors())
            if version >= PAGES:
                found, links = _page(found, request, query)
        body: dict[str, Any] = {
            "hypervisors": self._all_as_json(found, version, query, detail=detail)
        }
        return Answer(body | ({"hypervisors_links": links} if links else {}))

    def _hypervisors(self) -> Iterator[Hypervisor]:
        for record in self.control.registry.list_services():
            for root in record.roots:
                if is_uuid(root):  # an older version took anything
                    yield Hypervisor(str(uuid.UUID(root)), record)

    def _named(self, part: str) -> list[Hypervisor]:
        found = [each for each in self._hypervisors() if part in each.name]
        if not found:
            raise Refused(404, f"no hypervisor has {part!a} in its name")
        return found

    def _one(self, version: Version, one: str) -> Hypervisor:
        if version >= UUIDS and not is_uuid(one):
            raise Refused(400, f"{one!a} is not a UUID; hypervisors have UUIDs from 2.53 on")
        for each in self._hypervisors():
            if each.has_id(one, version):
                return each
        raise Refused(404, f"there is no hypervisor with the id {one}")

    def _all_as_json(
        self, found: list[Hypervisor], version: Version, query: dict[str, str], *, detail: bool
    ) -> list[dict[str, Any]]:
        return [self._as_json(each, version, query, detail=detail) for each in found]

    def _as_json(
        self, found: Hypervisor, version: Version, query: dict[str, str], *, detail: bool
    ) -> dict[str, Any]:
        record, uuids = found.record, version >= UUIDS
        shown: dict[str, Any] = {
            "id": found.uuid if uuids else found.number,
            "hypervisor_hostname": found.name,
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
        raise Refused(400, f"{name} is {text!a}; it can be true or false")
    return text in _TRUE


def _page(
    found: list[Hypervisor], request: Request, query: dict[str, str]
) -> tuple[list[Hypervisor], list[dict[str, str]]]:
    """Those after ``marker``, at most ``limit``, and where the next are."""
    marker, limit = query.get("marker"), query.get("limit")
    if marker is not None:
        version = request.version
        usable = version < UUIDS or is_uuid(marker)
        places = [n for n, each in enumerate(found) if usable and each.has_id(marker, version)]
        if not places:
            raise Refused(400, f"no hypervisor has the id {marker!a}, given as marker")
        found = found[places[0] + 1 :]
    if limit is None:
        return found, []
    if not (limit.isascii() and limit.isdigit()):
        raise Refused(400, f"limit is {limit!a}; it has to be a number from 0 on")
    page = found[: int(limit[:9]) or None]
    if not page or len(page) == len(found):
        return page, []
    last = page[-1]
    more = {"limit": limit, "marker": last.uuid if request.version >= UUIDS else last.number}
    return page, [{"rel": "next", "href": f"{request.here}?{urlencode(more)}"}]
