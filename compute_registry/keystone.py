"""Authentication by Keystone: tokens of programs, application credentials of browsers.

A browser sends no X-Auth-Token.  It prompts its user for a name and a password, which here are the
id and the secret of an application credential.  So no user's password passes through this process,
and a credential can be limited to a role and revoked.  Keystone's token for the credential is then
checked like any other token.

Only the page accepts these credentials.  The page is read-only, so cross-site requests do no harm.
"""

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, TypeVar
from wsgiref.types import StartResponse, WSGIApplication

from keystoneauth1 import exceptions as ksa
from keystoneauth1.identity import v3
from keystoneauth1.session import Session
from keystonemiddleware import auth_token
from keystonemiddleware import opts as keystone_opts
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Forbidden, HTTPException, ServiceUnavailable, Unauthorized
from werkzeug.wrappers import Request, Response

from agent.loop import in_thread

LOG = logging.getLogger(__name__)
GROUP = "keystone_authtoken"
TOKEN = "HTTP_X_AUTH_TOKEN"  # noqa: S105  a header's name
WITHIN = 10
"""Seconds; the default of ``[keystone_authtoken] http_connect_timeout``."""
AT_ONCE, OF_ONE = 8, 6
"""Calls to Keystone at the same time: of all clients, and of one."""
WAITING, OF_ONE_WAITING = 44, 33
"""Requests that wait for a turn, of all clients and of one; the server has threads besides."""
LATER = "try again in a moment"
BAD_FOR = 30.0
"""Seconds for which a token that Keystone refused is refused without another call."""
MOST_BAD = 10_000
"""Refused tokens that are remembered; the oldest entry is dropped first."""
CACHED = 256
"""Application credentials whose tokens are cached; the least recently used is dropped first."""
T = TypeVar("T")
Refuse = Callable[[dict[str, Any], HTTPException], WSGIApplication]
"""Returns the answer to a request that is refused."""


@dataclass(slots=True)
class KeystoneCalls:
    """Calls to Keystone, each in a thread: ``AT_ONCE`` at the same time, others wait in turn.

    One client has at most ``OF_ONE`` turns, and its share of the places to wait, so that nobody
    keeps others out.  A request waits for a limited time.  The call itself goes on until its own
    timeouts end it; as many as hang are not started anew.
    """

    within: float
    """Seconds that a request waits; half of it for its turn."""
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _running: Counter[str] = field(default_factory=Counter)
    """The number of calls by client."""
    _waiting: Counter[str] = field(default_factory=Counter)
    """The number of requests that wait for a turn by client."""

    def __call__(self, call: Callable[[], T], client: str) -> T:
        """Return the result of a call; ``client`` is an address.

        :raises TimeoutError: it took too long, or too many earlier calls go on.
        """
        until = time.monotonic() + self.within
        self._take_turn(client)
        try:
            job = in_thread(call, "call to Keystone")
        except RuntimeError:  # no thread can be started
            self._end_turn(client)
            raise
        job.add_done_callback(lambda _: self._end_turn(client))
        try:
            return job.result(max(0.0, until - time.monotonic()))
        except TimeoutError as err:
            text = f"Keystone did not answer within {self.within:g} s: {LATER}"
            raise TimeoutError(text) from err

    def _take_turn(self, client: str) -> None:
        patience = self.within / 2
        with self._changed:
            if self._waiting.total() >= WAITING or self._waiting[client] >= OF_ONE_WAITING:
                raise TimeoutError(f"too many requests wait for Keystone: {LATER}")
            self._waiting[client] += 1
            free = self._changed.wait_for(lambda: self._has_turn(client), patience)
            self._waiting[client] -= 1
            if not free:
                raise TimeoutError(f"Keystone was busy for {patience:g} s: {LATER}")
            self._running[client] += 1

    def _has_turn(self, client: str) -> bool:
        return self._running[client] < OF_ONE and self._running.total() < AT_ONCE

    def _end_turn(self, client: str) -> None:
        with self._changed:
            self._running[client] -= 1
            self._running, self._waiting = +self._running, +self._waiting  # without the zeros
            self._changed.notify_all()


