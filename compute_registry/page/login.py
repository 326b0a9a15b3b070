"""Authentication of browsers: HTTP Basic with an application credential of Keystone.

A browser sends no X-Auth-Token.  It prompts its user for a name and a password, which here are the
id and the secret of an application credential.  So no user's password passes through this process,
and a credential can be limited to a role and revoked.  Keystone's token for the credential is then
checked like any other token.

Only the page accepts these credentials.  The page is read-only, so cross-site requests do no harm.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from keystoneauth1 import exceptions as ksa
from keystoneauth1.identity import v3
from keystoneauth1.session import Session
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Forbidden, HTTPException, ServiceUnavailable, Unauthorized
from werkzeug.wrappers import Request, Response

from compute_registry.bounded import Bounded

GROUP = "keystone_authtoken"
CACHED = 256
"""Application credentials whose tokens are cached; the oldest entry is dropped first."""
TOKEN = "HTTP_X_AUTH_TOKEN"  # noqa: S105  a header's name
ErrorPage = Callable[[dict[str, Any], HTTPException], WSGIApplication]
Credentials = tuple[str, str]
LogIn = Callable[[Credentials], Any]


@dataclass(slots=True)
class Login:
    """WSGI middleware in front of keystonemiddleware, for the page.

    ``log_in`` returns the keystoneauth plugin of an application credential.
    """

    application: WSGIApplication
    log_in: LogIn
    session: Any
    calls: Bounded
    error_page: ErrorPage
    plugins: OrderedDict[Credentials, Any] = field(default_factory=OrderedDict)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        answer = self.application
        if TOKEN not in environ:  # else sent by a program, or by a proxy that authenticates users
            try:
                answer = self._authenticate(Request(environ))
            except HTTPException as err:
                answer = self.error_page(environ, err)
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
        credentials = given.username, given.password
        try:
            return self._answer(credentials, request.environ)
        except (ksa.Unauthorized, ksa.NotFound, ksa.BadRequest) as err:
            self.plugins.pop(credentials, None)
            raise _challenge("Keystone refused this application credential") from err
        except (ksa.ClientException, OSError) as err:
            raise unreachable(err) from err

    def _answer(self, credentials: Credentials, environ: dict[str, Any]) -> Response:
        """Answer with the cached token; if it is refused, once more with a new token."""
        plugin_before = self.plugins.get(credentials)
        plugin = plugin_before or self.log_in(credentials)

        def answer() -> Response:
            log_in = partial(plugin.get_token, self.session)
            # What is known has a token, most times, and waits for no invented credentials.
            with_token = {**environ, TOKEN: log_in() if plugin_before else self.calls(log_in)}
            return Response.from_app(self.application, with_token, buffered=True)

        answered = answer()
        if plugin_before is not None and answered.status_code == 401:
            plugin.invalidate()
            answered = answer()
        self.plugins[credentials] = plugin  # only valid ones: invented ones would fill the cache
        while len(self.plugins) > CACHED:
            self.plugins.popitem(last=False)
        return answered


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


def keystone_login(
    application: WSGIApplication, conf: Any, calls: Bounded, error_page: ErrorPage
) -> Login:
    """Return the login with the Keystone of [keystone_authtoken], whose options are registered."""
    group = conf[GROUP]
    client = (group.certfile, group.keyfile) if group.certfile else None
    session = Session(
        verify=not group.insecure and (group.cafile or True),
        cert=client,
        timeout=group.http_connect_timeout,
    )
    url = group.auth_url or group.www_authenticate_uri

    def log_in(credentials: Credentials) -> Any:
        return v3.ApplicationCredential(
            url,
            application_credential_id=credentials[0],
            application_credential_secret=credentials[1],
        )

    return Login(application, log_in, session, calls, error_page)
