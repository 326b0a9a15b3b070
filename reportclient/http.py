"""Requests to Placement over keystoneauth: the answer's JSON, or a typed error.

keystoneauth retries connections; any other failure raises, and the caller decides.  Bounds of
time and size are in ``transport``.
"""

import contextlib
import copy
import re
import time
from collections.abc import Callable
from typing import Any, Protocol

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import session, token_endpoint

from reportclient.errors import AuthenticationFailed, TooNew, TooOld, Unreachable
from reportclient.microversion import parse_microversion
from reportclient.replies import answer, first_error, shown
from reportclient.schedule import UPGRADES_SEEN_WITHIN, doubled
from reportclient.transport import LIMIT, Refused, Transport, is_unanswered, is_unsent

NEWEST = "1.39"
"""The newest microversion that this client uses."""
OLDEST = "1.30"
"""The oldest microversion that this client works with."""
TIMEOUT = 300.0
"""Seconds to wait for an answer if no timeout is set: as a busy server carries
out what it has accepted, a request that is given up and sent again adds to its load."""
LONGEST_WAIT = 600.0
"""Seconds up to which the wait doubles while no answer comes in time."""

_AT_ONCE = contextlib.nullcontext()
"""Replaces keystoneauth's rate limit, which uses the wall clock: after that was set back, each
request slept for as long as the clock had been ahead."""

_ERRNO = re.compile(r"(?:\[Errno -?\d+\] |Error\(\d+, ')([^'\")\]]+)")
_POOL = re.compile(r": \w*Pool\(")
"""Where urllib3's error texts begin to describe its connection pool."""


class API(Protocol):
    """The interface to Placement that this package uses.

    :class:`PlacementAPI` implements it, and ``reportclient.testing.fake_placement`` for tests.
    """

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """Send a request and return the JSON object of the answer (``{}`` if it is empty).

        :param path: the path below the endpoint, with the query.
        :param json: the body, as JSON values.
        :param needs: the oldest microversion that supports the request.
        :raises reportclient.errors.PlacementError: a subclass that tells the kind of failure.
        """


