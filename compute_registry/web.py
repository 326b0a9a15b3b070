"""The HTTP face of compute-registry: the API and the page, behind authentication."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any
from wsgiref.types import WSGIApplication

import waitress
from flask import Flask, Response, request
from keystonemiddleware import audit
from oslo_middleware.request_id import RequestId
from werkzeug.exceptions import HTTPException

from agent.config import ConfigError
from agent.errors import RegistryError
from agent.placement import adapter_from_conf
from agent.reporting.condition import with_agents_step
from compute_registry.control import Control
from compute_registry.keystone import TokenChecks, keystone_login
from compute_registry.opts import ServerSettings
from compute_registry.page.blueprint import add_page, error_page, is_page
from compute_registry.page.trees import PlacementReads
from compute_registry.rest.blueprint import add_api, http_error, json_error
from compute_registry.rest.policy import Allowed, allow_all, allowed_by_policy
from compute_registry.rest.request import LONGEST_BODY, Request
from reportclient.errors import AuthenticationFailed
from reportclient.http import PlacementAPI

LOG = logging.getLogger(__name__)
THREADS = 64
"""Requests that are answered at the same time, including those that wait for an agent or Keystone.
"""
CONNECTIONS = 400
"""Open connections, at most."""
PROXY_HEADERS = "x-forwarded-for x-forwarded-proto x-forwarded-host"


class RequestIds(RequestId):
    """Gives each request an id, which the headers of its answer have."""

    compat_headers = ["X-Compute-Request-ID"]  # noqa: RUF012  a list in the base class


def application(control: Control, conf: Any, settings: ServerSettings) -> Flask:
    """Return the API and the page behind ``[registry] auth_strategy``.

    :raises ConfigError: policy, audit map or [placement] can't be used.
    """
    keystone = settings.auth_strategy == "keystone"
    allowed = allowed_by_policy(conf) if keystone else allow_all
    app = registry_app(control, allowed, _placement(conf))
    flask_app: WSGIApplication = app.wsgi_app
    served = flask_app
    if conf.audit.enabled:
        served = split(is_page, flask_app, with_audit(flask_app, conf))
    if keystone:
        checked = TokenChecks(served, conf, partial(refused, app))
        to_api = split(is_page, keystone_login(checked, conf), checked)
        served = split(is_discovery, flask_app, to_api)
    app.wsgi_app = RequestIds(served)  # type: ignore[method-assign]
    return app


def registry_app(
    control: Control, allowed: Allowed = allow_all, placement: PlacementReads | None = None
) -> Flask:
    """Return the API and the page without authentication; the page reads from ``placement``."""
    app = Flask(__name__, static_folder=None)
    app.request_class = Request
    app.config |= {"MAX_CONTENT_LENGTH": LONGEST_BODY, "PROVIDE_AUTOMATIC_OPTIONS": False}
    app.url_map.strict_slashes = app.url_map.merge_slashes = False
    app.register_error_handler(RegistryError, lambda err: _error(http_error(err)))
    app.register_error_handler(HTTPException, _error)
    add_api(app, control, allowed)
    add_page(app, control, placement or PlacementReads(None), allowed)
    return app


def split(
    belongs: Callable[[dict[str, Any]], bool], inner: WSGIApplication, outer: WSGIApplication
) -> WSGIApplication:
    """Return an application that passes requests that ``belongs`` accepts to ``inner``."""
    return lambda environ, start: (inner if belongs(environ) else outer)(environ, start)


def is_discovery(environ: dict[str, Any]) -> bool:
    """Whether a request is for the API's versions, which everyone may read."""
    return environ.get("PATH_INFO", "").rstrip("/") in ("", "/v2.1")


def refused(app: Flask, environ: dict[str, Any], err: HTTPException) -> Response:
    """Return the answer to a request that was refused before the application got it."""
    with app.request_context(environ):
        return _error(err)


def _error(err: HTTPException) -> Response:
    return error_page(err) if is_page(request.environ) else json_error(err)


def _placement(conf: Any) -> PlacementReads:
    """Return what reads trees; its client gets a token at its first request."""
    if not conf.placement.auth_type:
        return PlacementReads(None)
    try:
        adapter = adapter_from_conf(conf)
    except AuthenticationFailed as err:
        raise ConfigError(with_agents_step(err)) from err
    return PlacementReads(PlacementAPI(adapter), lambda: str(adapter.get_endpoint() or ""))


def with_audit(application: WSGIApplication, conf: Any) -> WSGIApplication:
    """Return the application with a CADF event for each request and answer, by keystonemiddleware.

    :raises ConfigError: the audit map can't be used.
    """
    file = conf.audit.audit_map_file
    try:
        audited: WSGIApplication = audit.AuditMiddleware(
            application,
            oslo_config_config=conf,
            audit_map_file=file,
            ignore_req_list=conf.audit.ignore_req_list,
            service_name="compute-registry",
            log_name=f"{__name__}.audit",
        )
    except Exception as err:
        raise ConfigError(f"[audit] audit_map_file {file}: {err}") from err
    return audited


def listen(application: WSGIApplication, settings: ServerSettings) -> Any:
    """Return a server that listens; it answers once ``run`` is called.

    :raises ConfigError: the address or the port can't be used.
    """
    where = f"{settings.rest_bind}:{settings.rest_port}"
    try:
        return waitress.create_server(
            application,
            host=settings.rest_bind,
            port=settings.rest_port,
            threads=THREADS,
            ident=None,
            connection_limit=CONNECTIONS,
            max_request_header_size=LONGEST_BODY,
            max_request_body_size=LONGEST_BODY,
            trusted_proxy=settings.trusted_proxy,
            trusted_proxy_headers=PROXY_HEADERS if settings.trusted_proxy else "",
        )
    except (OSError, ValueError) as err:
        why = getattr(err, "strerror", None) or err
        text = f"[registry] rest_bind, rest_port: can't listen on {where}: {why}"
        raise ConfigError(text) from err
