"""os-services of the compute API, and os-availability-zone and os-aggregates: one zone, none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.registry import checks, errors
from agent.registry.control import Control, Switched
from agent.registry.record import ServiceRecord
from compute_registry.rest.request import Answer, Refused, Request, Version, version_text

ZONE = "nova"
"""Services here are in no availability zone; this is the name of the default one."""
FOLLOWS = "X-Compute-Agent"
"""Header of an answer to a change of status: what became of the call to the agent."""
WITH_FORCED_DOWN: Version = (2, 11)
WITH_UUIDS: Version = (2, 53)
STRICT: Version = (2, 75)
"""Refuses query parameters that it does not know."""
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
"""Of 2.1 to 2.52, with what their bodies have to have."""
_TRUE = frozenset({"True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes"})
_FALSE = frozenset({"False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no"})


def refusal(err: errors.RegistryError) -> Refused:
    """The HTTP error that stands for one of the registry."""
    return Refused(_STATUSES.get(type(err), 500), str(err))


@dataclass(frozen=True, slots=True)
class Services:
    """Calls as the compute API has them."""

    control: Control

    def all(self, request: Request) -> Answer:
        """All, or those of a ``host`` or a ``binary``."""
        wanted = request.query(("host", "binary"), STRICT)
        found = [
            record
            for record in self._of_host(wanted.get("host"))
            if wanted.get("binary") in (None, "", record.binary)
        ]
        return Answer({"services": [self._as_json(record, request.version) for record in found]})

    def show(self, request: Request, one: str) -> Answer:
        """One."""
        request.query((), STRICT)
        found = self._with_id(request.version, one)
        return Answer({"service": self._as_json(found, request.version)})

    def update(self, request: Request, one: str) -> Answer:
        """Change status, reason and forced_down, of which any may be left out."""
        if request.version < WITH_UUIDS:
            return self._old_action(request, one)
        body = request.body()
        _check(body, frozenset(), frozenset({"status", "disabled_reason", "forced_down"}))
        status, reason = body.get("status"), body.get("disabled_reason")
        if status is None and reason is not None:
            raise Refused(400, "disabled_reason needs the status disabled beside it")
        if status is None and "forced_down" not in body:
            raise Refused(400, "nothing to change: neither status nor forced_down is given")
        checks.reason(disabled=status == "disabled", reason=reason)  # before anything is done
        record, done = self._with_id(request.version, one), None
        if "forced_down" in body:
            record = self._force(request, record, body)
        if status is not None:
            done = self._switch(request, record, disabled=status == "disabled", reason=reason)
            record = done.record
        return Answer({"service": self._as_json(record, request.version)}, _follows(done))

    def delete(self, request: Request, one: str) -> Answer:
        """Forget it."""
        self.control.delete(self._with_id(request.version, one).host, request.caller)
        return Answer(None)

    def _old_action(self, request: Request, action: str) -> Answer:
        needed = _OLD_ACTIONS.get(action)
        if needed is None or (action == "force-down" and request.version < WITH_FORCED_DOWN):
            version = version_text(request.version)
            raise Refused(404, f"there is no os-services/{action} in version {version}")
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
        done = self._switch(request, record, disabled=action != "enable", reason=reason)
        answer["status"] = done.record.status
        more = {"disabled_reason": reason} if reason else {}
        return Answer({"service": answer | more}, _follows(done))

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

    def _of_host(self, host: str | None) -> list[ServiceRecord]:
        if not host:
            return self.control.registry.list_services()
        try:
            return [self.control.registry.get_service(host)]
        except errors.UnknownHost:
            return []

    def _with_id(self, version: Version, service: str) -> ServiceRecord:
        if version >= WITH_UUIDS:
            if not checks.is_uuid(service):
                raise Refused(400, f"{service!a} is not a UUID; services have UUIDs from 2.53 on")
            return self.control.registry.find_service(service)
        if not (service.isascii() and service.isdigit()):
            raise Refused(400, f"{service!a} is not a number; services have numbers before 2.53")
        for record in self.control.registry.list_services():
            if str(record.id) == service:
                return record
        raise Refused(404, f"no service has the number {service}")

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
    """When its last heartbeat came, as the API writes times."""
    seen = record.last_seen
    return None if seen is None else f"{seen:%Y-%m-%dT%H:%M:%S.%f}"


def _follows(done: Switched | None) -> dict[str, str]:
    return {} if done is None else {FOLLOWS: done.call_outcome}


def _check(body: Mapping[str, Any], needed: frozenset[str], allowed: frozenset[str]) -> None:
    """The shape of a body.  :raises Refused: 400, naming the field."""
    for name in sorted(needed - body.keys()):
        raise Refused(400, f"{name} is missing")
    for name in sorted(body.keys() - allowed):
        raise Refused(400, f"{name!a} can't be given here")
    for name, value in body.items():
        if name == "forced_down":
            _check_flag(name, value)
        elif not isinstance(value, str) or not 0 < len(value) <= checks.LONGEST:
            raise Refused(400, f"{name} has to be a text of 1 to {checks.LONGEST} characters")
    if body.get("status") not in (None, "enabled", "disabled"):
        raise Refused(400, f"status is {body['status']!a}; it can be enabled or disabled")


def _check_flag(name: str, value: object) -> None:
    """Check a flag as Nova does: true and false, also as texts, but no numbers."""
    if not (isinstance(value, bool) or (isinstance(value, str) and value in _TRUE | _FALSE)):
        raise Refused(400, f"{name} is {value!a}; it can be true or false")


ZONES_STRICT: Version = (2, 102)
"""Refuses query parameters that it does not know."""


@dataclass(frozen=True, slots=True)
class Zones:
    """All hosts are in the default zone."""

    control: Control

    def summary(self, request: Request) -> Answer:
        """Available, if a host is enabled."""
        request.query((), ZONES_STRICT)
        return _answer(self.control.registry.list_services(), None)

    def detail(self, request: Request) -> Answer:
        """The same, with the enabled hosts."""
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

    def aggregates(self, request: Request) -> Answer:  # noqa: ARG002  all calls are alike
        """None: those that the tools ask for beside a hypervisor are Nova's."""
        return Answer({"aggregates": []})


def _answer(records: Sequence[ServiceRecord], hosts: dict[str, Any] | None) -> Answer:
    available = any(not record.disabled for record in records)
    zone = {"zoneName": ZONE, "zoneState": {"available": available}, "hosts": hosts}
    return Answer({"availabilityZoneInfo": [zone] if records else []})
