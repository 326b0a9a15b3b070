"""os-services, os-availability-zone (one zone) and os-aggregates (none) of the compute API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.registry import checks, errors
from agent.registry.control import Control, Switched
from agent.registry.record import ServiceRecord
from compute_registry.rest.request import Answer, Refused, Request, Version, version_text

ZONE = "nova"
"""Nova's default availability zone: all services are in it."""
FOLLOWS = "X-Compute-Agent"
"""Header of the answer to a change of status: the outcome of the call to the agent."""
WITH_FORCED_DOWN: Version = (2, 11)
WITH_UUIDS: Version = (2, 53)
STRICT: Version = (2, 75)
"""From this microversion on unknown query parameters are refused."""
_STATUSES: Mapping[type[errors.RegistryError], int] = {
    errors.UnknownHost: 404,
    errors.ReasonRefused: 400,
    errors.InputRefused: 400,
    errors.StillUp: 409,
    errors.Changed: 409,
    errors.Attached: 409,
    errors.HostTaken: 409,
    errors.RegistryUnavailable: 503,
}
_OLD_ACTIONS: Mapping[str, frozenset[str]] = {
    "enable": frozenset({"host", "binary"}),
    "disable": frozenset({"host", "binary"}),
    "disable-log-reason": frozenset({"host", "binary", "disabled_reason"}),
    "force-down": frozenset({"host", "binary", "forced_down"}),
}
"""Actions of microversions 2.1 to 2.52, with the required fields of their bodies."""
_TRUE = frozenset({"True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes"})
_FALSE = frozenset({"False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no"})


def refusal(err: errors.RegistryError) -> Refused:
    """Return the HTTP error for an error of the registry."""
    return Refused(_STATUSES.get(type(err), 500), str(err))


@dataclass(frozen=True, slots=True)
class Services:
    """The calls of os-services."""

    control: Control

    def all(self, request: Request) -> Answer:
        """Answer ``GET /os-services``: all, or those of a ``host`` or a ``binary``."""
        wanted = request.query(("host", "binary"), STRICT)
        records = [
            record
            for record in self._records(wanted.get("host"))
            if wanted.get("binary") in (None, "", record.binary)
        ]
        return Answer({"services": [self._as_json(record, request.version) for record in records]})

    def show(self, request: Request, service_id: str) -> Answer:
        """Answer ``GET /os-services/{id}``."""
        request.query((), STRICT)
        record = self._record_with_id(request.version, service_id)
        return Answer({"service": self._as_json(record, request.version)})

    def update(self, request: Request, service_id: str) -> Answer:
        """Answer ``PUT /os-services/{id}``, which changes status, reason and forced_down.

        Before microversion 2.53 the id's place has the name of an action.
        """
        if request.version < WITH_UUIDS:
            return self._old_action(request, service_id)
        body = request.body()
        _check(body, frozenset(), frozenset({"status", "disabled_reason", "forced_down"}))
        status, reason = body.get("status"), body.get("disabled_reason")
        if status is None and reason is not None:
            raise Refused(400, "disabled_reason requires the status disabled in the same request")
        if status is None and "forced_down" not in body:
            raise Refused(400, "nothing to change: neither status nor forced_down is given")
        checks.reason(disabled=status == "disabled", reason=reason)  # before anything is done
        record, switched = self._record_with_id(request.version, service_id), None
        if "forced_down" in body:
            record = self._force(request, record, body)
        if status is not None:
            switched = self._switch(request, record, disabled=status == "disabled", reason=reason)
            record = switched.record
        return Answer({"service": self._as_json(record, request.version)}, _follows(switched))

    def delete(self, request: Request, service_id: str) -> Answer:
        """Answer ``DELETE /os-services/{id}``."""
        record = self._record_with_id(request.version, service_id)
        self.control.delete(record.host, request.caller)
        return Answer(None)

    def _old_action(self, request: Request, action: str) -> Answer:
        needed = _OLD_ACTIONS.get(action)
        if needed is None or (action == "force-down" and request.version < WITH_FORCED_DOWN):
            version = version_text(request.version)
            raise Refused(404, f"os-services/{action} does not exist in microversion {version}")
        body = request.body()
        _check(body, needed, needed)
        record = self.control.registry.get_service(body["host"])
        if record.binary != body["binary"]:
            raise Refused(400, f"a {body['binary']!a} service can't be updated")
        answer = {"host": record.host, "binary": record.binary}
        if action == "force-down":
            forced = self._force(request, record, body).forced_down
            return Answer({"service": answer | {"forced_down": forced}})
        reason = body.get("disabled_reason")
        switched = self._switch(request, record, disabled=action != "enable", reason=reason)
        answer["status"] = switched.record.status
        more = {"disabled_reason": reason} if reason else {}
        return Answer({"service": answer | more}, _follows(switched))

    def _switch(
        self, request: Request, record: ServiceRecord, *, disabled: bool, reason: str | None
    ) -> Switched:
        return self.control.switch(
            record.host, disabled=disabled, reason=reason, caller=request.caller
        )

    def _force(
        self, request: Request, record: ServiceRecord, body: Mapping[str, Any]
    ) -> ServiceRecord:
        forced_down = body["forced_down"] is True or body["forced_down"] in _TRUE
        return self.control.force_down(record.host, request.caller, forced_down=forced_down)

    def _records(self, host: str | None) -> list[ServiceRecord]:
        if not host:
            return self.control.registry.list_services()
        try:
            return [self.control.registry.get_service(host)]
        except errors.UnknownHost:
            return []

    def _record_with_id(self, version: Version, service_id: str) -> ServiceRecord:
        if version >= WITH_UUIDS:
            if not checks.is_uuid(service_id):
                text = f"{service_id!a} is not a UUID: from microversion 2.53 on ids are UUIDs"
                raise Refused(400, text)
            return self.control.registry.find_service(service_id)
        if not (service_id.isascii() and service_id.isdigit()):
            text = f"{service_id!a} is not a number: before microversion 2.53 ids are numbers"
            raise Refused(400, text)
        for record in self.control.registry.list_services():
            if str(record.id) == service_id:
                return record
        raise Refused(404, f"no service has the id {service_id}")

    def _as_json(self, record: ServiceRecord, version: Version) -> dict[str, Any]:
        shown = {
            "id": record.uuid if version >= WITH_UUIDS else record.id,
            "binary": record.binary,
            "host": record.host,
            "zone": ZONE,
            "status": record.status,
            "state": "up" if record.is_up(self.control.down_after) else "down",
            "updated_at": seen_at(record),
            "disabled_reason": record.disabled_reason,
        }
        return shown | ({"forced_down": record.forced_down} if version >= WITH_FORCED_DOWN else {})


