"""The WSGI application of compute-registry: the API and the page, behind authentication."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from keystonemiddleware import audit, auth_token
from keystonemiddleware import opts as keystone_opts

from agent.registry.control import Control
from agent.registry.opts import RegistryConfigError, RegistrySettings
from compute_registry.page.application import PATH, FleetPage, PageOrApi, is_page
from compute_registry.page.login import GROUP, keystone_login
from compute_registry.page.pages import Pages
from compute_registry.page.trees import TreesOfHosts
from compute_registry.rest import policy
from compute_registry.rest.application import (
    BASE,
    Application,
    ComputeApplication,
    Discovery,
    StartResponse,
)
from compute_registry.rest.policy import allow_all, allowed_by_policy
from compute_registry.rest.request import Environ, request_id_of
from reportclient.errors import AuthenticationFailed
from reportclient.http import API, PlacementAPI, adapter_from_conf


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
        served = FleetPage(served, control, TreesOfHosts(_placement(conf)), pages, allowed)
    if keystone:
        served = with_keystone(served, conf)
        if settings.page:
            served = PageOrApi(keystone_login(served, conf, pages.error_page), served)
    return WithRequestId(Discovery(served))


def _placement(conf: Any) -> API | None:
    """Return the client that reads trees, which gets a token at its first request."""
    if not conf.placement.auth_type:
        return None
    try:
        return PlacementAPI(adapter_from_conf(conf))
    except AuthenticationFailed as err:
        raise RegistryConfigError(str(err)) from err


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
    ours = BASE.fullmatch(path)
    return policy.route_of(ours["rest"]) if ours else None


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
    return authenticated


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


@dataclass(frozen=True, slots=True)
class WithRequestId:
    """Outermost middleware: gives each request an id, and adds it to the answer's headers."""

    application: Application

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        request_id = request_id_of(environ)

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            names = "X-OpenStack-Request-ID", "X-Compute-Request-ID"
            added = [(name, request_id) for name in names]
            return start_response(status, [*headers, *added], *more)

        return self.application(environ, start)
