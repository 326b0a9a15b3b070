"""Requests to Placement over keystoneauth: the answer's JSON, or a typed error.

keystoneauth retries connections; any other failure raises, and the caller decides.  Bounds of
time and size are in ``transport``.
"""

import contextlib
import copy
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import session, token_endpoint

from reportclient.errors import (
    AuthenticationFailed,
    PlacementError,
    ServerFault,
    TooNew,
    TooOld,
    Unreachable,
)
from reportclient.microversion import parse_microversion
from reportclient.replies import answer, first_error, shown
from reportclient.schedule import UPGRADES_SEEN_WITHIN, doubled
from reportclient.transport import LIMIT, Refused, Transport, is_unanswered, is_unsent

OLDEST = "1.30"
"""The oldest microversion that this client works with, and the one of a request that needs no newer
one: from 1.38 on, Placement shows a type of each consumer that it often refuses to take back."""
TIMEOUT = 60.0
"""Seconds to wait for an answer if the session has no timeout."""

_AT_ONCE = contextlib.nullcontext()
"""Replaces keystoneauth's rate limit, which uses the wall clock: after that was set back, each
request slept for as long as the clock had been ahead."""

_ERRNO = re.compile(r"(?:\[Errno -?\d+\] |Error\(\d+, '|OSError\(')([^'\")\]]+)")
_POOL = re.compile(r": \w*Pool\(")
"""Pattern at which urllib3's error texts begin to describe its connection pool."""
_PROXY = re.compile(r"ProxyError\((?:.*\(host='([^']*)')?")


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
        :param needs: the oldest microversion that supports the request, which is sent with it.
        :raises reportclient.errors.PlacementError: a subclass that tells the kind of failure.
        """


@dataclass(slots=True)
class _Learned:
    """Facts learned from answers, shared by an API and its tagged copies."""

    newest: str = ""
    """The newest microversion of a Placement that was too old for a request; otherwise empty."""
    asks_again: float = 0.0
    """When ``newest`` is forgotten, in the seconds of a monotonic clock."""
    in_vain: int = 0
    """Number of requests in a row without an answer in time."""
    unreached: int = 0
    """Number of requests in a row without an answer of Placement."""
    outdated: bool = False
    """Whether the next request takes a new token, as the catalog may have a new endpoint."""

    def note(self, err: PlacementError | None) -> None:
        """Note how a request ended: a catalog without Placement, or requests 2, 4, 8, … in vain."""
        if not isinstance(err, Unreachable) or isinstance(err, ServerFault):
            self.unreached = 0
            return
        self.unreached += 1
        doubled_again = self.unreached > 1 and self.unreached.bit_count() == 1
        self.outdated |= doubled_again or isinstance(err.__cause__, ksa.CatalogException)


class PlacementAPI:
    """Placement over HTTP.

    :param adapter: a keystoneauth adapter, such as openstacksdk's ``Connection.placement``.
    :param on_answer: called after each HTTP answer, of any status.
    :param longest_wait: seconds up to which the wait doubles while no answer comes in time; 0:
        every request waits equally long.
    """

    def __init__(
        self,
        adapter: ksa_adapter.Adapter,
        *,
        on_answer: Callable[[], None] | None = None,
        longest_wait: float = 0.0,
    ) -> None:
        self.adapter = adapter
        self._on_answer = on_answer
        self._longest_wait = longest_wait
        self._learned = _Learned()
        self._headers: dict[str, str] = {}

    def tagged(self, request_id: str | None) -> "PlacementAPI":
        """Return a copy that sends a global request id (``req-`` and a UUID) with each request."""
        headers = {"X-Openstack-Request-Id": request_id} if request_id else {}
        other = copy.copy(self)
        vars(other).update(_headers=headers)
        return other

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`API`."""
        what = f"{method} {shown(path)}"
        version = version_for(needs)
        if self._learned.newest and time.monotonic() < self._learned.asks_again:
            self._refuse_too_old(what, version)
        try:
            response = self._send(method, path, json, version)
            if response.status_code == 406:
                self._refuse_version(what, version, response)
            reply = answer(method, path, response)
        except PlacementError as err:
            self._learned.note(err)
            raise
        self._learned.note(None)
        return reply

    def _send(self, method: str, path: str, json: Any, version: str) -> Any:
        timeout = self.adapter.session.timeout or TIMEOUT
        wait = max(timeout, doubled(timeout, self._learned.in_vain, self._longest_wait))
        try:
            with self._new_token() if self._learned.outdated else contextlib.nullcontext():
                response = self.adapter.request(
                    path,
                    method,
                    json=json,
                    headers=dict(self._headers),  # keystoneauth adds its own to them
                    raise_exc=False,
                    redirect=False,
                    microversion=version,
                    log=False,
                    rate_semaphore=_AT_ONCE,
                    timeout=wait,
                )
        except (ksa.Unauthorized, ksa.AuthPluginException, ksa.MissingAuthMethods) as err:
            raise AuthenticationFailed(f"Keystone refused the credentials: {err}") from err
        except (ksa.ClientException, ksa.RetriableConnectionFailure, OSError) as err:
            why = _reason(err).replace(path, "") if len(path) > 1 else _reason(err)
            text = f"no answer to {method} {shown(path)}: {why}"
            if is_unanswered(err):
                self._learned.in_vain += 1
                text += f"; if the server is only slow, raise timeout ({timeout:g} s)"
            raise Unreachable(text, unsent=is_unsent(err)) from err
        except Exception as err:
            if type(err) is not Exception:  # which plugins raise for options that are not set
                raise
            raise AuthenticationFailed(f"the auth plugin can't authenticate: {err}") from err
        self._learned.in_vain = 0
        if self._on_answer is not None:
            self._on_answer()
        return response

    @contextlib.contextmanager
    def _new_token(self) -> Iterator[None]:
        """Let keystoneauth take a new token and catalog; it keeps both until the token ends.

        The present token stays if Keystone gives no other one.
        """
        self._learned.outdated = False
        auth: Any = self.adapter.auth or self.adapter.session.auth
        by_catalog = self.adapter.endpoint_override is None
        present = getattr(auth, "auth_ref", None) if by_catalog else None
        if present is not None:
            auth.invalidate()
        try:
            yield
        finally:
            if present is not None and auth.auth_ref is None:
                auth.auth_ref = present

    def _refuse_version(self, what: str, version: str, response: Any) -> None:
        """Raise the error of a 406, unless it is not Placement's."""
        oldest, newest = (_version(response, key) for key in ("min_version", "max_version"))
        if oldest is not None and parse_microversion(oldest) > parse_microversion(version):
            text = f"{what}: Placement supports microversion {oldest} and later only"
            raise TooNew(f"{text}, this client needs {version}")
        if newest is not None:
            self._learned.newest = newest
            self._learned.asks_again = time.monotonic() + UPGRADES_SEEN_WITHIN
            self._refuse_too_old(what, version)

    def _refuse_too_old(self, what: str, version: str) -> None:
        newest = self._learned.newest
        if parse_microversion(newest) < parse_microversion(version):
            raise TooOld(
                f"{what} needs microversion {version}; Placement has {newest}", newest=newest
            )


