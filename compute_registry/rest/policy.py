"""The calls of the compute API, and who may make them: Nova's rule names and its defaults.

The role ``service`` is not enough: agents have it for Placement, and no hypervisor shall
switch another.
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
"""Whether who sent this request may do what this rule is about."""
ADMIN = "rule:context_is_admin"
EVERYBODY = "@"
API = "os_compute_api:"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the compute API; ``check`` says who may make it where no file says otherwise."""

    method: str
    path: str
    """The part in braces goes to what answers."""
    action: str
    answer: Callable[[Control], Callable[..., Answer]]
    description: str
    check: str = ADMIN

    @property
    def rule(self) -> str:
        """The rule's name in Nova."""
        return f"{API}{self.path.split('/')[1]}:{self.action}"

    def match(self, path: str) -> tuple[str, ...] | None:
        """Return the values of a path's variables, or ``None`` if the path differs."""
        found = re.fullmatch(_BRACES.sub("([^/]+)", self.path), path)
        return None if found is None else found.groups()

    @property
    def route(self) -> str:
        """The path with what varies taken out."""
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
        "Disable, enable, force down a service, or take that back.",
    ),
    Call(
        "DELETE",
        "/os-services/{service_id}",
        "delete",
        lambda c: Services(c).delete,
        "Delete a service.",
    ),
    Call("GET", _ZONES, "list", lambda c: Zones(c).summary, "List zones.", EVERYBODY),
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
        "Show how long a hypervisor has been up; always refused, with a 501.",
    ),
    Call(
        "GET",
        f"{_HOSTS}/{{hypervisor_hostname_pattern}}/search",
        "search",
        lambda c: Hypervisors(c).search,
        "Find hypervisors by a part of their name.",
    ),
    Call(
        "GET",
        "/os-aggregates",
        "index",
        lambda c: Zones(c).aggregates,
        "List aggregates; there are none.",
    ),
)
"""All that is served; the first whose path matches answers."""


def list_rules() -> list[policy.RuleDefault]:
    """For oslopolicy-sample-generator."""
    return [
        policy.RuleDefault("context_is_admin", "role:admin", "Who counts as an administrator."),
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
    """A path below the API's with what varies taken out, for who counts; ``None``: no call's."""
    return next((call.route for call in CALLS if call.match(path) is not None), None)


def everybody(environ: Environ, rule: str) -> bool:  # noqa: ARG001  whatever is asked
    """Without Keystone nobody is told apart."""
    return True


def allowed_by_policy(conf: Any) -> Allowed:
    """Decide by the defaults above and ``[oslo_policy] policy_file``.

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
