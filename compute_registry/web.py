"""The WSGI application of compute-registry: the API and the page, behind authentication."""

from collections.abc import Iterable
from typing import Any
from wsgiref.util import application_uri

from keystonemiddleware import audit, auth_token
from keystonemiddleware import opts as keystone_opts

from agent.placement import adapter_from_conf
from agent.registry.control import Control
from agent.registry.opts import RegistryConfigError, RegistrySettings
from agent.reporting.reports import with_agents_step
from compute_registry.page.application import PATH, FleetPage, Pages, is_page
from compute_registry.page.login import GROUP, TOKEN, keystone_login
from compute_registry.page.trees import PlacementReads
from compute_registry.rest import policy
from compute_registry.rest.application import (
    Application,
    ComputeApplication,
    StartResponse,
    send_json,
)
from compute_registry.rest.policy import allow_all, allowed_by_policy
from compute_registry.rest.request import Environ, Refused, api_description, request_id_of
from reportclient.errors import AuthenticationFailed
from reportclient.http import API, PlacementAPI


def application(control: Control, conf: Any, settings: RegistrySettings) -> Application:
    """Return the API and the page behind ``[registry] auth_strategy``.

    :raises RegistryConfigError: policy, audit map or [placement] can't be used.
    """
    keystone = settings.auth_strategy == "keystone"
    allowed = allowed_by_policy(conf) if keystone else allow_all
    served: Application = ComputeApplication(control, allowed)
    if conf.audit.enabled:
        served = with_audit(served, conf)
    pages = Pages()
    if settings.page:
        page = FleetPage(control, PlacementReads(_placement(conf)), pages, allowed)
        served = page_or_api(page, served)
    if keystone:
        served = with_keystone(served, conf)
        if settings.page:
            served = page_or_api(keystone_login(served, conf, pages.error_page), served)
    return with_discovery(served)


def page_or_api(page: Application, api: Application) -> Application:
    """Return an application that passes a request on to the page or to the API, by path."""
    return lambda environ, start: (page if is_page(environ) else api)(environ, start)


def with_discovery(served: Application) -> Application:
    """Return the application with the API's versions at ``/`` and ``/v2.1``, for everyone.

    Each request gets an id, which the headers of its answer have.
    """

    def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        names = "X-OpenStack-Request-ID", "X-Compute-Request-ID"
        ids = [(name, request_id_of(environ)) for name in names]

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return start_response(status, [*headers, *ids], *more)

        path = environ.get("PATH_INFO", "").rstrip("/")
        if path not in ("", "/v2.1"):
            return served(environ, start)
        described = api_description(application_uri(environ).rstrip("/"))
        return send_json(start, 200, {"version": described} if path else {"versions": [described]})

    return answer


def _placement(conf: Any) -> API | None:
    """Return the client that reads trees, which gets a token at its first request."""
    if not conf.placement.auth_type:
        return None
    try:
        return PlacementAPI(adapter_from_conf(conf))
    except AuthenticationFailed as err:
        raise RegistryConfigError(with_agents_step(err)) from err


def route_of(environ: Environ) -> str | None:
    """Return the route of a request's path, a label of metrics; ``None`` for an unknown path.

    >>> route_of({"PATH_INFO": "/v2.1/os-services/6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca"})
    '/os-services/{id}'
    """
    path = environ.get("PATH_INFO", "").rstrip("/")
    if path in ("", "/v2.1"):
        return path or "/"
    if is_page(environ):
        return PATH if path == PATH else f"{PATH}/{{host}}"
    return next((call.path for call, _ in policy.matching(path)), None)


NEEDS_TOKEN = (
    f"the API takes a token in X-Auth-Token, such as `openstack token issue` prints; id and secret "
    f"of an application credential only open {PATH}"
)
KEYSTONE_WITHIN = 10
"""Seconds; the default of ``[keystone_authtoken] http_connect_timeout``."""


def with_keystone(application: Application, conf: Any) -> Application:
    """Return the application behind keystonemiddleware, with the options [keystone_authtoken]."""
    for group, options in keystone_opts.list_auth_token_opts():
        conf.register_opts(options, group)
    # Without it the middleware, and a thread of the server with it, would wait without a limit.
    conf.set_default("http_connect_timeout", KEYSTONE_WITHIN, GROUP)
    authenticated: Application = auth_token.AuthProtocol(
        application, {"oslo_config_config": conf, "log_name": __name__}
    )

    def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if TOKEN not in environ and "HTTP_AUTHORIZATION" in environ:
            challenge = [("WWW-Authenticate", "Keystone")]
            return send_json(start_response, 401, Refused(401, NEEDS_TOKEN).body(), challenge)
        return authenticated(environ, start_response)

    return answer


def with_audit(application: Application, conf: Any) -> Application:
    """Return the application with a CADF event for each request and answer, by keystonemiddleware.

    :raises RegistryConfigError: the audit map can't be used.
    """
    options, file = conf.audit, conf.audit.audit_map_file
    try:
        audited: Application = audit.AuditMiddleware(
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
