"""Requests to Placement over keystoneauth: the answer's JSON, or a typed error.

keystoneauth retries connections; any other failure raises, and the caller decides.  The only
module that uses requests and urllib3.  Their ``timeout`` limits silence only: a server that sends
a byte a second would hold its client for ever, with an endless answer.  Here an answer has to be
complete after ``LONGEST`` times that timeout, and may have ``limit`` bytes after decompression.  A
request with a token or a body (Keystone's has the password) never follows a redirect.
"""

import contextlib
import copy
import io
import re
import ssl
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import session, token_endpoint
from requests import PreparedRequest, RequestException, Response
from requests.exceptions import ConnectTimeout, ReadTimeout, SSLError
from urllib3.exceptions import HTTPError, NewConnectionError

from reportclient.errors import AuthenticationFailed, NoEndpoint, Unreachable
from reportclient.forms import parse_microversion, shown
from reportclient.replies import answer
from reportclient.schedule import doubled

OLDEST = "1.30"
"""The oldest microversion that this client works with, and the one of a request that needs no newer
one: from 1.38 on, Placement shows a type of each consumer that it often refuses to take back."""
TIMEOUT = 60.0
"""Seconds to wait for an answer if the session has no timeout."""
CONNECT = 10.0
"""Longest seconds to wait for a connection: nothing is lost by a new try."""
LONGEST = 2
"""Number of timeouts after which an answer has to be complete."""
LIMIT = 16 * 2**20
"""Default maximum size of an answer in bytes, enough for a tree of 20,000 providers.  At the worst,
if it consists of empty lists, the parsed answer takes 420 MiB of memory.
"""

_AT_ONCE = contextlib.nullcontext()
"""Replaces keystoneauth's rate limit, which uses the wall clock: after that was set back, each
request slept for as long as the clock had been ahead."""

_ERRNO = re.compile(r"(?:\[Errno -?\d+\] |Error\(\d+, '|OSError\(')([^'\")\]]+)")
_POOL = re.compile(r": \w*Pool\(")
"""Pattern at which urllib3's error texts begin to describe its connection pool."""
_PROXY = re.compile(r"ProxyError\((?:.*\(host='([^']*)')?")


_REFUSED_BY_KEYSTONE = (
    *(ksa.BadRequest, ksa.Unauthorized, ksa.Forbidden),
    *(ksa.AuthPluginException, ksa.MissingAuthMethods),
)
"""Errors before a request: an answer of Placement's raises none of them.  Keystone's 400 is a user,
a project or a domain that is not given."""


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
class _Timeouts:
    """Number of requests in a row without an answer in time; an API and its tagged copies share it.

    The wait for the next answer doubles with each.
    """

    count: int = 0


class PlacementAPI:
    """Placement over HTTP, which threads may share.

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
        self._timeouts = _Timeouts()
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
        version = version_for(needs)
        return answer(method, path, self._send(method, path, json, version), version)

    def _send(self, method: str, path: str, json: Any, version: str) -> Any:
        timeout = self.adapter.session.timeout or TIMEOUT
        wait = max(timeout, doubled(timeout, self._timeouts.count, self._longest_wait))
        try:
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
        except _REFUSED_BY_KEYSTONE as err:
            raise AuthenticationFailed(f"Keystone refused the credentials: {err}") from err
        except (ksa.ClientException, ksa.RetriableConnectionFailure, OSError) as err:
            if isinstance(err, ksa.CatalogException):
                self.adapter.invalidate()  # a new token brings a new catalog
                text = f"{method} {shown(path)} not sent: {err} See endpoint_override, region_name"
                raise NoEndpoint(f"{text} and valid_interfaces.", unsent=True) from err
            why = _reason(err).replace(path, "") if len(path) > 1 else _reason(err)
            text = f"no answer to {method} {shown(path)}: {why}"
            if isinstance(err.__context__, ReadTimeout):
                self._timeouts.count += 1
                text += f"; if the server is only slow, raise timeout ({timeout:g} s)"
            cause = err.__context__
            reason = getattr(cause.args[0], "reason", None) if cause and cause.args else None
            unsent = isinstance(cause, ConnectTimeout) or isinstance(reason, NewConnectionError)
            raise Unreachable(text, unsent=unsent) from err
        except Exception as err:
            if type(err) is not Exception:  # which plugins raise for options that are not set
                raise
            raise AuthenticationFailed(f"the auth plugin can't authenticate: {err}") from err
        self._timeouts.count = 0
        if self._on_answer is not None:
            self._on_answer()
        return response


def version_for(needs: str | None) -> str:
    """Return the microversion with which a request that ``needs`` this one is sent."""
    return max(needs or OLDEST, OLDEST, key=parse_microversion)


def as_api(adapter: Any) -> API:
    """Return a :class:`PlacementAPI` over a keystoneauth adapter; any other object unchanged."""
    return PlacementAPI(adapter) if isinstance(adapter, ksa_adapter.Adapter) else adapter


def _reason(err: Exception) -> str:
    """Return an error's cause without libraries' names: the address and the system's message."""
    if isinstance(err, ksa.UnknownConnectionError) and isinstance(err.original, Refused):
        return str(err.original)
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


