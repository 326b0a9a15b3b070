"""Parse Placement's HTTP answers: their JSON, or a typed error."""

import json as jsonlib
import re
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from reportclient.errors import (
    AlreadyThere,
    AuthenticationFailed,
    Conflict,
    Forbidden,
    InUse,
    NameTaken,
    NoCapacity,
    NotFound,
    PlacementError,
    Rejected,
    ServerFault,
    TooNew,
    TooOld,
    UnknownNames,
    Unreachable,
    WrongForm,
)
from reportclient.forms import parse_microversion, shown

_CODES: dict[str, type[PlacementError]] = {
    "placement.concurrent_update": Conflict,
    "placement.inventory.inuse": InUse,
    "placement.resource_provider.inuse": InUse,
    "placement.duplicate_name": NameTaken,
    "placement.resource_provider.cannot_delete_parent": Conflict,
}
_WITHOUT_CODE = {
    **dict.fromkeys(("/traits/", "/resource_classes/"), InUse),
    **dict.fromkeys(("/allocations", "/reshaper"), NoCapacity),
}
"""The errors of a 409 without a code of its own, by the beginning of the path."""
_GATEWAYS = {
    403: "a gateway or proxy on the way refuses the request: see its rules",
    404: "is endpoint_override right?",
    407: "a proxy wants credentials: see https_proxy, http_proxy and no_proxy",
    413: "a gateway or proxy limits the size of requests: raise its limit",
    429: "a gateway or proxy limits the rate of requests, which are sent again: raise its limit",
}
"""Next steps by status, of answers that are not Placement's."""
_TOO_LONG = frozenset({414, 431})
_NAME = re.compile(r"[A-Z][A-Z0-9_]+")
_UNKNOWN_TRAITS = re.compile(r"No such trait(?:\(s\)|s)?:? (?P<names>.+?)\.?\s*$")
_CHANGED = re.compile(
    "parent provider UUID does not exist|creating loop in the provider tree"
    "|in inventories not found|Allocation for resource provider .* that does not exist"
)
"""Texts of a 400 that another client's change has caused."""
_SAME_UUID = re.compile(r"Conflicting resource provider uuid")
_UNKNOWN_CLASS = re.compile(
    r"(?:Unknown resource class|No such resource class)\D*?(?P<names>[A-Z]\w+)"
)
_NO_PATH = "The resource could not be found."
"""Placement's text for a path that it does not have; a missing provider is named after it."""
ROLE = "the user needs the role that Placement's policy requires, 'service' by default"


class Answer(dict[str, Any]):
    """The JSON object of an answer."""

    modified = ""
    """Its ``Last-Modified``: when the newest provider of a listing was written, in whole seconds.
    Empty without one."""


def answer(method: str, path: str, response: Any, version: str) -> Answer:
    """Return the JSON object of an answer (a :class:`requests.Response`) to a request.

    ``version`` is the microversion with which it was sent.

    :raises reportclient.errors.PlacementError: the answer is an error, or not Placement's.
    """
    body = _body(response)
    if response.status_code < 300 and body is not None:
        result = Answer(body)
        result.modified = response.headers.get("last-modified", "")
        return result
    what = f"{method} {shown(path)}: {response.status_code}"
    if response.status_code in _TOO_LONG:
        raise Rejected(f"{what}, the URL is too long ({len(path)} bytes): request less at once")
    errors = (body or {}).get("errors")
    first = errors[0] if isinstance(errors, list) and errors else {}
    texts = first.items() if isinstance(first, dict) else ()
    error = {key: value for key, value in texts if isinstance(value, str)}
    if response.status_code == 406:
        _refuse_version(f"{method} {shown(path)}", version, error)
    err = _error(what, path, response, error)
    err.status, err.code, err.detail = response.status_code, error.get("code"), error.get("detail")
    raise err


def _refuse_version(what: str, version: str, error: dict[str, str]) -> None:
    """Raise the error of a 406, unless it names no versions."""
    wanted, range_of = parse_microversion(version), dict[str, tuple[int, ...]]()
    for key in ("min_version", "max_version"):
        with suppress(ValueError):
            range_of[key] = parse_microversion(error.get(key, ""))
    if range_of.get("min_version", wanted) > wanted:
        text = f"{what}: Placement supports microversion {error['min_version']} and later only"
        raise TooNew(f"{text}, this client needs {version}")
    if range_of.get("max_version", wanted) < wanted:
        newest = error["max_version"]
        text = f"{what} needs microversion {version}; Placement has {newest}"
        raise TooOld(text, newest=newest)


def _error(what: str, path: str, response: Any, error: dict[str, str]) -> PlacementError:
    status = response.status_code
    request_id = response.headers.get("x-openstack-request-id")
    text = f"{what} {' '.join((error.get('detail') or error.get('title') or '').split())}"
    if status == 401:  # of Placement, or of a proxy before it
        text = f"{text.rstrip()}; Placement does not accept the credentials"
        return AuthenticationFailed(text, request_id=request_id)
    if not error or (status == 404 and text.endswith(_NO_PATH)):
        error, base = {}, response.url.partition(path.partition("?")[0])[0]
        text = f"{what}, and the answer of {base} is not in Placement's format"
        text += f"; {_GATEWAYS.get(status, 'see what answers there')}"
    elif status == 403:
        text = f"{text.rstrip(' .')}; {ROLE}"
    passing = status == 429 or status >= 500
    if passing or not error:
        fault = Unreachable if passing else WrongForm
        if status == 500 and error:
            fault = ServerFault
        details = {"retry_after": _retry_after(response), "unsent": status in (404, 429, 503)}
        return fault(text, request_id=request_id, **details)
    by_status: dict[int, type[PlacementError]] = {403: Forbidden, 404: NotFound, 406: TooOld}
    kind = by_status.get(status) or _CODES.get(error.get("code", ""), Rejected)
    if kind is NameTaken and _SAME_UUID.search(text):
        kind = AlreadyThere
    if kind is Rejected and _CHANGED.search(text):
        kind = Conflict
    if kind is Rejected and status == 409:
        kind = next((it for start, it in _WITHOUT_CODE.items() if path.startswith(start)), kind)
    unknown = _UNKNOWN_TRAITS.search(text) or _UNKNOWN_CLASS.search(text)
    if status == 400 and unknown and (names := frozenset(_NAME.findall(unknown["names"]))):
        return UnknownNames(text, request_id=request_id, names=names)
    return kind(text, request_id=request_id)


def _retry_after(response: Any) -> float | None:
    """Return the seconds of ``Retry-After``, a number or a date; ``None`` for an absurd number."""
    wait = response.headers.get("retry-after", "")
    if wait.isdecimal():
        return float(wait) if len(wait) < 6 else None
    until = seconds_of(wait)
    return None if until is None else max(0.0, until - time.time())


def seconds_of(date: str) -> float | None:
    """Return an HTTP date in seconds since the epoch; ``None`` for what is no date."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _body(response: Any) -> dict[str, Any] | None:
    """Return the JSON object of an answer, ``{}`` if it is empty, ``None`` if not Placement's.

    Placement never answers 200 with an empty body, but a proxy may.
    """
    if not response.content:
        return {} if response.status_code in (201, 204) else None
    try:
        body = jsonlib.loads(response.content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) and body else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
