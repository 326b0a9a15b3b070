"""All that compute-registry serves over HTTP, put together: the API, the page, and who comes in."""

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
from compute_registry.rest.policy import allowed_by_policy, everybody
from compute_registry.rest.request import Environ, request_id_of
from reportclient.errors import AuthenticationFailed
from reportclient.http import API, PlacementAPI, adapter_from_conf


def application(control: Control, conf: Any, settings: RegistrySettings) -> Application:
    """The API and the page behind whatever decides who may use them.

    :raises RegistryConfigError: policy, audit map or [placement] can't be used.
    """
    keystone = settings.auth_strategy == "keystone"
    allowed = allowed_by_policy(conf) if keystone else everybody
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
    """To read trees; it is logged in to at the first."""
    if not conf.placement.auth_type:
        return None
    try:
        return PlacementAPI(adapter_from_conf(conf))
    except AuthenticationFailed as err:
        raise RegistryConfigError(str(err)) from err


def route_of(environ: Environ) -> str | None:
    """The path with what varies taken out, for who counts; ``None``: there is no such path.

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
"""Seconds that a question to Keystone may take, where [keystone_authtoken] does not say."""


def with_keystone(application: Application, conf: Any) -> Application:
    """Behind Keystone; ``conf`` has the group [keystone_authtoken]."""
    for group, options in keystone_opts.list_auth_token_opts():
        conf.register_opts(options, group)
    # By default it waits for ever, and a thread of ours with it.
    conf.set_default("http_connect_timeout", KEYSTONE_WITHIN, GROUP)
    allowed: Application = auth_token.AuthProtocol(
        application, {"oslo_config_config": conf, "log_name": __name__}
    )
    return allowed


def with_audit(application: Application, conf: Any) -> Application:
    """A CADF event for each request and its answer, by keystonemiddleware.

    :raises RegistryConfigError: the map can't be used.
    """
    wanted = conf.audit
    try:
        audited: Application = audit.AuditMiddleware(
            application,
            oslo_config_config=conf,
            audit_map_file=wanted.audit_map_file,
            ignore_req_list=wanted.ignore_req_list,
            service_name="compute-registry",
            log_name=f"{__name__}.audit",
        )
    except Exception as err:
        raise RegistryConfigError(f"[audit] audit_map_file {wanted.audit_map_file}: {err}") from err
    return audited


@dataclass(frozen=True, slots=True)
class WithRequestId:
    """Gives each request its id, before anybody else sees it, and tells it in the answer."""

    application: Application

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        ours = request_id_of(environ)

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            told = [("X-OpenStack-Request-ID", ours), ("X-Compute-Request-ID", ours)]
            return start_response(status, [*headers, *told], *more)

        return self.application(environ, start)
