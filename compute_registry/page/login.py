"""Authentication of browsers: HTTP Basic with an application credential of Keystone.

A browser sends no X-Auth-Token.  It prompts its user for a name and a password, which here are the
id and the secret of an application credential.  So no user's password passes through this process,
and a credential can be limited to a role and revoked.  Keystone's token for the credential is then
checked like any other token.

Only the page accepts these credentials.  The page is read-only, so cross-site requests do no harm.
"""

import base64
import binascii
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any

from keystoneauth1 import exceptions as ksa
from keystoneauth1.identity import v3
from keystoneauth1.session import Session

from compute_registry.rest.application import Application, StartResponse
from compute_registry.rest.request import Environ

GROUP = "keystone_authtoken"
CACHED = 256
"""Application credentials whose tokens are cached; the oldest entry is dropped first."""
TOKEN = "HTTP_X_AUTH_TOKEN"  # noqa: S105  a header's name
SendPage = Callable[[StartResponse, HTTPStatus, str, list[tuple[str, str]]], Iterable[bytes]]
Credentials = tuple[str, str]
LogIn = Callable[[Credentials], Any]


@dataclass(slots=True)
class Login:
    """WSGI middleware in front of keystonemiddleware, for the page.

    ``log_in`` returns the keystoneauth plugin of an application credential.
    """

    application: Application
    log_in: LogIn
    session: Any
    error_page: SendPage
    plugins: OrderedDict[Credentials, Any] = field(default_factory=OrderedDict)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        if TOKEN in environ:  # sent by a program, or by a proxy that authenticates users
            return self.application(environ, start_response)
        if not _is_private(environ):
            text = (
                "this page is served over TLS only: put a TLS proxy in front of compute-registry "
                "and set [registry] trusted_proxy"
            )
            return self.error_page(start_response, HTTPStatus.FORBIDDEN, text, [])
        credentials = _credentials(environ)
        if credentials is None:
            text = "log in with the id and the secret of an application credential of Keystone"
            return self._challenge(start_response, text)
        try:
            return self._authenticate(credentials, environ, start_response)
        except (ksa.Unauthorized, ksa.NotFound, ksa.BadRequest):
            self.plugins.pop(credentials, None)
            text = "Keystone refused this application credential"
            return self._challenge(start_response, text)
        except (ksa.ClientException, OSError) as err:
            text = f"Keystone can't be reached: {type(err).__name__}"
            return self.error_page(start_response, HTTPStatus.SERVICE_UNAVAILABLE, text, [])

    def _authenticate(
        self, credentials: Credentials, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer with the cached token; if it is refused, once more with a new token."""
        plugin_before = self.plugins.get(credentials)
        plugin = plugin_before or self.log_in(credentials)
        answer = self._answer(plugin, environ)
        if plugin_before is not None and answer.status.startswith("401"):
            plugin.invalidate()
            answer = self._answer(plugin, environ)
        self.plugins[credentials] = plugin  # only valid ones: invented ones would fill the cache
        while len(self.plugins) > CACHED:
            self.plugins.popitem(last=False)
        start_response(answer.status, answer.headers)
        return answer.body

    def _answer(self, plugin: Any, environ: Environ) -> "_Answer":
        answer = _Answer()
        token = plugin.get_token(self.session)
        answer.body = list(self.application({**environ, TOKEN: token}, answer.start))
        return answer

    def _challenge(self, start_response: StartResponse, text: str) -> Iterable[bytes]:
        challenge = ("WWW-Authenticate", 'Basic realm="compute-registry", charset="UTF-8"')
        return self.error_page(start_response, HTTPStatus.UNAUTHORIZED, text, [challenge])


@dataclass(slots=True)
class _Answer:
    status: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: list[bytes] = field(default_factory=list)

    def start(self, status: str, headers: list[tuple[str, str]], *_: Any) -> None:
        self.status, self.headers = status, headers


def _credentials(environ: Environ) -> Credentials | None:
    """Return the id and the secret of HTTP Basic, or ``None``."""
    scheme, _, coded = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, secret = base64.b64decode(coded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, secret) if name and colon else None


def _is_private(environ: Environ) -> bool:
    """Return whether the connection is TLS or from this machine."""
    if environ.get("wsgi.url_scheme") == "https":
        return True
    try:
        return ip_address(environ.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def keystone_login(application: Application, conf: Any, error_page: SendPage) -> Login:
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

    return Login(application, log_in, session, error_page)
