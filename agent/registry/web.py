"""All that compute-registry serves over HTTP, put together: the API, the page, and who comes in."""

from typing import Any

from agent.registry.control import Control
from agent.registry.opts import RegistryConfigError, RegistrySettings
from agent.registry.page.application import FleetPage, ForThePage
from agent.registry.page.login import by_keystone
from agent.registry.page.pages import Pages
from agent.registry.page.trees import TreesOfHosts
from agent.registry.rest.access import Identified, with_audit, with_keystone
from agent.registry.rest.application import Application, ComputeApplication, Discovery, routes
from agent.registry.rest.policy import by_policy, everybody
from reportclient.errors import AuthenticationFailed
from reportclient.http import API, PlacementAPI, adapter_from_conf


def application(control: Control, conf: Any, settings: RegistrySettings) -> Application:
    """The API and the page behind whatever decides who may use them.

    :raises RegistryConfigError: policy, audit map or [placement] can't be used.
    """
    keystone = settings.auth_strategy == "keystone"
    allowed = by_policy(conf) if keystone else everybody
    served: Application = ComputeApplication(routes(control), allowed)
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