def version_for(needs: str | None) -> str:
    """Return the microversion with which a request that ``needs`` this one is sent."""
    return max(needs or OLDEST, OLDEST, key=parse_microversion)


def _version(response: Any, key: str) -> str | None:
    """Return the microversion that a 406 names under ``key``, if Placement sent it."""
    version: Any = first_error(response).get(key)
    with contextlib.suppress(TypeError, ValueError):
        parse_microversion(version)
        return str(version)
    return None


def as_api(adapter: Any) -> API:
    """Return a :class:`PlacementAPI` over a keystoneauth adapter; any other object unchanged."""
    return PlacementAPI(adapter) if isinstance(adapter, ksa_adapter.Adapter) else adapter


def _reason(err: Exception) -> str:
    """Return an error's cause without libraries' names: the address and the system's message."""
    if isinstance(err, ksa.UnknownConnectionError) and isinstance(err.original, Refused):
        return str(err.original)
    if isinstance(err, ksa.CatalogException):
        return f"{err} See endpoint_override, region_name and valid_interfaces."
    text, inner, *_ = [*_POOL.split(str(err), maxsplit=1), ""]
    text, _, cut = text.partition(": (")
    cause = _ERRNO.search(inner or cut)
    if (proxy := _PROXY.search(inner)) is not None:
        words = text, "through the proxy", proxy[1], "(see http_proxy, https_proxy, no_proxy)"
        text = " ".join(filter(None, words))
    return f"{text}: {cause[1]}" if cause else text + (cut and f": ({cut}")


def token_adapter(url: str, token: str) -> ksa_adapter.Adapter:
    """Return an adapter for a Placement at ``url`` with a fixed ``token``, without Keystone."""
    auth = token_endpoint.Token(url, token)
    return ksa_adapter.Adapter(bounded_session(session.Session(auth)), service_type="placement")


def bounded_session(unbounded: session.Session, limit: int = LIMIT) -> session.Session:
    """Bound each request of a keystoneauth session in time and size, and return the session.

    This includes requests to Keystone.  ``limit`` is the maximum size of an answer in bytes; the
    time is twice the session's timeout, which becomes ``TIMEOUT`` if it has none.  A request beyond
    these bounds raises :class:`reportclient.errors.Unreachable` in :class:`PlacementAPI`.
    """
    unbounded.timeout = unbounded.timeout or TIMEOUT
    for scheme in ("http://", "https://"):
        unbounded.session.mount(scheme, Transport(limit))
    return unbounded
