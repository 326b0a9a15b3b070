"""Who may do what: oslo.policy, with Nova's rule names and its defaults.

The role ``service`` is not enough: agents have it for Placement, and no hypervisor shall
switch another.
"""

from collections.abc import Callable
from typing import Any

from oslo_context import context as oslo_context
from oslo_policy import policy

from agent.registry.opts import RegistryConfigError
from agent.registry.rest.request import Environ

Allowed = Callable[[Environ, str], bool]
"""Whether who sent this request may do what this rule is about."""
ADMIN = "rule:context_is_admin"
EVERYBODY = "@"
API = "os_compute_api:"
SERVICES = f"{API}os-services:"
ZONES = f"{API}os-availability-zone:"
HYPERVISORS = f"{API}os-hypervisors:"
AGGREGATES = f"{API}os-aggregates:"


def _rule(
    name: str, check: str, description: str, method: str, *paths: str
) -> policy.DocumentedRuleDefault:
    operations: list[Any] = [{"method": method, "path": path} for path in paths]
    return policy.DocumentedRuleDefault(
        name, check, description, operations, scope_types=["project"]
    )


RULES = (
    policy.RuleDefault("context_is_admin", "role:admin", "Who counts as an administrator."),
    _rule(f"{SERVICES}list", ADMIN, "List or show services.", "GET", "/os-services"),
    _rule(
        f"{SERVICES}update",
        ADMIN,
        "Disable, enable, force down a service, or take that back.",
        "PUT",
        "/os-services/{service_id}",
    ),
    _rule(f"{SERVICES}delete", ADMIN, "Delete a service.", "DELETE", "/os-services/{service_id}"),
    _rule(f"{ZONES}list", EVERYBODY, "List zones.", "GET", "/os-availability-zone"),
    _rule(
        f"{ZONES}detail",
        ADMIN,
        "List zones with their hosts.",
        "GET",
        "/os-availability-zone/detail",
    ),
    _rule(f"{HYPERVISORS}list", ADMIN, "List hypervisors.", "GET", "/os-hypervisors"),
    _rule(
        f"{HYPERVISORS}list-detail",
        ADMIN,
        "List hypervisors in full.",
        "GET",
        "/os-hypervisors/detail",
    ),
    _rule(
        f"{HYPERVISORS}show",
        ADMIN,
        "Show a hypervisor.",
        "GET",
        "/os-hypervisors/{hypervisor_id}",
    ),
    _rule(
        f"{HYPERVISORS}uptime",
        ADMIN,
        "Show how long a hypervisor has been up; always refused, with a 501.",
        "GET",
        "/os-hypervisors/{hypervisor_id}/uptime",
    ),
    _rule(
        f"{HYPERVISORS}search",
        ADMIN,
        "Find hypervisors by a part of their name.",
        "GET",
        "/os-hypervisors/{hypervisor_hostname_pattern}/search",
    ),
    _rule(f"{AGGREGATES}index", ADMIN, "List aggregates; there are none.", "GET", "/os-aggregates"),
)


def list_rules() -> tuple[policy.RuleDefault, ...]:
    """For oslopolicy-sample-generator."""
    return RULES


def everybody(environ: Environ, rule: str) -> bool:  # noqa: ARG001  whatever is asked
    """Without Keystone nobody is told apart."""
    return True


def by_policy(conf: Any) -> Allowed:
    """By the defaults above, and by ``[oslo_policy] policy_file`` where there is one.

    :raises RegistryConfigError: the file can't be used.
    """
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(RULES)
    try:
        enforcer.load_rules()
    except Exception as err:
        file = conf.oslo_policy.policy_file
        raise RegistryConfigError(f"[oslo_policy] policy_file {file}: {err}") from err

    def allowed(environ: Environ, rule: str) -> bool:
        context = oslo_context.RequestContext.from_environ(environ)
        decided: bool = enforcer.enforce(rule, {}, context)
        return decided

    return allowed
