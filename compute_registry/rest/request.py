"""A request to the compute API, its microversion, and its answer.

Served are 2.1, which clients get that name no microversion, and 2.53 to 2.104, the newest of
Nova 34; docs/registry.rst has the defaults of clients.  Microversions that change the calls served
here: 2.53 UUIDs, and one call to change a service; 2.69 lists services of an unreachable cell with
unknown fields (here the answer is a 503 if the database is unreachable); 2.75 and 2.102 refuse
unknown query parameters; 2.88 removes the amounts of hypervisors.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from agent.bus.caller import Caller, new_request_id

_NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    501: "notImplemented",
    503: "serviceUnavailable",
}


class Refused(Exception):
    """A request is answered with an error; ``status`` is the HTTP code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def body(self) -> dict[str, object]:
        """Return the JSON body."""
        name = _NAMES.get(self.status, "computeFault")
        return {name: {"code": self.status, "message": str(self)}}


def status_line(code: int) -> str:
    """Return the status as WSGI writes it, such as ``404 Not Found``."""
    return f"{code} {HTTPStatus(code).phrase}"


Version = tuple[int, int]

OLDEST: Version = (2, 1)
UUIDS: Version = (2, 53)
"""The first microversion with UUIDs as ids; those between the oldest and this one are not served"""
NEWEST: Version = (2, 104)
HEADERS = ("OpenStack-API-Version", "X-OpenStack-Nova-API-Version")
_UPDATED = "2013-07-23T11:33:21Z"
"""When Nova released the API v2.1; clients show it."""


def version_of(environ: dict[str, Any]) -> Version:
    """Return the microversion that a request names; the oldest if it names none.

    :raises Refused: 400 if it is malformed, 406 if it is not supported.
    """
    text = _compute_part(environ.get("HTTP_OPENSTACK_API_VERSION", ""))
    text = text or environ.get("HTTP_X_OPENSTACK_NOVA_API_VERSION", "").strip()
    if not text:
        return OLDEST
    if text == "latest":
        return NEWEST
    match = re.fullmatch(r"([1-9][0-9]{0,8})\.([1-9][0-9]{0,8}|0)", text)
    if match is None:
        raise Refused(400, f"{text} is not a microversion, such as {version_text(NEWEST)}")
    version = int(match[1]), int(match[2])
    if version != OLDEST and not UUIDS <= version <= NEWEST:
        raise Refused(
            406,
            f"microversion {text} is not supported: use {version_text(UUIDS)} to "
            f"{version_text(NEWEST)}, or {version_text(OLDEST)}",
        )
    return version


def _compute_part(header: str) -> str:
    """Return the compute version of a header such as ``identity 3.7, compute 2.53``."""
    for part in header.split(","):
        service, _, version = part.strip().partition(" ")
        if service.lower() == "compute":
            return version.strip()
    return ""


def version_text(version: Version) -> str:
    """Return a version as text, such as ``2.53``."""
    return f"{version[0]}.{version[1]}"


def version_headers(version: Version) -> list[tuple[str, str]]:
    """Return the headers of an answer that name its microversion."""
    new, old = HEADERS
    return [
        (new, f"compute {version_text(version)}"),
        (old, version_text(version)),
        ("Vary", ", ".join(HEADERS)),
    ]


def api_description(base: str) -> dict[str, Any]:
    """Return the version document of the API v2.1, for version discovery by clients."""
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": version_text(NEWEST),
        "min_version": version_text(OLDEST),
        "updated": _UPDATED,
        "links": [{"rel": "self", "href": f"{base}/v2.1/"}],
    }


Environ = dict[str, Any]
LONGEST_BODY = 65536
LONGEST_QUERY = 16
"""Parameters; no call has more than four."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request; ``body`` is ``None`` for an empty 204."""

    body: dict[str, Any] | None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """A request: caller, microversion, body; ``url`` is without the query."""

    environ: Environ
    version: Version
    url: str = ""

    @property
    def caller(self) -> Caller:
        """The address, and the user and project of the token if Keystone is used."""
        header = self.environ.get
        return Caller.from_context(
            {
                "request_id": header(REQUEST_ID),
                "user_name": _name(header("HTTP_X_USER_NAME"), header("HTTP_X_USER_ID")),
                "project_name": _name(header("HTTP_X_PROJECT_NAME"), header("HTTP_X_PROJECT_ID")),
                "remote_address": header("REMOTE_ADDR"),
            }
        )

    def query(self, names: Collection[str], strict_since: Version) -> dict[str, str]:
        """Return the query's parameters of these ``names``; of repeated ones the last.

        :raises Refused: 400 for unknown ones, from the microversion ``strict_since`` on.
        """
        try:
            pairs = parse_qsl(
                self.environ.get("QUERY_STRING", ""),
                keep_blank_values=True,
                max_num_fields=LONGEST_QUERY,
            )
        except ValueError as err:
            raise Refused(400, f"the query has more than {LONGEST_QUERY} parameters") from err
        for name, _ in pairs:
            if name not in names and self.version >= strict_since:
                raise Refused(400, f"unknown query parameter {name!a}")
        return {name: value for name, value in pairs if name in names}

    def body(self) -> dict[str, Any]:
        """Return the JSON object of the body.  :raises Refused: 400 if it is not one."""
        length = self.environ.get("CONTENT_LENGTH") or "0"
        size = int(length) if length.isdigit() else 0
        if size > LONGEST_BODY:
            raise Refused(400, f"the body has {size} bytes; at most {LONGEST_BODY} are read")
        try:
            body = json.loads(self.environ["wsgi.input"].read(size))
        except (ValueError, RecursionError) as err:
            raise Refused(400, f"the body is not valid JSON: {err}") from err
        if not isinstance(body, dict):
            raise Refused(400, "the body has to be a JSON object")
        return body


REQUEST_ID = "compute_registry.request_id"
"""The key of the request's id in the WSGI environment."""


def request_id_of(environ: Environ) -> str:
    """Return the id of a request, the same at each call."""
    request_id: str = environ.setdefault(REQUEST_ID, new_request_id())
    return request_id


def _name(name: str | None, id_: str | None) -> str | None:
    return f"{name} ({id_})" if name and id_ else name or id_
