"""The Flask application of compute-registry: the API and the page, behind authentication."""

import logging
import re
from collections.abc import Callable, Iterable
from copy import copy
from functools import partial
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from flask import Flask, Response, current_app, request
from keystonemiddleware import audit, auth_token
from keystonemiddleware import opts as keystone_opts
from oslo_middleware.request_id import RequestId
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import (
    HTTPException,
    InternalServerError,
    MethodNotAllowed,
    NotFound,
    Unauthorized,
)
from werkzeug.routing import Map

from agent.placement import adapter_from_conf
from agent.registry.control import Control
from agent.registry.errors import RegistryError
from agent.registry.opts import RegistryConfigError, RegistrySettings
from agent.reporting.reports import with_agents_step
from compute_registry.bounded import Bounded
from compute_registry.page.blueprint import PATH, add_page, error_page, is_page
from compute_registry.page.login import GROUP, TOKEN, keystone_login, unreachable
from compute_registry.page.trees import PlacementReads
from compute_registry.rest.blueprint import add_api
from compute_registry.rest.errors import http_error, json_error
from compute_registry.rest.policy import Allowed, allow_all, allowed_by_policy
from compute_registry.rest.request import LONGEST_BODY, Request
from reportclient.errors import AuthenticationFailed
from reportclient.http import PlacementAPI
from reportclient.plain_text import plain

LOG = logging.getLogger(__name__)


class RequestIds(RequestId):
    """Gives each request an id, which the headers of its answer have."""

    compat_headers = ["X-Compute-Request-ID"]  # noqa: RUF012  a list in the base class


def application(control: Control, conf: Any, settings: RegistrySettings) -> Flask:
    """Return the API and the page behind ``[registry] auth_strategy``.

    :raises RegistryConfigError: policy, audit map or [placement] can't be used.
    """
    keystone = settings.auth_strategy == "keystone"
    allowed = allowed_by_policy(conf) if keystone else allow_all
    placement = _placement(conf) if settings.page else None
    app = registry_app(control, allowed, placement)
    flask_app: WSGIApplication = app.wsgi_app
    served = flask_app
    if conf.audit.enabled:
        served = split(is_page, flask_app, with_audit(flask_app, conf))
    if keystone:
        refuse = partial(refused, app)
        served = checks = TokenChecks(served, conf, refuse)
        if settings.page:
            login = keystone_login(served, conf, checks.calls, refuse)
            served = split(is_page, login, served)
        served = split(is_discovery, flask_app, served)
    app.wsgi_app = RequestIds(served)  # type: ignore[method-assign]
    return app


def registry_app(
    control: Control, allowed: Allowed = allow_all, placement: PlacementReads | None = None
) -> Flask:
    """Return the API, and the page unless ``placement`` is ``None``, without authentication."""
    app = Flask(__name__, static_folder=None)
    app.request_class = Request
    app.config |= {"MAX_CONTENT_LENGTH": LONGEST_BODY, "PROVIDE_AUTOMATIC_OPTIONS": False}
    app.url_map.strict_slashes = app.url_map.merge_slashes = False
    app.register_error_handler(Exception, _refused)
    add_api(app, control, allowed)
    if placement is not None:
        add_page(app, control, placement, allowed)
    return app


def split(
    belongs: Callable[[dict[str, Any]], bool], inner: WSGIApplication, outer: WSGIApplication
) -> WSGIApplication:
    """Return an application that passes requests that ``belongs`` accepts to ``inner``."""
    return lambda environ, start: (inner if belongs(environ) else outer)(environ, start)


def is_discovery(environ: dict[str, Any]) -> bool:
    """Whether a request is for the API's versions, which everyone may read."""
    return environ.get("PATH_INFO", "").rstrip("/") in ("", "/v2.1")


def _refused(err: Exception) -> Response:
    """Return the answer to a request that ended with an error."""
    if isinstance(err, RegistryError):
        err = http_error(err)
    elif not isinstance(err, HTTPException):
        LOG.error("%s %s", request.method, plain(request.path), exc_info=err)
        err = InternalServerError("unexpected error: see the log of compute-registry")
    elif err is request.routing_exception and isinstance(err, NotFound):
        err.description = f"{request.path!a} is not served; docs/registry.rst lists what is served"
    elif isinstance(err, MethodNotAllowed):
        err.description = f"{request.path!a} does not support the method {request.method}"
        if is_page(request.environ):
            err.description = "this page is read-only"
    return _error(err)


