"""All that compute-registry serves over HTTP, put together: the API, the page, and who comes in."""

from typing import Any

from agent.registry.control import Control
from agent.registry.opts import RegistryConfigError, RegistrySettings
from agent.registry.page.application import PATH, FleetPage, ForThePage, is_page
from agent.registry.page.login import by_keystone
from agent.registry.page.pages import Pages
from agent.registry.page.trees import TreesOfHosts
from agent.registry.rest import policy
from agent.registry.rest.access import Identified, with_audit, with_keystone
from agent.registry.rest.application import (
    BASE,
    Application,
    ComputeApplication,
    Discovery,
)
from agent.registry.rest.policy import by_policy, everybody
from agent.registry.rest.request import Environ
from reportclient.errors import AuthenticationFailed
from reportclient.http import API, PlacementAPI, adapter_from_conf


def application(control: Control, conf: Any, settings: RegistrySettings) -> Application:
    """The API and the page behind whatever decides who may use them.

    :raises RegistryConfigError: policy, audit map or [placement] can't be used.
    """
    keystone = settings.auth_strategy == "keystone"
    allowed = by_policy(conf) if keystone else everybody
    served: Application = ComputeApplication(control, allowed)
    if conf.audit.enabled:
        served = with_audit(served, conf)
    pages = Pages()
    if settings.page:
        served = FleetPage(served, control, TreesOfHosts(_placement(conf)), pages, allowed)
    if keystone:
        served = with_keystone(served, conf)
        if settings.page:
            served = ForThePage(by_keystone(served, conf, pages.say), served)
    return Identified(Discovery(served))


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
