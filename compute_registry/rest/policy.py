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
from compute_registry.rest.services import (
    delete_service,
    list_services,
    show_service,
    update_service,
)

Allowed = Callable[[dict[str, Any], str], bool]
"""Whether a policy rule allows the caller, who is in the WSGI environment of a request."""
LIST = "os_compute_api:os-services:list"
UPDATE = "os_compute_api:os-services:update"
DELETE = "os_compute_api:os-services:delete"
TREES = "compute_registry:trees"
"""The rule of the fleet's page for provider trees, read with the registry's own credential."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the compute API, and its policy rule."""

    method: str
    path: str
    """Below the endpoint; ``{id}`` is an argument of ``answer``."""
    answer: Callable[..., ResponseReturnValue]
    rule: str


CALLS = (
    Call("GET", "/os-services", list_services, LIST),
    Call("GET", "/os-services/{id}", show_service, LIST),
    Call("PUT", "/os-services/{id}", update_service, UPDATE),
    Call("DELETE", "/os-services/{id}", delete_service, DELETE),
)
"""The calls that are served."""


def list_rules() -> list[policy.RuleDefault]:
    """Return the policy rules, also for oslopolicy-sample-generator."""
    return [
        policy.RuleDefault("context_is_admin", "role:admin", "Administrators."),
        _for_admins(LIST, "List or show services.", "GET", "/os-services"),
        _for_admins(UPDATE, "Change status or forced_down.", "PUT", "/os-services/{id}"),
        _for_admins(DELETE, "Delete a service.", "DELETE", "/os-services/{id}"),
        _for_admins(TREES, "Show a host's provider tree.", "GET", "/fleet/{host}"),
    ]


def _for_admins(rule: str, description: str, method: str, path: str) -> policy.RuleDefault:
    return policy.DocumentedRuleDefault(
        rule,
        "rule:context_is_admin",
        description,
        [{"method": method, "path": path}],
        scope_types=["project"],
    )


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