def seen_at(record: ServiceRecord) -> str | None:
    """Return the time of the last heartbeat in the API's format, ``None`` if there was none."""
    seen = record.last_seen
    return None if seen is None else f"{seen:%Y-%m-%dT%H:%M:%S.%f}"


def _follows(switched: Switched | None) -> dict[str, str]:
    return {} if switched is None else {FOLLOWS: switched.call_outcome}


def _check(body: Mapping[str, Any], needed: frozenset[str], allowed: frozenset[str]) -> None:
    """Check the fields of a body.  :raises Refused: 400, naming the field."""
    for name in sorted(needed - body.keys()):
        raise Refused(400, f"{name} is missing")
    for name in sorted(body.keys() - allowed):
        raise Refused(400, f"unknown field {name!a}")
    for name, value in body.items():
        if name == "forced_down":
            _check_flag(name, value)
        elif not isinstance(value, str) or not 0 < len(value) <= checks.LONGEST:
            raise Refused(400, f"{name} has to be a text of 1 to {checks.LONGEST} characters")
    if body.get("status") not in (None, "enabled", "disabled"):
        raise Refused(400, f"status is {body['status']!a}; it has to be enabled or disabled")


def _check_flag(name: str, value: object) -> None:
    """Check a flag as Nova does: true and false, also as texts, but no numbers."""
    if not (isinstance(value, bool) or (isinstance(value, str) and value in _TRUE | _FALSE)):
        raise Refused(400, f"{name} is {value!a}; it has to be true or false")


ZONES_STRICT: Version = (2, 102)
"""From this microversion on unknown query parameters are refused."""


@dataclass(frozen=True, slots=True)
class Zones:
    """The calls of os-availability-zone and os-aggregates; all hosts are in one zone."""

    control: Control

    def summary(self, request: Request) -> Answer:
        """Answer ``GET /os-availability-zone``; the zone is available if any host is enabled."""
        request.query((), ZONES_STRICT)
        return _answer(self.control.registry.list_services(), None)

    def detail(self, request: Request) -> Answer:
        """Answer ``GET /os-availability-zone/detail``, with the enabled hosts."""
        request.query((), ZONES_STRICT)
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

    def aggregates(self, request: Request) -> Answer:  # noqa: ARG002  same signature as other calls
        """Answer ``GET /os-aggregates`` with an empty list, for clients that show a hypervisor."""
        return Answer({"aggregates": []})


def _answer(records: Sequence[ServiceRecord], hosts: dict[str, Any] | None) -> Answer:
    available = any(not record.disabled for record in records)
    zone = {"zoneName": ZONE, "zoneState": {"available": available}, "hosts": hosts}
    return Answer({"availabilityZoneInfo": [zone] if records else []})
