"""A request to the compute API, its microversion, and what answers it.

2.104 is the newest microversion of Nova 34.  What they change of the calls that are served here:
2.11 forced_down; 2.28 cpu_info; 2.33 pages of hypervisors; 2.53 UUIDs, and one call to change a
service; 2.69 lets a list leave out what a lost cell would know (there is one database here, and
without it a 503); 2.75 and 2.102 refuse unknown query parameters; 2.88 hypervisors without
amounts.
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
    406: "notAcceptable",
    409: "conflictingRequest",
    501: "notImplemented",
    503: "serviceUnavailable",
}


class Refused(Exception):
    """``status`` is an HTTP code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def body(self) -> dict[str, object]:
        """The JSON body."""
        name = _NAMES.get(self.status, "computeFault")
        return {name: {"code": self.status, "message": str(self)}}


def status_line(code: int) -> str:
    """``404 Not Found``."""
    return f"{code} {HTTPStatus(code).phrase}"


Version = tuple[int, int]

OLDEST: Version = (2, 1)
NEWEST: Version = (2, 104)
HEADERS = ("OpenStack-API-Version", "X-OpenStack-Nova-API-Version")
_UPDATED = "2013-07-23T11:33:21Z"
"""When the API v2.1 was made; clients show it."""


def version_of(environ: dict[str, Any]) -> Version:
    """The microversion that a request asks for; the oldest if it asks for none.

    :raises Refused: 400 for what is no version, 406 for one that is not served.
    """
    text = _compute_part(environ.get("HTTP_OPENSTACK_API_VERSION", ""))
    text = text or environ.get("HTTP_X_OPENSTACK_NOVA_API_VERSION", "").strip()
    if not text:
        return OLDEST
    if text == "latest":
        return NEWEST
    found = re.fullmatch(r"([1-9][0-9]{0,8})\.([1-9][0-9]{0,8}|0)", text)
    if found is None:
        raise Refused(400, f"{text} is no version; versions are like {version_text(NEWEST)}")
    version = int(found[1]), int(found[2])
    if not OLDEST <= version <= NEWEST:
        raise Refused(
            406,
            f"version {text} is not served: use {version_text(OLDEST)} to {version_text(NEWEST)}",
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
    """``2.53``."""
    return f"{version[0]}.{version[1]}"


def version_headers(version: Version) -> list[tuple[str, str]]:
    """Those of an answer."""
    new, old = HEADERS
    return [
        (new, f"compute {version_text(version)}"),
        (old, version_text(version)),
        ("Vary", ", ".join(HEADERS)),
    ]


def api_description(base: str) -> dict[str, Any]:
    """The API v2.1 below this URL, for clients that look what there is."""
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
"""Parameters; nothing here has more than four."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``body`` is ``None`` for an empty 204."""

    body: dict[str, Any] | None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """A request: caller, microversion, body; ``here`` is the URL without its query."""

    environ: Environ
    version: Version
    here: str = ""

    @property
    def caller(self) -> Caller:
        """Whom Keystone has confirmed, if it was asked; else only from where."""
        said = self.environ.get
        return Caller.from_context(
            {
                "request_id": said(REQUEST_ID),
                "user_name": _name(said("HTTP_X_USER_NAME"), said("HTTP_X_USER_ID")),
                "project_name": _name(said("HTTP_X_PROJECT_NAME"), said("HTTP_X_PROJECT_ID")),
                "remote_address": said("REMOTE_ADDR"),
            }
        )

    def query(self, known: Collection[str], strict_since: Version) -> dict[str, str]:
        """The query's parameters that are known here, the last of each.

        :raises Refused: 400 for others, in microversions that refuse them.
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
            if name not in known and self.version >= strict_since:
                raise Refused(400, f"there is no query parameter {name!a} here")
        return {name: value for name, value in pairs if name in known}

    def body(self) -> dict[str, Any]:
        """The JSON object that came.  :raises Refused: 400 for anything else."""
        length = self.environ.get("CONTENT_LENGTH") or "0"
        size = int(length) if length.isdigit() else 0
        if size > LONGEST_BODY:
            raise Refused(400, f"a body of {size} bytes is too long")
        try:
            body = json.loads(self.environ["wsgi.input"].read(size))
        except (ValueError, RecursionError) as err:
            raise Refused(400, f"the body is not valid JSON: {err}") from err
        if not isinstance(body, dict):
            raise Refused(400, "the body has to be a JSON object")
        return body


REQUEST_ID = "compute_registry.request_id"
"""In the environment, once it has been given out."""


def request_id_of(environ: Environ) -> str:
    """The id of this request: given out once, and the same for all that look."""
    made: str = environ.setdefault(REQUEST_ID, new_request_id())
    return made


def _name(name: str | None, id_: str | None) -> str | None:
    return f"{name} ({id_})" if name and id_ else name or id_