def refused(app: Flask, environ: dict[str, Any], err: HTTPException) -> Response:
    """Return the answer to a request that was refused before the application got it."""
    with app.request_context(environ):
        return _error(err)


def _error(err: HTTPException) -> Response:
    to_page = "page" in current_app.blueprints and is_page(request.environ)
    return error_page(err) if to_page else json_error(err)


def _placement(conf: Any) -> PlacementReads:
    """Return what reads trees; its client gets a token at its first request."""
    if not conf.placement.auth_type:
        return PlacementReads(None)
    try:
        adapter = adapter_from_conf(conf)
    except AuthenticationFailed as err:
        raise RegistryConfigError(with_agents_step(err)) from err
    return PlacementReads(PlacementAPI(adapter), lambda: str(adapter.get_endpoint() or ""))


def route_of(routes: Map, path: str) -> str | None:
    """Return the route of a request's path, a label of metrics; ``None`` for an unknown path."""
    try:
        rule, _ = routes.bind("").match(path, method="GET", return_rule=True)
    except HTTPException:
        return None
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule).removeprefix("/{base}")


NEEDS_TOKEN = (
    f"the API takes a token in X-Auth-Token, such as `openstack token issue` prints; id and secret "
    f"of an application credential only open {PATH}"
)
KEYSTONE_WITHIN = 10
"""Seconds; the default of ``[keystone_authtoken] http_connect_timeout``."""
KEYSTONE_AT_ONCE = 8
"""Calls to Keystone at the same time, a quarter of the server's threads."""
Refuse = Callable[[dict[str, Any], HTTPException], Response]


class TokenChecks(auth_token.AuthProtocol):  # type: ignore[misc]
    """keystonemiddleware, with the options [keystone_authtoken].

    A token that is not in its cache is checked within ``http_connect_timeout`` in all; tokens in
    the cache wait for no others.
    """

    def __init__(self, application: WSGIApplication, conf: Any, refuse: Refuse) -> None:
        for group, options in keystone_opts.list_auth_token_opts():
            conf.register_opts(options, group)
        conf.set_default("http_connect_timeout", KEYSTONE_WITHIN, GROUP)
        group = conf[GROUP]
        self.refuse, self.uri = refuse, group.www_authenticate_uri
        self.calls = Bounded("Keystone", KEYSTONE_AT_ONCE, group.http_connect_timeout)
        super().__init__(application, {"oslo_config_config": conf, "log_name": __name__})

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        try:
            if TOKEN not in environ and "HTTP_AUTHORIZATION" in environ:
                challenge = WWWAuthenticate("keystone", {"uri": self.uri})
                raise Unauthorized(NEEDS_TOKEN, www_authenticate=challenge)
            answer: Iterable[bytes] = super().__call__(environ, start_response)
        except HTTPException as err:
            return self.refuse(environ, err)(environ, start_response)
        return answer

    def _create_identity_server(self) -> Any:
        server = super()._create_identity_server()
        bounded = copy(server)  # the server calls its own method again after an error
        bounded.verify_token = partial(self._verify, server.verify_token)
        return bounded

    def _verify(self, verify: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Return what Keystone says about a token.

        :raises ServiceUnavailable: nothing, or nothing in time.
        """
        try:
            return self.calls(partial(verify, *args, **more))
        except auth_token.InvalidToken:
            raise
        except Exception as err:
            LOG.warning("A token can't be checked, see [keystone_authtoken]: %s", err)
            raise unreachable(err) from err


def with_audit(application: WSGIApplication, conf: Any) -> WSGIApplication:
    """Return the application with a CADF event for each request and answer, by keystonemiddleware.

    :raises RegistryConfigError: the audit map can't be used.
    """
    options, file = conf.audit, conf.audit.audit_map_file
    try:
        audited: WSGIApplication = audit.AuditMiddleware(
            application,
            oslo_config_config=conf,
            audit_map_file=file,
            ignore_req_list=options.ignore_req_list,
            service_name="compute-registry",
            log_name=f"{__name__}.audit",
        )
    except Exception as err:
        raise RegistryConfigError(f"[audit] audit_map_file {file}: {err}") from err
    return audited
