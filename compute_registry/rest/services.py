"""os-services of the compute API.

Each call is a function of the registry's control, the request, and the variables of its path.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from flask import abort
from flask.typing import ResponseReturnValue
from microversion_parse import Version

from agent import errors
from agent.registry import checks
from agent.registry.record import ServiceRecord
from compute_registry.control import Control
from compute_registry.rest.request import TRUE, UUIDS, Request

if TYPE_CHECKING:
    from compute_registry.store import SqlRegistry

BINARY, ZONE = "nova-compute", "nova"
"""The binary of all services, and Nova's default availability zone, in which all are."""
OUTCOME = "X-Compute-Agent"
"""Header of the answer to a change of status: the outcome of the call to the agent."""
FORCED_DOWN = Version(2, 11)
"""The first microversion with ``forced_down``."""
_HOST = frozenset({"host", "binary"})
_CHANGE = frozenset({"status", "disabled_reason", "forced_down"})
_FIRST_ACTIONS: Mapping[str, frozenset[str]] = {
    "enable": _HOST,
    "disable": _HOST,
    "disable-log-reason": _HOST | {"disabled_reason"},
    "force-down": _HOST | {"forced_down"},
}
"""Actions before microversion 2.53, with the fields of their bodies."""


def list_services(control: Control, request: Request) -> ResponseReturnValue:
    """Answer ``GET /os-services``: all, or those of a ``host`` or a ``binary``."""
    wanted = request.query("host", "binary")
    host, binary = wanted.get("host"), wanted.get("binary")
    try:
        records = [control.registry.get_service(host)] if host else control.registry.list_services()
    except errors.UnknownHost:
        records = []
    shown = [record for record in records if binary in (None, "", BINARY)]
    return {"services": [_as_json(each, control, request.version) for each in shown]}


def show_service(control: Control, request: Request, service_id: str) -> ResponseReturnValue:
    """Answer ``GET /os-services/{id}``."""
    request.query()
    return {"service": _as_json(_record(control, request, service_id), control, request.version)}


def update_service(control: Control, request: Request, service_id: str) -> ResponseReturnValue:
    """Answer ``PUT /os-services/{id}``, which changes status, reason and forced_down.

    Before microversion 2.53 the id's place has the name of an action.
    """
    if request.version < UUIDS:
        return _first_action(control, request, service_id)
    body = request.body(frozenset(), _CHANGE)
    status, reason = body.get("status"), body.get("disabled_reason")
    if status is None and reason is not None:
        abort(400, "disabled_reason requires the status disabled in the same request")
    if status is None and "forced_down" not in body:
        abort(400, "nothing to change: neither status nor forced_down is given")
    disabled = status == "disabled"
    checks.reason(disabled=disabled, reason=reason)  # before anything is done
    record, headers = _change(_record(control, request, service_id), control, request, body)
    return {"service": _as_json(record, control, request.version)}, headers


def _first_action(control: Control, request: Request, action: str) -> ResponseReturnValue:
    fields = _FIRST_ACTIONS.get(action)
    if fields is None or (action == "force-down" and request.version < FORCED_DOWN):
        abort(
            404, f"os-services/{action} is not served in microversion {request.version}: use 2.53"
        )
    body = request.body(fields, fields)
    record = control.registry.get_service(body["host"])
    if body["binary"] != BINARY:
        abort(400, f"a {body['binary']!a} service can't be updated")
    if action == "force-down":
        record, headers = _change(record, control, request, body)
        return {"service": body | {"forced_down": record.forced_down}}, headers
    status = "enabled" if action == "enable" else "disabled"
    record, headers = _change(record, control, request, body | {"status": status})
    service = body | {"status": record.status}
    if "disabled_reason" in body:
        service["disabled_reason"] = record.disabled_reason  # as stored, in one line
    return {"service": service}, headers


def _change(
    record: ServiceRecord, control: Control, request: Request, body: Mapping[str, Any]
) -> tuple[ServiceRecord, dict[str, str]]:
    """Change ``forced_down`` and ``status`` as the body says; return the record, and headers."""
    host, caller, headers = record.host, request.caller, {}
    if "forced_down" in body:
        forced_down = body["forced_down"] in {True, *TRUE}
        record = control.force_down(host, caller, forced_down=forced_down)
    if "status" in body:
        disabled, reason = body["status"] == "disabled", body.get("disabled_reason")
        switched = control.switch(host, disabled=disabled, reason=reason, caller=caller)
        outcome = switched.outcome.encode("ascii", "backslashreplace").decode()
        record, headers = switched.record, {OUTCOME: outcome}
    return record, headers


def delete_service(control: Control, request: Request, service_id: str) -> ResponseReturnValue:
    """Answer ``DELETE /os-services/{id}``."""
    control.delete(_record(control, request, service_id).host, request.caller)
    return "", 204


def _record(control: Control, request: Request, service_id: str) -> ServiceRecord:
    if request.version < UUIDS:
        records = control.registry.list_services()
        found = [record for record in records if str(record.id) == service_id]
        return found[0] if found else abort(404, f"no service has the id {service_id!a}")
    if not checks.is_uuid(service_id):
        abort(400, f"{service_id!a} is not a UUID: list with microversion 2.53 or later")
    return cast("SqlRegistry", control.registry).find_service(service_id)


def _as_json(record: ServiceRecord, control: Control, version: Version) -> dict[str, Any]:
    """Return a record with the fields that Nova's schema has in this microversion, no others."""
    shown = {
        "id": record.uuid if version >= UUIDS else record.id,
        "binary": BINARY,
        "host": record.host,
        "zone": ZONE,
        "status": record.status,
        "state": "up" if record.is_up(control.down_after) else "down",
        "updated_at": record.last_seen and f"{record.last_seen:%Y-%m-%dT%H:%M:%S.%f}",
        "disabled_reason": record.disabled_reason,
    }
    return shown | ({"forced_down": record.forced_down} if version >= FORCED_DOWN else {})
