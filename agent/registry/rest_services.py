"""os-services of the compute API: what each call does to the registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.registry import checks
from agent.registry.control import Control
from agent.registry.errors import (
    Changed,
    HostTaken,
    InputRefused,
    ReasonRefused,
    RegistryError,
    RegistryUnavailable,
    StillUp,
    UnknownHost,
)
from agent.registry.record import ServiceRecord
from agent.registry.rest_errors import Refused
from agent.registry.rest_versions import Version, said

ZONE = "nova"
"""Services here are in no availability zone; this is the name of the default one."""
WITH_FORCED_DOWN: Version = (2, 11)
WITH_UUIDS: Version = (2, 53)
_STATUSES: Mapping[type[RegistryError], int] = {
    UnknownHost: 404,
    ReasonRefused: 400,
    InputRefused: 400,
    StillUp: 409,
    Changed: 409,
    HostTaken: 409,
    RegistryUnavailable: 503,
}
_OLD_ACTIONS: Mapping[str, frozenset[str]] = {
    "enable": frozenset({"host", "binary"}),
    "disable": frozenset({"host", "binary"}),
    "disable-log-reason": frozenset({"host", "binary", "disabled_reason"}),
    "force-down": frozenset({"host", "binary", "forced_down"}),
}
"""Of 2.1 to 2.52, with what their bodies have to have."""
_TYPES = {
    "host": str,
    "binary": str,
    "status": str,
    "disabled_reason": str,
    "forced_down": bool,
}
Answer = dict[str, Any] | None


def refusal(err: RegistryError) -> Refused:
    """The HTTP error that stands for one of the registry."""
    return Refused(_STATUSES.get(type(err), 500), str(err))


@dataclass(frozen=True, slots=True)
class Services:
    """Calls as the compute API has them; each gives its body, ``None`` for an empty 204."""

    control: Control

    def all(self, version: Version, wanted: Mapping[str, str]) -> Answer:
        """All, or those of a ``host`` or a ``binary``."""
        found = [
            record
            for record in self._of_host(wanted.get("host"))
            if wanted.get("binary") in (None, record.binary)
        ]
        return {"services": [self._shown(record, version) for record in found]}

    def show(self, version: Version, service: str) -> Answer:
        """One."""
        return {"service": self._shown(self._with_id(version, service), version)}

    def update(self, version: Version, service: str, body: Mapping[str, Any]) -> Answer:
        """Change status, reason and forced_down, of which any may be left out."""
        if version < WITH_UUIDS:
            return self._old_action(version, service, body)
        _check(body, frozenset(), frozenset({"status", "disabled_reason", "forced_down"}))
        status, reason = body.get("status"), body.get("disabled_reason")
        if status not in (None, "enabled", "disabled"):
            raise Refused(400, f"status is {status!r}; it can be enabled or disabled")
        if status is None and reason is not None:
            raise Refused(400, "disabled_reason needs the status disabled beside it")
        if status is None and "forced_down" not in body:
            raise Refused(400, "nothing to change: neither status nor forced_down is given")
        checks.reason(disabled=status == "disabled", reason=reason)  # before anything is done
        record = self._with_id(version, service)
        if "forced_down" in body:
            record = self._force(record, forced_down=body["forced_down"])
        if status is not None:
            record = self._switch(record, enabled=status == "enabled", reason=reason)
        return {"service": self._shown(record, version)}

    def delete(self, version: Version, service: str) -> Answer:
        """Forget it."""
        self.control.registry.delete(self._with_id(version, service).host)
        return None

    def _old_action(self, version: Version, action: str, body: Mapping[str, Any]) -> Answer:
        needed = _OLD_ACTIONS.get(action)
        if needed is None or (action == "force-down" and version < WITH_FORCED_DOWN):
            raise Refused(404, f"there is no os-services/{action} in version {said(version)}")
        _check(body, needed, needed)
        record = self.control.registry.get_service(body["host"])
        if record.binary != body["binary"]:
            raise Refused(404, f"{record.host} has no service {body['binary']}")
        answer = {"host": record.host, "binary": record.binary}
        if action == "force-down":
            forced = self._force(record, forced_down=body["forced_down"]).forced_down
            return {"service": answer | {"forced_down": forced}}
        reason = body.get("disabled_reason")
        if action == "disable-log-reason" and not str(reason).strip():
            raise Refused(400, "disabled_reason is empty")
        changed = self._switch(record, enabled=action == "enable", reason=reason)
        answer["status"] = changed.status
        return {"service": answer | ({"disabled_reason": reason} if reason else {})}

    def _switch(self, record: ServiceRecord, *, enabled: bool, reason: str | None) -> ServiceRecord:
        return self.control.switch(record.host, enabled=enabled, reason=reason).record

    def _force(self, record: ServiceRecord, *, forced_down: bool) -> ServiceRecord:
        return self.control.registry.set_forced_down(record.host, forced_down=forced_down)

    def _of_host(self, host: str | None) -> list[ServiceRecord]:
        if host is None:
            return self.control.registry.list_services()
        try:
            return [self.control.registry.get_service(host)]
        except UnknownHost:
            return []

    def _with_id(self, version: Version, service: str) -> ServiceRecord:
        if version >= WITH_UUIDS:
            return self.control.registry.find_service(service)
        for record in self.control.registry.list_services():
            if str(record.id) == service:
                return record
        raise Refused(404, f"no service has the number {service}")

    def _shown(self, record: ServiceRecord, version: Version) -> dict[str, Any]:
        seen = record.last_seen
        shown = {
            "id": record.uuid if version >= WITH_UUIDS else record.id,
            "binary": record.binary,
            "host": record.host,
            "zone": ZONE,
            "status": record.status,
            "state": "up" if record.is_up(self.control.down_after) else "down",
            "updated_at": seen and f"{seen:%Y-%m-%dT%H:%M:%S.%f}",
            "disabled_reason": record.disabled_reason,
        }
        return shown | ({"forced_down": record.forced_down} if version >= WITH_FORCED_DOWN else {})


def _check(body: Mapping[str, Any], needed: frozenset[str], allowed: frozenset[str]) -> None:
    """The shape of a body.  :raises Refused: 400, naming the field."""
    for name in sorted(needed - body.keys()):
        raise Refused(400, f"{name} is missing")
    for name in sorted(body.keys() - allowed):
        raise Refused(400, f"{name} can't be given here")
    for name, value in body.items():
        if not isinstance(value, _TYPES[name]):
            raise Refused(400, f"{name} has to be a {_TYPES[name].__name__}, not {value!r}")