class Refused(RequestException):
    """An answer that is not accepted; the text says why."""


class Transport(session.TCPKeepAliveAdapter):
    """An HTTP adapter for requests' sessions; ``limit`` is the size of an answer in bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        super().__init__()

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        """See requests.

        :raises Refused: the answer redirects a request with secrets, is too large or too slow,
            or the server's certificate is not accepted.
        """
        request.headers["Accept-Encoding"] = "gzip"
        wait = options.get("timeout") or TIMEOUT
        options |= {"timeout": (min(wait, CONNECT), wait), "stream": True}
        deadline = time.monotonic() + LONGEST * wait
        try:
            response: Response = super().send(request, *args, **options)
        except SSLError as err:
            why = getattr(getattr(err.args[0], "reason", None), "args", (None,))[0]
            if isinstance(why, ssl.SSLCertVerificationError):
                of = f"the certificate of {_peer(request)}"
                raise Refused(f"{of} is not accepted: {why.verify_message}") from err
            if getattr(why, "reason", "") != "WRONG_VERSION_NUMBER":
                raise
            raise Refused(f"{_peer(request)} does not speak TLS: is http:// meant?") from err
        except ReadTimeout as err:
            inner = err.__context__ and err.__context__.__context__
            if "handshake" not in str(inner):
                raise
            text = f"no TLS handshake with {_peer(request)} in {min(wait, CONNECT):g} s"
            raise Refused(f"{text}: is http:// meant, or is the server down?") from err
        try:
            _refuse_redirect(request, response)
            response.raw = io.BytesIO(_content(response.raw, self._limit, deadline))
        except Refused:
            response.close()
            raise
        except (HTTPError, zlib.error) as err:
            response.close()
            raise Refused(f"the connection broke during the answer: {err}") from err
        return response


def _peer(request: PreparedRequest) -> str:
    peer = urlsplit(str(request.url))
    return f"{peer.hostname}:{peer.port or 443}"


_SECRETS = ("X-Auth-Token", "X-Subject-Token", "Authorization")


def _refuse_redirect(request: PreparedRequest, response: Response) -> None:
    secret = request.body or any(name in request.headers for name in _SECRETS)
    if secret and response.is_redirect:
        here = urlsplit(str(request.url))
        try:
            target = urlsplit(urljoin(here.geturl(), response.headers["location"]))
        except ValueError as err:
            raise Refused(f"{here.scheme}://{here.netloc} redirects to no address: {err}") from None
        raise Refused(
            f"{here.scheme}://{here.netloc} redirects to {target.scheme}://{target.netloc}"
            f"{target.path}; requests with credentials follow no redirect: if the new "
            "address is right, configure it"
        )


_CHUNK = 2**16
_GUNZIP = 47
"""zlib's window bits: 32 to detect gzip or zlib by the header, plus 15, the largest window."""


def _content(raw: Any, limit: int, deadline: float) -> bytes:
    """Read an answer to its end, or to its bounds; ``raw`` is urllib3's response."""
    received, too_large = io.BytesIO(), Refused(f"the answer is larger than {limit / 2**20:g} MiB")
    while chunk := raw.read1(_CHUNK, decode_content=False):
        received.write(chunk)
        if received.tell() > limit:
            raise too_large
        if time.monotonic() > deadline:
            raise Refused("the answer was not complete in time")
    content = received.getvalue()
    if raw.headers.get("content-encoding") == "gzip":
        content = zlib.decompressobj(_GUNZIP).decompress(content, limit + 1)
    if len(content) > limit:
        raise too_large
    return content
