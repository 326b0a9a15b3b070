"""The door to Placement: a request in, a value or a typed error out.

Retries of connections are keystoneauth's; everything else raises, and the caller
decides.  What bounds a request in time and size is in ``transport``.
"""

from __future__ import annotations

import copy
import json as jsonlib
import re
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, Protocol
from urllib.parse import urlsplit

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading, session, token_endpoint

from reportclient.errors import (
    AlreadyThere,
    AuthenticationFailed,
    Conflict,
    Forbidden,
    InUse,
    NameTaken,
    NotFound,
    PlacementError,
    Rejected,
    ServerFault,
    TooOld,
    UnknownNames,
    Unreachable,
)
from reportclient.transport import LIMIT, Refused, Transport

NEWEST = "1.39"
OLDEST = "1.30"
GROUP = "placement"
TIMEOUT = 30.0
"""Seconds for one answer where ``[placement] timeout`` is not set."""

UPGRADES_SEEN_WITHIN = 3600.0
"""Seconds after which a Placement that was too old is taken for a newer one again."""

_CODES: dict[str, type[PlacementError]] = {
    "placement.concurrent_update": Conflict,
    "placement.inventory.inuse": InUse,
    "placement.resource_provider.inuse": InUse,
    "placement.duplicate_name": NameTaken,
}
_TOO_LONG = frozenset({414, 431})
_SHOWN = 200
"""Characters of a path that a message has."""
_NAME = re.compile(r"[A-Z][A-Z0-9_]+")
_UNKNOWN_TRAITS = re.compile(r"No such trait(?:\(s\)|s)?:? (?P<names>.+?)\.?\s*$")
_ERRNO = re.compile(r"(?:\[Errno -?\d+\] |Error\(\d+, ')([^'\")\]]+)")
_POOL = re.compile(r": \w*Pool\(")
"""Where urllib3 begins to speak of its connections, ours included."""
_SAME_UUID = re.compile(r"Conflicting resource provider uuid")
_UNKNOWN_CLASS = re.compile(
    r"(?:Unknown resource class|No such resource class)\D*?(?P<names>[A-Z]\w+)"
)
ROLE = (
    f"the user of [{GROUP}] needs the role that Placement's policy wants there, "
    "'service' by default."
)


class API(Protocol):
    """What the report client needs of Placement; the tests' fake has it too."""

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """One call.  ``needs`` is the microversion below which it makes no sense.

        :raises reportclient.errors.PlacementError: one of its kinds.
        """


class PlacementAPI:
    """Placement over HTTP."""

    def __init__(
        self,
        adapter: ksa_adapter.Adapter,
        *,
        on_answer: Callable[[], None] | None = None,
        max_version: str | None = None,
    ) -> None:
        self._adapter = adapter
        self._on_answer = on_answer
        self._newest = min(max_version or NEWEST, NEWEST, key=_number)
        self._version = self._newest
        self._newest_again = 0.0
        self._headers: dict[str, str] = {}
        self.calls = 0

    def tagged(self, request_id: str | None) -> PlacementAPI:
        """The same, with a request id of the caller's (``req-`` and a UUID) in each call."""
        headers = {"X-Openstack-Request-Id": request_id} if request_id else {}
        other = copy.copy(self)
        vars(other).update(_headers=headers)
        return other

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`API`.  A server that is older is spoken to in its own version."""
        if self._version != self._newest and time.monotonic() > self._newest_again:
            self._version = self._newest
        self._refuse_too_old(f"{method} {path}", needs)
        response = self._send(method, path, json)
        if response.status_code == 406 and self._settle_for_less(response):
            self._refuse_too_old(f"{method} {path}", needs)
            response = self._send(method, path, json)
        return _answer(method, path, response)

    def _send(self, method: str, path: str, json: Any) -> Any:
        self.calls += 1
        try:
            response = self._adapter.request(
                path,
                method,
                json=json,
                headers=dict(self._headers),  # keystoneauth adds its own to them
                raise_exc=False,
                redirect=False,
                microversion=self._version,
                log=False,
            )
        except (ksa.Unauthorized, ksa.AuthPluginException, ksa.MissingAuthMethods) as err:
            raise AuthenticationFailed(f"Keystone refused [{GROUP}] credentials: {err}") from err
        except (ksa.ClientException, ksa.RetriableConnectionFailure, OSError) as err:
            raise Unreachable(f"no answer to {method} {_shown(path)}: {_reason(err)}") from err
        if self._on_answer is not None:
            self._on_answer()
        return response

    def _settle_for_less(self, response: Any) -> bool:
        newest = _first_error(_body(response) or {}).get("max_version")
        if not newest or _number(newest) >= _number(self._version):
            return False
        self._version = newest
        self._newest_again = time.monotonic() + UPGRADES_SEEN_WITHIN
        return True

    def _refuse_too_old(self, what: str, needs: str | None) -> None:
        least = max(needs or OLDEST, OLDEST, key=_number)
        if _number(self._version) < _number(least):
            text = f"{what} needs microversion {least}; Placement has {self._version}"
            raise TooOld(text, speaks=self._version)


def api_over(adapter: Any, max_version: str | None = None) -> API:
    """The door over a keystoneauth adapter; what is one already stays as it is."""
    if isinstance(adapter, ksa_adapter.Adapter):
        return PlacementAPI(adapter, max_version=max_version)
    api: API = adapter
    return api


def _reason(err: Exception) -> str:
    """The cause without the libraries' names around it: the address, and what the system said."""
    if isinstance(err, ksa.UnknownConnectionError) and isinstance(err.original, Refused):
        return str(err.original)
    if isinstance(err, ksa.CatalogException):
        return f"{err} See [{GROUP}] endpoint_override, region_name and valid_interfaces."
    said, *rest = _POOL.split(str(err), maxsplit=1)
    inner = rest[0] if rest else ""
    said, _, cut = said.partition(": (")
    cause = _ERRNO.search(inner or cut)
    return f"{said}: {cause[1]}" if cause else said + (cut and f": ({cut}")


