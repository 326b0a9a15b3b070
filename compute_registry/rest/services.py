"""os-services, os-availability-zone (one zone) and os-aggregates (none) of the compute API.

Each call is a function of the registry's control, the request, and the variables of its path.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.registry import checks, errors
from agent.registry.control import Control
from agent.registry.record import ServiceRecord
from compute_registry.rest.request import UUIDS, Answer, Refused, Request, Version

ZONE = "nova"
"""Nova's default availability zone: all services are in it."""
OUTCOME = "X-Compute-Agent"
"""Header of the answer to a change of status: the outcome of the call to the agent."""
STRICT: Version = (2, 75)
ZONES_STRICT: Version = (2, 102)
"""From these microversions on unknown query parameters are refused."""
_FIRST_ACTIONS: Mapping[str, frozenset[str]] = {
    "enable": frozenset({"host", "binary"}),
    "disable": frozenset({"host", "binary"}),
    "disable-log-reason": frozenset({"host", "binary", "disabled_reason"}),
}
"""Actions of microversion 2.1, with the required fields of their bodies."""
_TRUE = frozenset({"True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes"})
_FALSE = frozenset({"False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no"})


def list_services(control: Control, request: Request) -> Answer:
    """Answer ``GET /os-services``: all, or those of a ``host`` or a ``binary``."""
    wanted = request.query(("host", "binary"), STRICT)
    host, binary = wanted.get("host"), wanted.get("binary")
    try:
        records = [control.registry.get_service(host)] if host else control.registry.list_services()
    except errors.UnknownHost:
        records = []
    shown = [record for record in records if not binary or record.binary == binary]
    return Answer({"services": [_as_json(each, control, request.version) for each in shown]})


def show_service(control: Control, request: Request, service_id: str) -> Answer:
    """Answer ``GET /os-services/{id}``."""
    request.query((), STRICT)
    return Answer({"service": _as_json(_record(control, service_id), control, request.version)})


def update_service(control: Control, request: Request, service_id: str) -> Answer:
    """Answer ``PUT /os-services/{id}``, which changes status, reason and forced_down.

    In microversion 2.1 the id's place has the name of an action.
    """
    if request.version < UUIDS:
        return _first_action(control, request, service_id)
    body, headers = request.body(), {}
    _check(body, frozenset({"status", "disabled_reason", "forced_down"}))
    status, reason = body.get("status"), body.get("disabled_reason")
    if status is None and reason is not None:
        raise Refused(400, "disabled_reason requires the status disabled in the same request")
    if status is None and "forced_down" not in body:
        raise Refused(400, "nothing to change: neither status nor forced_down is given")
    disabled = status == "disabled"
    checks.reason(disabled=disabled, reason=reason)  # before anything is done
    record = _record(control, service_id)
    if "forced_down" in body:
        forced_down = body["forced_down"] is True or body["forced_down"] in _TRUE
        record = control.force_down(record.host, request.caller, forced_down=forced_down)
    if status is not None:
        switched = control.switch(
            record.host, disabled=disabled, reason=reason, caller=request.caller
        )
        record, headers = switched.record, {OUTCOME: switched.call_outcome}
    return Answer({"service": _as_json(record, control, request.version)}, headers)


def _first_action(control: Control, request: Request, action: str) -> Answer:
    needed = _FIRST_ACTIONS.get(action)
    if needed is None:
        raise Refused(404, f"os-services/{action} is not served in microversion 2.1: use 2.53")
    body = request.body()
    for name in sorted(needed - body.keys()):
        raise Refused(400, f"{name} is missing")
    _check(body, needed)
    record = control.registry.get_service(body["host"])
    if record.binary != body["binary"]:
        raise Refused(400, f"a {body['binary']!a} service can't be updated")
    reason = body.get("disabled_reason")
    switched = control.switch(
        record.host, disabled=action != "enable", reason=reason, caller=request.caller
    )
    service = body | {"status": switched.record.status}
    if reason is not None:
        service["disabled_reason"] = switched.record.disabled_reason  # as stored, in one line
    return Answer({"service": service}, {OUTCOME: switched.call_outcome})