class PlacementAPI:
    """Placement over HTTP.

    :param adapter: a keystoneauth adapter, such as openstacksdk's ``Connection.placement``.
    :param on_answer: called after each HTTP answer, of any status.
    :param max_version: the newest microversion to use, such as ``"1.36"``.
    """

    def __init__(
        self,
        adapter: ksa_adapter.Adapter,
        *,
        on_answer: Callable[[], None] | None = None,
        max_version: str | None = None,
    ) -> None:
        self.adapter = adapter
        self._on_answer = on_answer
        self._newest = min(max_version or NEWEST, NEWEST, key=parse_microversion)
        self._version = self._newest
        self._newest_again = 0.0
        self._headers: dict[str, str] = {}
        self._in_vain = 0
        """Number of requests in a row without an answer in time."""

    def tagged(self, request_id: str | None) -> "PlacementAPI":
        """Return a copy that sends a global request id (``req-`` and a UUID) with each request."""
        headers = {"X-Openstack-Request-Id": request_id} if request_id else {}
        other = copy.copy(self)
        vars(other).update(_headers=headers)
        return other

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`API`.  With an older Placement, its newest microversion is used."""
        if self._version != self._newest and time.monotonic() > self._newest_again:
            self._version = self._newest
        self._refuse_too_old(f"{method} {path}", needs)
        response = self._send(method, path, json)
        if response.status_code == 406 and self._settle_for_less(response):
            self._refuse_too_old(f"{method} {path}", needs)
            response = self._send(method, path, json)
        if response.status_code == 406:
            self._refuse_too_new(f"{method} {shown(path)}", response)
        return answer(method, path, response)

    def _send(self, method: str, path: str, json: Any) -> Any:
        more = {}
        if self._in_vain and (wait := self.adapter.session.timeout):
            more["timeout"] = max(wait, doubled(wait, self._in_vain, LONGEST_WAIT))
        try:
            response = self.adapter.request(
                path,
                method,
                json=json,
                headers=dict(self._headers),  # keystoneauth adds its own to them
                raise_exc=False,
                redirect=False,
                microversion=self._version,
                log=False,
                rate_semaphore=_AT_ONCE,
                **more,
            )
        except (ksa.Unauthorized, ksa.AuthPluginException, ksa.MissingAuthMethods) as err:
            raise AuthenticationFailed(f"Keystone refused the credentials: {err}") from err
        except (ksa.ClientException, ksa.RetriableConnectionFailure, OSError) as err:
            why = _reason(err).replace(path, "") if len(path) > 1 else _reason(err)
            self._in_vain += is_unanswered(err)
            text = f"no answer to {method} {shown(path)}: {why}"
            raise Unreachable(text, unsent=is_unsent(err)) from err
        except Exception as err:
            if type(err) is not Exception:  # which plugins raise for options that are not set
                raise
            raise AuthenticationFailed(f"the auth plugin can't authenticate: {err}") from err
        self._in_vain = 0
        if self._on_answer is not None:
            self._on_answer()
        return response

    def _settle_for_less(self, response: Any) -> bool:
        newest = _version(response, "max_version")
        if newest is None or parse_microversion(newest) >= parse_microversion(self._version):
            return False
        self._version = newest
        self._newest_again = time.monotonic() + UPGRADES_SEEN_WITHIN
        return True

    def _refuse_too_new(self, what: str, response: Any) -> None:
        oldest = _version(response, "min_version")
        if oldest is not None and parse_microversion(oldest) > parse_microversion(self._version):
            text = f"{what}: Placement supports microversion {oldest} and later only"
            raise TooNew(f"{text}, this client up to {self._version}")

    def _refuse_too_old(self, what: str, needs: str | None) -> None:
        least = max(needs or OLDEST, OLDEST, key=parse_microversion)
        if parse_microversion(self._version) < parse_microversion(least):
            text = f"{what} needs microversion {least}; Placement has {self._version}"
            raise TooOld(text, newest=self._version)


def _version(response: Any, key: str) -> str | None:
    """Return the microversion that a 406 names under ``key``, if Placement sent it."""
    version: Any = first_error(response).get(key)
    with contextlib.suppress(TypeError, ValueError):
        parse_microversion(version)
        return str(version)
    return None


def as_api(adapter: Any) -> API:
    """Return a :class:`PlacementAPI` over a keystoneauth adapter; any other object unchanged."""
    if isinstance(adapter, ksa_adapter.Adapter):
        return PlacementAPI(adapter)
    api: API = adapter
    return api


def _reason(err: Exception) -> str:
    """Return an error's cause without libraries' names: the address and the system's message."""
    if isinstance(err, ksa.UnknownConnectionError) and isinstance(err.original, Refused):
        return str(err.original)
    if isinstance(err, ksa.CatalogException):
        return f"{err} See endpoint_override, region_name and valid_interfaces."
    text, *rest = _POOL.split(str(err), maxsplit=1)
    inner = rest[0] if rest else ""
    text, _, cut = text.partition(": (")
    cause = _ERRNO.search(inner or cut)
    return f"{text}: {cause[1]}" if cause else text + (cut and f": ({cut}")


def token_adapter(url: str, token: str) -> ksa_adapter.Adapter:
    """Return an adapter for a Placement at ``url`` with a fixed ``token``, without Keystone."""
    auth = token_endpoint.Token(url, token)
    return ksa_adapter.Adapter(
        bounded_session(session.Session(auth, timeout=TIMEOUT)), service_type="placement"
    )


def bounded_session(unbounded: session.Session, limit: int = LIMIT) -> session.Session:
    """Bound each request of a keystoneauth session in time and size, and return the session.

    This includes requests to Keystone.  ``limit`` is the maximum size of an answer in bytes; the
    time is twice the session's timeout.  A request beyond these bounds raises
    :class:`reportclient.errors.Unreachable` in :class:`PlacementAPI`.
    """
    for scheme in ("http://", "https://"):
        unbounded.session.mount(scheme, Transport(limit))
    return unbounded
