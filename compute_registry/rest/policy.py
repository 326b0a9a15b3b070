"""The policy of the compute API's calls and of the page: Nova's rules and defaults.

The role ``service`` is not enough: agents have it for Placement, and no hypervisor may disable
another.
"""

from collections.abc import Callable
from typing import Any

from oslo_context import context as oslo_context
from oslo_policy import policy

from agent.config import ConfigError

Allowed = Callable[[dict[str, Any], str], bool]
"""Whether a policy rule allows the caller, who is in the WSGI environment of a request."""
ADMIN = "context_is_admin"
LIST = "os_compute_api:os-services:list"
UPDATE = "os_compute_api:os-services:update"
DELETE = "os_compute_api:os-services:delete"
TREES = "compute_registry:trees"
"""The rule of the fleet's page for provider trees, read with the registry's own credential."""


def list_rules() -> list[policy.RuleDefault]:
    """Return the policy rules, also for oslopolicy-sample-generator."""
    return [
        policy.RuleDefault(ADMIN, "role:admin", "Administrators."),
        _for_admins(LIST, "List or show services.", "GET", "/os-services"),
        _for_admins(UPDATE, "Change status or forced_down.", "PUT", "/os-services/{id}"),
        _for_admins(DELETE, "Delete a service.", "DELETE", "/os-services/{id}"),
        _for_admins(TREES, "Show a host's provider tree.", "GET", "/fleet/{host}"),
    ]


def _for_admins(rule: str, text: str, method: str, path: str) -> policy.RuleDefault:
    calls: Any = [{"method": method, "path": path}]
    scopes = ["project"]
    return policy.DocumentedRuleDefault(rule, f"rule:{ADMIN}", text, calls, scope_types=scopes)


def allow_all(environ: dict[str, Any], rule: str) -> bool:
    """Allow every call: without Keystone callers are unknown."""
    return True


def allowed_by_policy(conf: Any) -> Allowed:
    """Return the decision by the default rules and ``[oslo_policy] policy_file``.

    :raises ConfigError: the file can't be used.
    """
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(list_rules())
    try:
        enforcer.load_rules()
    except Exception as err:
        file = conf.oslo_policy.policy_file
        raise ConfigError(f"[oslo_policy] policy_file {file}: {err}") from err

    def allowed(environ: dict[str, Any], rule: str) -> bool:
        context = oslo_context.RequestContext.from_environ(environ)
        decided: bool = enforcer.enforce(rule, {}, context)
        return decided

    return allowed
