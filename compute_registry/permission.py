"""Permissions of signed calls to the registry over the bus."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.bus.errors import NotPermitted
from agent.bus.signing import Operator
from agent.registry import wire

AGENT_METHODS = frozenset({"heartbeat", "keep_alive", "get_service", "set_status"})
"""Methods that an agent may call, for its own host."""
UNSIGNED = "echo"
"""Its argument is known only to the instance of the registry that calls itself."""

BOUND_BY: Mapping[str, str] = {
    "set_status": "expected_version",
    "set_forced_down": "expected_version",
    "delete": "uuid",
}
"""The argument of each change that says what it was made for: a replay finds another record."""


@dataclass(frozen=True, slots=True)
class RegistryPermissions:
    """Calls to the registry: operators may make all, an agent those for its own host."""

    operator: Operator

    def __call__(
        self, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
    ) -> None:
        """:raises NotPermitted: the call is not signed, or not by one who may make it."""
        if method == UNSIGNED:
            return
        sender = self.operator.verified_sender(wire.TOPIC, method, arguments, context)
        if sender is None:
            raise NotPermitted(
                f"{method} is not signed, or not with a key of [registry]: set master_key where "
                "operators use computectl, host_key on the hypervisor"
            )
        bound_by = BOUND_BY.get(method)
        if bound_by is not None and arguments.get(bound_by) is None:
            raise NotPermitted(f"{method} is signed without {bound_by}, so it could be replayed")
        if sender and (method not in AGENT_METHODS or arguments.get("host") != sender):
            whom = f" {arguments['host']!a}" if "host" in arguments else ""
            raise NotPermitted(
                f"the host_key of {sender} does not allow {method}{whom}: run this where "
                "[registry] master_key is set"
            )

    def signed(self, _context: Mapping[str, Any], answer: Any) -> Any:
        """Return the answer: nobody else can read the call, and so answer it."""
        return answer
