"""The calls of the compute API that are served, and their policy: Nova's rules and defaults.

The role ``service`` is not enough: agents have it for Placement, and no hypervisor may disable
another.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oslo_context import context as oslo_context
from oslo_policy import policy

from agent.registry.control import Control
from agent.registry.opts import RegistryConfigError
from compute_registry.rest.hypervisors import Hypervisors
from compute_registry.rest.request import Answer, Environ
from compute_registry.rest.services import Services, Zones

Allowed = Callable[[Environ, str], bool]
"""Whether a policy rule allows the caller of a request."""
ADMIN = "rule:context_is_admin"
ANYONE = "@"
API = "os_compute_api:"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the compute API; ``check`` is the default of its policy rule."""

    method: str
    path: str
    """Below the endpoint; the values of variables in braces are arguments of ``answer``."""
    action: str
    answer: Callable[[Control], Callable[..., Answer]]
    description: str
    check: str = ADMIN

    @property
    def rule(self) -> str:
        """The name of Nova's policy rule."""
        return f"{API}{self.path.split('/')[1]}:{self.action}"

    def match(self, path: str) -> tuple[str, ...] | None:
        """Return the values of a path's variables, or ``None`` if the path differs."""
        match = re.fullmatch(_BRACES.sub("([^/]+)", self.path), path)
        return None if match is None else match.groups()

    @property
    def route(self) -> str:
        """The path with ``{id}`` for each variable, as a label of metrics."""
        return _BRACES.sub("{id}", self.path)


_BRACES = re.compile(r"\{\w+\}")
_ZONES, _HOSTS = "/os-availability-zone", "/os-hypervisors"
_HOST = f"{_HOSTS}/{{hypervisor_id}}"
CALLS = (
    Call("GET", "/os-services", "list", lambda c: Services(c).all, "List or show services."),
    Call("GET", "/os-services/{service_id}", "list", lambda c: Services(c).show, ""),
    Call(
        "PUT",
        "/os-services/{service_id}",
        "update",
        lambda c: Services(c).update,
        "Disable or enable a service, or set or unset forced_down.",
    ),
    Call(
        "DELETE",
        "/os-services/{service_id}",
        "delete",
        lambda c: Services(c).delete,
        "Delete a service.",
    ),
    Call("GET", _ZONES, "list", lambda c: Zones(c).summary, "List zones.", ANYONE),
    Call(
        "GET",
        f"{_ZONES}/detail",
        "detail",
        lambda c: Zones(c).detail,
        "List zones with their hosts.",
    ),
    Call("GET", _HOSTS, "list", lambda c: Hypervisors(c).summaries, "List hypervisors."),
    Call(
        "GET",
        f"{_HOSTS}/detail",
        "list-detail",
        lambda c: Hypervisors(c).details,
        "List hypervisors in full.",
    ),
    Call("GET", _HOST, "show", lambda c: Hypervisors(c).show, "Show a hypervisor."),
    Call(
        "GET",
        f"{_HOST}/uptime",
        "uptime",
        lambda c: Hypervisors(c).uptime,
        "Show the uptime of a hypervisor; always answered with 501.",
    ),
    Call(
        "GET",
        f"{_HOSTS}/{{hypervisor_hostname_pattern}}/search",
        "search",
        lambda c: Hypervisors(c).search,
        "Search hypervisors by a part of their name.",
    ),
    Call(
        "GET",
        "/os-aggregates",
        "index",
        lambda c: Zones(c).aggregates,
        "List aggregates; the list is always empty.",
    ),
)
"""The calls that are served; the first with the request's path and method answers."""


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


def route_of(path: str) -> str | None:
    """Return the route of a path below the endpoint, for metrics; ``None`` if no call has it."""
    return next((call.route for call in CALLS if call.match(path) is not None), None)


def allow_all(environ: Environ, rule: str) -> bool:  # noqa: ARG001
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

    def allowed(environ: Environ, rule: str) -> bool:
        context = oslo_context.RequestContext.from_environ(environ)
        decided: bool = enforcer.enforce(rule, {}, context)
        return decided

    return allowed