def delete_service(control: Control, request: Request, service_id: str) -> Answer:
    """Answer ``DELETE /os-services/{id}``."""
    control.delete(_record(control, service_id).host, request.caller)
    return Answer(None)


def list_zones(control: Control, request: Request) -> Answer:
    """Answer ``GET /os-availability-zone``; the zone is available if any host is enabled."""
    request.query((), ZONES_STRICT)
    return _zones(control.registry.list_services(), None)


def list_zones_in_detail(control: Control, request: Request) -> Answer:
    """Answer ``GET /os-availability-zone/detail``, with the enabled hosts."""
    request.query((), ZONES_STRICT)
    records = control.registry.list_services()
    hosts = {
        record.host: {
            record.binary: {
                "available": record.is_up(control.down_after),
                "active": True,
                "updated_at": _seen_at(record),
            }
        }
        for record in records
        if not record.disabled
    }
    return _zones(records, hosts or None)


def list_aggregates(control: Control, request: Request) -> Answer:  # noqa: ARG001
    """Answer ``GET /os-aggregates`` with an empty list, for clients that show a hypervisor."""
    return Answer({"aggregates": []})


def _zones(records: Sequence[ServiceRecord], hosts: dict[str, Any] | None) -> Answer:
    available = any(not record.disabled for record in records)
    zone = {"zoneName": ZONE, "zoneState": {"available": available}, "hosts": hosts}
    return Answer({"availabilityZoneInfo": [zone] if records else []})


def _record(control: Control, service_id: str) -> ServiceRecord:
    if not checks.is_uuid(service_id):
        raise Refused(400, f"{service_id!a} is not a UUID: list with microversion 2.53 or later")
    return control.registry.find_service(service_id)


def _as_json(record: ServiceRecord, control: Control, version: Version) -> dict[str, Any]:
    """Return a record with the fields that Nova's schema has in this microversion, no others."""
    shown = {
        "id": record.uuid if version >= UUIDS else record.id,
        "binary": record.binary,
        "host": record.host,
        "zone": ZONE,
        "status": record.status,
        "state": "up" if record.is_up(control.down_after) else "down",
        "updated_at": _seen_at(record),
        "disabled_reason": record.disabled_reason,
    }
    return shown | ({"forced_down": record.forced_down} if version >= UUIDS else {})


def _seen_at(record: ServiceRecord) -> str | None:
    """Return the time of the last heartbeat in the API's format, ``None`` if there was none."""
    seen = record.last_seen
    return None if seen is None else f"{seen:%Y-%m-%dT%H:%M:%S.%f}"


def _check(body: Mapping[str, Any], allowed: frozenset[str]) -> None:
    """Check the fields of a body.  :raises Refused: 400, naming the field."""
    for name in sorted(body.keys() - allowed):
        raise Refused(400, f"unknown field {name!a}")
    for name, value in body.items():
        if name == "forced_down":  # no numbers, as with Nova
            if not isinstance(value, bool | str) or str(value) not in _TRUE | _FALSE:
                raise Refused(400, f"{name} is {value!a}; it has to be true or false")
        elif not isinstance(value, str) or not 0 < len(value) <= checks.LONGEST:
            raise Refused(400, f"{name} has to be a text of 1 to {checks.LONGEST} characters")
    if body.get("status") not in (None, "enabled", "disabled"):
        raise Refused(400, f"status is {body['status']!a}; it has to be enabled or disabled")


def refusal(err: errors.RegistryError) -> Refused:
    """Return the HTTP error for an error of the registry."""
    return Refused(_STATUSES.get(type(err), 500), str(err))


_STATUSES: Mapping[type[errors.RegistryError], int] = {
    errors.UnknownHost: 404,
    errors.ReasonRefused: 400,
    errors.InputRefused: 400,
    errors.StillUp: 409,
    errors.Changed: 409,
    errors.Attached: 409,
    errors.Unreadable: 409,
    errors.HostTaken: 409,
    errors.RegistryUnavailable: 503,
}
