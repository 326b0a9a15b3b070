"""Permissions of signed calls over the bus."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.bus.errors import NotPermitted
from agent.bus.signing import RECORD_VERSION, Operator, is_signed, signed_answer
from agent.registry import wire

AGENT_METHODS = frozenset({"heartbeat", "keep_alive", "get_service", "set_status"})
"""Methods that an agent may call, for its own host."""
UNSIGNED = "echo"
"""Its argument is known to the instance of the registry only that calls itself."""


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
        if sender and (method not in AGENT_METHODS or arguments.get("host") != sender):
            whom = f" {arguments['host']!a}" if "host" in arguments else ""
            raise NotPermitted(
                f"the host_key of {sender} does not allow {method}{whom}: run this where "
                "[registry] master_key is set"
            )

    def signed(self, _context: Mapping[str, Any], answer: Any) -> Any:
        """Return the answer."""
        return answer


@dataclass(frozen=True, slots=True)
class AgentPermissions:
    """Calls to an agent: signed with its host's key, for a record's version.

    An older version than the last one changes nothing, so a recorded call can't be replayed.
    """

    key: str
    host: str

    def __call__(
        self, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
    ) -> None:
        """:raises NotPermitted: the call is not signed for this host and a version."""
        if not is_signed(self.key, self.host, method, arguments, context):
            raise NotPermitted(f"{method} is not signed for {self.host}")
        if not isinstance(context.get(RECORD_VERSION), int):
            raise NotPermitted(f"{method} is signed without a version of the service record")

    def signed(self, context: Mapping[str, Any], answer: Any) -> Any:
        """Return the signed answer: anybody who saw the call could send another."""
        return signed_answer(self.key, context, answer)
