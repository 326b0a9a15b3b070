"""Bounds of a request below keystoneauth: its time, its size, and where its secrets go.

The only module that uses requests and urllib3.  Their ``timeout`` limits silence only: a
server that sends a byte a second would hold its client for ever, with an endless answer.
Here an answer, headers included, has to be complete after ``LONGEST`` times that timeout, and
may have ``limit`` bytes after decompression.  A request with a token or a body (Keystone's has
the password) never follows a redirect.
"""

import io
import socket
import ssl
import time
import zlib
from typing import Any
from urllib.parse import urlsplit

from keystoneauth1 import session
from requests import PreparedRequest, RequestException, Response
from requests.exceptions import ConnectTimeout, ReadTimeout, SSLError
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, NewConnectionError

LIMIT = 16 * 2**20
"""Default maximum size of an answer in bytes, enough for a tree of 20,000 providers.  At the worst,
if it consists of empty lists, the parsed answer takes 420 MiB of memory.
"""
LONGEST = 2
"""Number of timeouts after which an answer has to be complete."""
SILENCE = 30.0
"""Timeout in seconds if none is set."""
CONNECT = 10.0
"""Longest seconds to wait for a connection: nothing is lost by a new try."""

GONE = 60_000
"""Milliseconds after which a peer that confirms no packet counts as gone (``TCP_USER_TIMEOUT``)."""

_ANY_TIME = ssl.VerifyFlags(0x200000)
"""X509_V_FLAG_NO_CHECK_TIME, to read the dates of a certificate that is not valid now."""
_OTHER_TIMES = (9, 10)
"""X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED."""
_READ_DATES_WITHIN = 5.0
"""Seconds for the connection that reads a certificate's dates."""
_GUNZIP = 47
"""zlib's window bits: 32 to detect gzip or zlib by the header, plus 15, the largest window."""
_SECRETS = ("X-Auth-Token", "X-Subject-Token", "Authorization")


class Refused(RequestException):
    """An answer that is not accepted; the text says why."""


class Transport(session.TCPKeepAliveAdapter):
    """An HTTP adapter for requests' sessions; ``limit`` is the size of an answer in bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """See requests."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        """See requests."""
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        """See requests.

        :raises Refused: the answer redirects a request with secrets, is too large or too slow,
            or the server's certificate is not accepted.
        """
        request.headers["Accept-Encoding"] = "gzip"
        if isinstance(wait := options.get("timeout"), int | float):
            options["timeout"] = (min(wait, CONNECT), wait)
        try:
            response: Response = super().send(request, *args, **{**options, "stream": True})
        except SSLError as err:
            why = getattr(getattr(err.args[0], "reason", None), "args", (None,))[0]
            if not isinstance(why, ssl.SSLCertVerificationError):
                raise
            raise Refused(_not_accepted(str(request.url), options.get("verify"), why)) from err
        _refuse_redirect(request, response)
        try:
            content = _whole(response.raw, self._limit)
        except (HTTPError, OSError, zlib.error) as err:
            response.close()
            raise Refused(f"the connection broke during the answer: {err}") from err
        except Refused:
            response.close()
            raise
        response.raw.release_conn()
        response.raw = io.BytesIO(content)
        return response


def is_unsent(err: Exception) -> bool:
    """Return whether keystoneauth raised ``err`` because there was no connection."""
    cause = err.__context__
    reason = getattr(cause.args[0], "reason", None) if cause and cause.args else None
    return isinstance(cause, ConnectTimeout) or isinstance(reason, NewConnectionError)


def is_unanswered(err: Exception) -> bool:
    """Return whether keystoneauth raised ``err`` because no answer came in time."""
    return isinstance(err.__context__, ReadTimeout)


def _not_accepted(url: str, verify: object, err: ssl.SSLCertVerificationError) -> str:
    """Return why a certificate is not accepted: its owner, the reason, its dates."""
    parts = urlsplit(url)
    address = str(parts.hostname), parts.port or 443
    of = f"the certificate of {address[0]}:{address[1]}"
    dates = _dates(address, verify) if err.verify_code in _OTHER_TIMES else None
    return f"{of} {dates or f'is not accepted: {err.verify_message}'}"


def _dates(address: tuple[str, int], verify: object) -> str | None:
    """Return a certificate's dates as text; ``None`` if it can't be read, as behind a proxy."""
    bundle = verify if isinstance(verify, str) else DEFAULT_CA_BUNDLE_PATH
    try:
        context = ssl.create_default_context(cafile=bundle)
        context.check_hostname, context.verify_flags = False, context.verify_flags | _ANY_TIME
        with (
            socket.create_connection(address, _READ_DATES_WITHIN) as plain,
            context.wrap_socket(plain, server_hostname=address[0]) as secure,
        ):
            certificate: dict[str, Any] = secure.getpeercert() or {}
        begin, end = (
            ssl.cert_time_to_seconds(certificate[key]) for key in ("notBefore", "notAfter")
        )
    except (OSError, ValueError, LookupError):
        return None
    subject = ", ".join(f"{key}={value}" for part in certificate["subject"] for key, value in part)
    if time.time() > end:
        return f"({subject}) expired on {certificate['notAfter']}: renew it on that server"
    if time.time() < begin:
        return f"({subject}) is valid from {certificate['notBefore']} on: check this host's clock"
    return None


def _refuse_redirect(request: PreparedRequest, response: Response) -> None:
    secret = request.body or any(name in request.headers for name in _SECRETS)
    if secret and response.is_redirect:
        response.close()
        here, target = (urlsplit(url) for url in (str(request.url), response.headers["location"]))
        raise Refused(
            f"{here.scheme}://{here.netloc} redirects to {target.scheme}://{target.netloc}"
            f"{target.path}; requests with credentials follow no redirect: if the new "
            "address is right, configure it"
        )


def _whole(raw: Any, limit: int) -> bytes:
    content: bytes = raw.read(limit + 1, decode_content=False)
    if raw.headers.get("content-encoding") == "gzip":
        content = zlib.decompressobj(_GUNZIP).decompress(content, limit + 1)
    if len(content) > limit:
        raise Refused(f"the answer is larger than {limit / 2**20:g} MiB")
    return content


class _Reads(io.RawIOBase):
    """A socket's input stream with a deadline."""

    def __init__(self, sock: Any, deadline: float, silence: float) -> None:
        self._sock, self._deadline, self._silence = sock, deadline, silence
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer was not complete in time")
        self._sock.settimeout(min(left, self._silence))
        received: int | None = self._raw.readinto(buffer)
        return received

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Socket:
    """A socket whose answers have a deadline."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._deadline = self._silence = SILENCE

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def begin(self, silence: float | None) -> None:
        """Start the deadline of a request's answer; ``silence`` is the timeout in seconds."""
        self._silence = silence or SILENCE
        self._deadline = time.monotonic() + LONGEST * self._silence

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_Reads(self._sock, self._deadline, self._silence))


class _Bounded:
    """A mixin for urllib3's connections, which set a timeout for each request."""

    sock: Any
    timeout: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GONE)
        self.sock = _Socket(self.sock)

    def getresponse(self) -> Any:
        self.sock.begin(self.timeout)
        return super().getresponse()  # type: ignore[misc]


class _Connection(_Bounded, HTTPConnection):
    pass


class _TLSConnection(_Bounded, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


_POOLS = {"http": _Pool, "https": _TLSPool}
