"""The calls of the compute API that are served, and their policy: Nova's rules and defaults.

The role ``service`` is not enough: agents have it for Placement, and no hypervisor may disable
another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask.typing import ResponseReturnValue
from oslo_context import context as oslo_context
from oslo_policy import policy

from agent.registry.opts import RegistryConfigError
from compute_registry.rest import hypervisors, services

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


_ZONES, _HOSTS = "/os-availability-zone", "/os-hypervisors"
CALLS = (
    Call("GET", "/os-services", "list", services.list_services, "List or show services."),
    Call("GET", "/os-services/{id}", "list", services.show_service, ""),
    Call(
        "PUT",
        "/os-services/{id}",
        "update",
        services.update_service,
        "Disable or enable a service, or set or unset forced_down.",
    ),
    Call("DELETE", "/os-services/{id}", "delete", services.delete_service, "Delete a service."),
    Call("GET", _ZONES, "list", services.list_zones, "List zones.", ANYONE),
    Call(
        "GET",
        f"{_ZONES}/detail",
        "detail",
        services.list_zones_in_detail,
        "List zones with their hosts.",
    ),
    Call("GET", _HOSTS, "list", hypervisors.list_hypervisors, "List hypervisors."),
    Call(
        "GET",
        f"{_HOSTS}/detail",
        "list-detail",
        hypervisors.list_in_detail,
        "List hypervisors in full.",
    ),
    Call("GET", f"{_HOSTS}/{{id}}", "show", hypervisors.show_hypervisor, "Show a hypervisor."),
    Call(
        "GET",
        f"{_HOSTS}/{{id}}/search",
        "search",
        hypervisors.search_hypervisors,
        "Search hypervisors by a part of their name, before microversion 2.53.",
    ),
    Call(
        "GET",
        f"{_HOSTS}/{{id}}/uptime",
        "uptime",
        hypervisors.refuse_uptime,
        "Show the uptime of a hypervisor; always answered with 501.",
    ),
    Call(
        "GET",
        "/os-aggregates",
        "index",
        services.list_aggregates,
        "List aggregates; the list is always empty.",
    ),
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
