"""The calls of the compute API that are served, and their policy: Nova's rules and defaults.

The role ``service`` is not enough: agents have it for Placement, and no hypervisor may disable
another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from flask.typing import ResponseReturnValue
from oslo_context import context as oslo_context
from oslo_policy import policy

from agent.registry.opts import RegistryConfigError
from compute_registry.rest.hypervisors import (
    list_hypervisors,
    refuse_uptime,
    search_hypervisors,
    show_hypervisor,
)
from compute_registry.rest.services import (
    delete_service,
    list_aggregates,
    list_services,
    list_zones,
    show_service,
    update_service,
)

Allowed = Callable[[dict[str, Any], str], bool]
"""Whether a policy rule allows the caller, who is in the WSGI environment of a request."""
ADMIN = "rule:context_is_admin"
ANYONE = "@"
API = "os_compute_api:"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the compute API; ``check`` is the default of its policy rule."""

    method: str
    path: str
    """Below the endpoint; ``{id}`` is an argument of ``answer``."""
    action: str
    answer: Callable[..., ResponseReturnValue]
    description: str
    check: str = ADMIN

    @property
    def rule(self) -> str:
        """The name of Nova's policy rule."""
        return f"{API}{self.path.split('/')[1]}:{self.action}"


_SERVICES, _ZONES, _HOSTS = "/os-services", "/os-availability-zone", "/os-hypervisors"
_SERVICE, _HOST = f"{_SERVICES}/{{id}}", f"{_HOSTS}/{{id}}"
_ZONES_IN_DETAIL = partial(list_zones, detail=True)
_HOSTS_IN_DETAIL = partial(list_hypervisors, detail=True)
CALLS = (
    Call("GET", _SERVICES, "list", list_services, "List or show services."),
    Call("GET", _SERVICE, "list", show_service, ""),
    Call("PUT", _SERVICE, "update", update_service, "Change status or forced_down of a service."),
    Call("DELETE", _SERVICE, "delete", delete_service, "Delete a service."),
    Call("GET", _ZONES, "list", list_zones, "List zones.", ANYONE),
    Call("GET", f"{_ZONES}/detail", "detail", _ZONES_IN_DETAIL, "List zones with their hosts."),
    Call("GET", _HOSTS, "list", list_hypervisors, "List hypervisors."),
    Call("GET", f"{_HOSTS}/detail", "list-detail", _HOSTS_IN_DETAIL, "List hypervisors in full."),
    Call("GET", _HOST, "show", show_hypervisor, "Show a hypervisor."),
    Call("GET", f"{_HOST}/search", "search", search_hypervisors, "Search hypervisors by name."),
    Call("GET", f"{_HOST}/uptime", "uptime", refuse_uptime, "Show the uptime; answered with 501."),
    Call("GET", "/os-aggregates", "index", list_aggregates, "List aggregates: there are none."),
)
"""The calls that are served."""


def list_rules() -> list[policy.RuleDefault]:
    """Return the policy rules, also for oslopolicy-sample-generator."""
    return [
        policy.RuleDefault("context_is_admin", "role:admin", "Administrators."),
        *(
            policy.DocumentedRuleDefault(
                call.rule,
                call.check,
                call.description,
                [{"method": call.method, "path": call.path}],
                scope_types=["project"],
            )
            for call in CALLS
            if call.description
        ),
    ]


def allow_all(environ: dict[str, Any], rule: str) -> bool:  # noqa: ARG001
    """Allow every call: without Keystone callers are unknown."""
    return True


def allowed_by_policy(conf: Any) -> Allowed:
    """Return the decision by the default rules and ``[oslo_policy] policy_file``.

    :raises RegistryConfigError: the file can't be used.
    """
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(list_rules())
    try:
        enforcer.load_rules()
    except Exception as err:
        file = conf.oslo_policy.policy_file
        raise RegistryConfigError(f"[oslo_policy] policy_file {file}: {err}") from err

    def allowed(environ: dict[str, Any], rule: str) -> bool:
        context = oslo_context.RequestContext.from_environ(environ)
        decided: bool = enforcer.enforce(rule, {}, context)
        return decided

    return allowed