def _answer(method: str, path: str, response: Any) -> dict[str, Any]:
    body = _body(response)
    if response.status_code < 300 and body is not None:
        return body
    what = f"{method} {_shown(path)}: {response.status_code}"
    if response.status_code in _TOO_LONG:
        raise Rejected(f"{what}, the URL is too long with {len(path)} bytes: ask for less at once")
    err, said = _error(what, response, body), _first_error(body or {})
    err.status, err.code, err.detail = response.status_code, said.get("code"), said.get("detail")
    raise err


def _shown(path: str) -> str:
    """A list of a thousand aggregates is no message."""
    return path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…"


def _error(what: str, response: Any, body: dict[str, Any] | None) -> PlacementError:
    status = response.status_code
    request_id = response.headers.get("x-openstack-request-id")
    error = _first_error(body or {})
    text = f"{what} {' '.join(str(error.get('detail') or error.get('title') or '').split())}"
    if status == 401:  # whoever says it, and however
        text = f"{text.rstrip()}; what [{GROUP}] logs in with is not accepted there"
        return AuthenticationFailed(text, request_id=request_id)
    if not error:
        there = "{0.scheme}://{0.netloc}".format(urlsplit(response.url))
        text = f"{what}, and not in Placement's words ({there} answered)"
    elif status == 403:
        text = f"{text.rstrip(' .')}; {ROLE}"
    if status == 429 or status >= 500 or not error:
        fault = ServerFault if status == 500 and error else Unreachable
        return fault(text, request_id=request_id, retry_after=_retry_after(response))
    by_status: dict[int, type[PlacementError]] = {
        403: Forbidden,
        404: NotFound,
        406: TooOld,
    }
    kind = by_status.get(status) or _CODES.get(error.get("code", ""), Rejected)
    if kind is NameTaken and _SAME_UUID.search(text):
        kind = AlreadyThere
    names = _unknown_names(text) if status == 400 else frozenset()
    if names:
        return UnknownNames(text, names, request_id=request_id)
    return kind(text, request_id=request_id)


def _retry_after(response: Any) -> float | None:
    """Seconds, also from a date; an absurd number is none."""
    wait = response.headers.get("retry-after", "")
    if wait.isdecimal():
        return float(wait) if len(wait) < 6 else None
    try:
        until = parsedate_to_datetime(wait)
        return max(0.0, until.timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _unknown_names(text: str) -> frozenset[str]:
    found = _UNKNOWN_TRAITS.search(text) or _UNKNOWN_CLASS.search(text)
    return frozenset(_NAME.findall(found["names"])) if found else frozenset()


def _body(response: Any) -> dict[str, Any] | None:
    """The JSON object of an answer, ``{}`` for one without, ``None`` for what is not Placement's.

    It never says 200 and nothing, but what stands between may.
    """
    if not response.content:
        return {} if response.status_code in (201, 204) else None
    try:
        body = jsonlib.loads(response.content)
    except ValueError:
        return None
    return body if isinstance(body, dict) and body else None


def _first_error(body: dict[str, Any]) -> dict[str, Any]:
    errors = body.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else {}
    return first if isinstance(first, dict) else {}


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def token_adapter(url: str, token: str) -> ksa_adapter.Adapter:
    """For a Placement without Keystone."""
    auth = token_endpoint.Token(url, token)
    return ksa_adapter.Adapter(over(session.Session(auth, timeout=TIMEOUT)), service_type=GROUP)


def over(made: session.Session, limit: int = LIMIT) -> session.Session:
    """The session, with bounds to each request of its own, log-ins included."""
    for scheme in ("http://", "https://"):
        made.session.mount(scheme, Transport(limit))
    return made


def adapter_from_conf(conf: Any, limit: int = LIMIT) -> ksa_adapter.Adapter:
    """From the options of ``[placement]``; ``limit`` is in bytes of one answer.

    :raises AuthenticationFailed: they don't fit.
    """
    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
        if auth is None:
            raise AuthenticationFailed(f"[{GROUP}] auth_type is not set: how to log in is unknown")
        made = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
        made.timeout = made.timeout or TIMEOUT
        over(made, limit)
        return loading.load_adapter_from_conf_options(conf, GROUP, session=made)
    except ksa.ClientException as err:
        raise AuthenticationFailed(f"[{GROUP}] {err}") from err


def register_opts(conf: Any) -> None:
    """Register ``[placement]`` with keystoneauth's own options."""
    loading.register_auth_conf_options(conf, GROUP)
    loading.register_session_conf_options(conf, GROUP)
    loading.register_adapter_conf_options(conf, GROUP)
    conf.set_default("service_type", GROUP, group=GROUP)
    conf.set_default("valid_interfaces", ["internal", "public"], group=GROUP)


def conf_options() -> list[Any]:
    """The same options, for the sample configuration."""
    return [
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options("password"),
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
