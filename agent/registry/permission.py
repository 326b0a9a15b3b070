"""Permissions of signed calls to an agent over the bus."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.bus.errors import NotPermitted
from agent.bus.signing import RECORD_VERSION, is_signed, signed_answer


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