class TokenChecks(auth_token.AuthProtocol):  # type: ignore[misc]
    """keystonemiddleware, with the options [keystone_authtoken].

    A token that is not in its cache is checked within ``http_connect_timeout`` in all; tokens in
    the cache wait for no others, and those that were just refused are refused again.
    """

    def __init__(self, application: WSGIApplication, conf: Any, refuse: Refuse) -> None:
        for group, options in keystone_opts.list_auth_token_opts():
            conf.register_opts(options, group)
        conf.set_default("http_connect_timeout", WITHIN, GROUP)
        group = conf[GROUP]
        self.refuse, self.calls = refuse, KeystoneCalls(group.http_connect_timeout)
        self._thread = threading.local()
        self._bad: OrderedDict[bytes, float] = OrderedDict()
        super().__init__(application, {"oslo_config_config": conf, "log_name": __name__})

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        self._thread.client = environ.get("REMOTE_ADDR", "")
        try:
            answer: Iterable[bytes] = super().__call__(environ, start_response)
        except HTTPException as err:
            return self.refuse(environ, err)(environ, start_response)
        return answer

    @property
    def session(self) -> Session:
        """The session for calls to Keystone, with the options of TLS and time-outs."""
        session: Session = self._session
        return session

    def _create_identity_server(self) -> Any:
        server = super()._create_identity_server()
        bounded = copy(server)  # the server calls its own method again after an error
        bounded.verify_token = partial(self._verify, server.verify_token)
        return bounded

    def _verify(self, verify: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Return what Keystone says about a token.

        :raises InvalidToken: it is not valid, or was not a moment ago.
        :raises ServiceUnavailable: nothing, or nothing in time.
        """
        checked = sha256(repr((args, more)).encode()).digest()
        if time.monotonic() < self._bad.get(checked, 0.0):
            raise auth_token.InvalidToken("Keystone refused it")
        try:
            return self.calls(partial(verify, *args, **more), self._thread.client)
        except auth_token.InvalidToken:
            self._bad[checked] = time.monotonic() + BAD_FOR
            while len(self._bad) > MOST_BAD:
                self._bad.popitem(last=False)
            raise
        except Exception as err:
            LOG.warning("A token can't be checked, see [keystone_authtoken]: %s", err)
            raise unreachable(err) from err


class Login:
    """WSGI middleware in front of keystonemiddleware, for the page.

    ``log_in`` returns the keystoneauth plugin of an application credential.
    """

    def __init__(self, checks: TokenChecks, log_in: Callable[[str, str], Any]) -> None:
        self.checks, self.log_in = checks, lru_cache(CACHED)(log_in)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        answer: WSGIApplication = self.checks
        if TOKEN not in environ:  # else sent by a program, or by a proxy that authenticates users
            try:
                answer = self._authenticate(Request(environ))
            except HTTPException as err:
                answer = self.checks.refuse(environ, err)
        return answer(environ, start_response)

    def _authenticate(self, request: Request) -> Response:
        """Return the answer to the request with a token for its credentials.

        :raises HTTPException: there are none, or there is no token for them.
        """
        if not _is_private(request.environ):
            raise Forbidden(
                "this page is served over TLS only: put a TLS proxy in front of compute-registry "
                "and set [registry] trusted_proxy"
            )
        given = request.authorization
        if given is None or not given.username or not given.password:
            raise _challenge(
                "log in with the id and the secret of an application credential of Keystone"
            )
        plugin = self.log_in(given.username, given.password)
        answer = self._answer(request, plugin)
        if answer.status_code == Unauthorized.code and plugin.invalidate():
            answer = self._answer(request, plugin)  # its token was revoked: with a new one
        return answer

    def _answer(self, request: Request, plugin: Any) -> Response:
        get_token = partial(plugin.get_token, self.checks.session)
        try:
            if plugin.get_auth_state() is None:
                token = self.checks.calls(get_token, request.remote_addr or "")
            else:  # it has a token, most times, and waits for no other client
                token = get_token()
        except (ksa.Unauthorized, ksa.NotFound, ksa.BadRequest) as err:
            plugin.invalidate()
            raise _challenge("Keystone refused this application credential") from err
        except (ksa.ClientException, OSError) as err:
            raise unreachable(err) from err
        return Response.from_app(self.checks, {**request.environ, TOKEN: token}, buffered=True)


def unreachable(err: Exception) -> ServiceUnavailable:
    """Return the answer where Keystone did not answer; only our own texts are for every client."""
    why = str(err) if isinstance(err, TimeoutError) else type(err).__name__
    return ServiceUnavailable(f"Keystone can't be reached: {why}")


def _challenge(text: str) -> Unauthorized:
    parameters = 'realm="compute-registry", charset="UTF-8"'  # quoted, as RFC 7617 has it
    challenge = WWWAuthenticate("basic", None, parameters)
    return Unauthorized(text, www_authenticate=challenge)


def _is_private(environ: dict[str, Any]) -> bool:
    """Return whether the connection is TLS or from this machine."""
    if environ.get("wsgi.url_scheme") == "https":
        return True
    try:
        return ip_address(environ.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def keystone_login(checks: TokenChecks, conf: Any) -> Login:
    """Return the login with the Keystone of ``checks``, in front of it."""
    url = conf[GROUP].auth_url or conf[GROUP].www_authenticate_uri

    def log_in(id_: str, secret: str) -> Any:
        return v3.ApplicationCredential(
            url, application_credential_id=id_, application_credential_secret=secret
        )

    return Login(checks, log_in)
