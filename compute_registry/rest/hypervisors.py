"""os-hypervisors of the compute API, read-only, from the service records.

A hypervisor is a root provider.  The records have no amounts of resources, which are in Placement;
before microversion 2.88 such fields are required: they are 0, or null where the API allows it.
Each call is a function of the registry's control, the request, and the variables of its path.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from flask import abort
from flask.typing import ResponseReturnValue
from microversion_parse import Version

from agent.registry.checks import is_uuid
from agent.registry.control import Control
from agent.registry.errors import UnknownHost
from agent.registry.record import ServiceRecord
from compute_registry.rest.request import UUIDS, Request

if TYPE_CHECKING:
    from compute_registry.store import SqlRegistry

CPU_OBJECT = Version(2, 28)
PAGES = Version(2, 33)
EMPTY_SERVERS = Version(2, 75)
WITHOUT_AMOUNTS = Version(2, 88)
_AMOUNTS = ("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used")
_UNKNOWN_AMOUNTS = (
    *("free_ram_mb", "free_disk_gb", "current_workload", "running_vms", "disk_available_least"),
)
_PAGE = frozenset({"limit", "marker"})
_QUERY = _PAGE | {"hypervisor_hostname_pattern", "with_servers"}
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

    def id(self, version: Version) -> str | int:
        """Return the id in this microversion; numbers have 52 bits, exact in each JSON reader."""
        return self.uuid if version >= UUIDS else uuid.UUID(self.uuid).int >> 76


def list_hypervisors(
    control: Control, request: Request, *, detail: bool = False
) -> ResponseReturnValue:
    """Answer ``GET /os-hypervisors``: all, a page, or those that match a name pattern.

    ``detail``: as ``GET /os-hypervisors/detail`` shows them.
    """
    known = _QUERY if request.version >= UUIDS else _PAGE if request.version >= PAGES else ()
    query = request.query(known, UUIDS)
    listed, links = _hypervisors(control), {}
    if (part := query.get("hypervisor_hostname_pattern")) is not None:
        if query.keys() & _PAGE:
            abort(400, "hypervisor_hostname_pattern can't be combined with limit or marker")
        listed = _with_name(part, listed)
    else:
        listed, more = _page(listed, query, request.version)
        if more:
            links["hypervisors_links"] = [{"rel": "next", "href": f"{request.base_url}?{more}"}]
    shown = [_as_json(each, control, request, query, detail=detail) for each in listed]
    return {"hypervisors": shown, **links}


def search_hypervisors(control: Control, request: Request, part: str) -> ResponseReturnValue:
    """Answer ``GET /os-hypervisors/{part of a name}/search``."""
    if request.version >= UUIDS:
        abort(404, "/search was removed in microversion 2.53: see hypervisor_hostname_pattern")
    found = _with_name(part, _hypervisors(control))
    return {"hypervisors": [_as_json(each, control, request, {}, detail=False) for each in found]}


def show_hypervisor(control: Control, request: Request, hypervisor_id: str) -> ResponseReturnValue:
    """Answer ``GET /os-hypervisors/{id}``."""
    query = request.query(("with_servers",), UUIDS)
    hypervisor = _hypervisor(control, request, hypervisor_id)
    return {"hypervisor": _as_json(hypervisor, control, request, query, detail=True)}


def refuse_uptime(control: Control, request: Request, hypervisor_id: str) -> ResponseReturnValue:
    """Refuse with 501, since the records have no uptime."""
    if request.version >= WITHOUT_AMOUNTS:
        abort(404, "/uptime was removed in microversion 2.88: see os-hypervisors/detail")
    _hypervisor(control, request, hypervisor_id)
    abort(501, "the uptime of hypervisors is not recorded")


def _with_name(part: str, listed: Sequence[Hypervisor]) -> Sequence[Hypervisor]:
    found = [hypervisor for hypervisor in listed if part in hypervisor.name]
    return found or abort(404, f"no hypervisor has {part!a} in its name")


def _page(
    listed: Sequence[Hypervisor], query: dict[str, str], version: Version
) -> tuple[Sequence[Hypervisor], str | None]:
    """Return at most ``limit`` hypervisors after ``marker``, and the query of the next page."""
    marker, limit = query.get("marker"), query.get("limit")
    if marker is not None:
        ids = [str(hypervisor.id(version)) for hypervisor in listed]
        if (id_ := _canonical(marker)) not in ids:
            abort(400, f"marker {marker!a} is not the id of a hypervisor")
        listed = listed[ids.index(id_) + 1 :]
    if limit is None:
        return listed, None
    if not (limit.isascii() and limit.isdigit()):
        abort(400, f"limit is {limit!a}; it has to be an integer, 0 or more")
    page = listed[: int(limit[:9]) or None]
    if not page or len(page) == len(listed):
        return page, None
    return page, urlencode({"limit": limit, "marker": page[-1].id(version)})


def _hypervisors(control: Control) -> Sequence[Hypervisor]:
    records = control.registry.list_services()
    return [Hypervisor(str(uuid.UUID(root)), record) for record in records for root in record.roots]


def _hypervisor(control: Control, request: Request, hypervisor_id: str) -> Hypervisor:
    missing = f"no hypervisor has the id {hypervisor_id!a}"
    if request.version < UUIDS:
        hypervisors = _hypervisors(control)
        found = [each for each in hypervisors if str(each.id(request.version)) == hypervisor_id]
        return found[0] if found else abort(404, missing)
    if not is_uuid(hypervisor_id):
        abort(400, f"{hypervisor_id!a} is not a UUID: list with microversion 2.53 or later")
    try:
        record = cast("SqlRegistry", control.registry).find_by_root(hypervisor_id)
    except UnknownHost:
        abort(404, missing)
    return Hypervisor(_canonical(hypervisor_id), record)


def _canonical(id_: str) -> str:
    return str(uuid.UUID(id_)) if is_uuid(id_) else id_


def _as_json(
    hypervisor: Hypervisor,
    control: Control,
    request: Request,
    query: dict[str, str],
    *,
    detail: bool,
) -> dict[str, Any]:
    record, version = hypervisor.record, request.version
    shown: dict[str, Any] = {
        "id": hypervisor.id(version),
        "hypervisor_hostname": hypervisor.name,
        "state": "up" if record.is_up(control.down_after) else "down",
        "status": record.status,
    }
    with_servers = query.get("with_servers", "no").lower()
    if with_servers not in _TRUE | _FALSE:
        abort(400, f"with_servers is {with_servers!a}; it has to be true or false")
    if with_servers in _TRUE and version >= EMPTY_SERVERS:
        shown["servers"] = []
    if not detail:
        return shown
    shown |= {"hypervisor_type": "unknown", "hypervisor_version": 0, "host_ip": None}
    shown["service"] = {
        "id": record.uuid if version >= UUIDS else record.id,
        "host": record.host,
        "disabled_reason": record.disabled_reason,
    }
    if version >= WITHOUT_AMOUNTS:
        return shown | {"uptime": None}
    shown |= dict.fromkeys(_AMOUNTS, 0) | dict.fromkeys(_UNKNOWN_AMOUNTS)
    return shown | {"cpu_info": {} if version >= CPU_OBJECT else ""}
