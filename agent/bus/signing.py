"""Signatures of calls over the message bus: they prove who sent a call.  Pure.

Every user of the broker can write to every queue: oslo.messaging sends answers through the
default exchange, which reaches all queues, so each agent needs the permission to write to it.
So calls are signed.  ``compute-registry`` and operators have one master key; each hypervisor
has a key that is derived from it for its host, and signs for that host only.

While a master key is replaced there are two: calls are signed with each, and valid by either.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agent.errors import NotPermitted

Values = Mapping[str, Any]
"""The arguments of a call, or its context."""
OpenAnswer = Callable[[str, Values, Any], Any]
"""Takes the called host, the context that was sent, and the answer; returns the answer without its
signature, or raises :class:`NotPermitted`."""
Sign = Callable[[str, str, Values, Values], dict[str, Any]]
"""Takes the receiver, a method, its arguments and a context; returns the signed context."""
SIGNATURES = "signatures"
_ANSWER, _SIGNATURE = "answer", "signature"
"""The keys of an answer to a signed call."""
SIGNED_BY = "signed_by"
"""The key of the signer in the context of a call: a host name, or ``""`` for an operator."""
RECORD_VERSION = "record_version"
"""The version of the service record that the call carries out."""


def record_version(context: Values) -> int | None:
    """Return the version of the service record that a call carries out; ``None`` if unknown."""
    version = context.get(RECORD_VERSION)
    return version if isinstance(version, int) and not isinstance(version, bool) else None


def host_key(master_key: str, host: str) -> str:
    """Return the key of one hypervisor, a secret."""
    return _hmac(master_key, f"host {host}")


def signed(  # noqa: PLR0913, PLR0917  the last four are those of Sign
    keys: Iterable[str], host: str, to: str, method: str, arguments: Values, context: Values
) -> dict[str, Any]:
    """Return the context of a call with a signature by each of the keys.

    ``host``: the sender's, empty for an operator; ``to``: a host, or the registry's topic.
    """
    sent = {**context, SIGNED_BY: host}
    return {**sent, SIGNATURES: [_signature(key, to, method, arguments, sent) for key in keys]}


@dataclass(frozen=True, slots=True)
class Operator:
    """The holder of the master keys: signs calls of operators, and verifies all signatures."""

    master_keys: tuple[str, ...]

    def sign(self, to: str, method: str, arguments: Values, context: Values) -> dict[str, Any]:
        """Return the signed context of a call to the registry."""
        return signed(self._keys(""), "", to, method, arguments, context)

    def sign_to(self, to: str, method: str, arguments: Values, context: Values) -> dict[str, Any]:
        """Return the signed context of a call to a host, which has only its own key."""
        return signed(self._keys(to), "", to, method, arguments, context)

    def verified_sender(
        self, to: str, method: str, arguments: Values, context: Values
    ) -> str | None:
        """Return the host that signed this call, ``""`` for an operator, ``None`` if invalid."""
        host = context.get(SIGNED_BY)
        if not isinstance(host, str):
            return None
        keys = self._keys(host)
        return host if any(is_signed(key, to, method, arguments, context) for key in keys) else None

    def opened_answer(self, host: str, context: Values, answer: Any) -> Any:
        """Return what ``host`` answered to the call with this context, without its signature.

        :raises NotPermitted: the answer, or that to another call, is not signed with its key.
        """
        value = answer.get(_ANSWER) if isinstance(answer, Mapping) else None
        if answer not in [signed_answer(key, context, value) for key in self._keys(host)]:
            raise NotPermitted(f"the answer is not signed with the host_key of {host}")
        return value

    def _keys(self, host: str) -> list[str]:
        return [host_key(it, host) if host else _hmac(it, "operator") for it in self.master_keys]


def signed_answer(key: str, context: Values, answer: Any) -> dict[str, Any]:
    """Return the answer to a signed call with its signature; ``context``: that of the call."""
    return {_ANSWER: answer, _SIGNATURE: _hmac(key, json.dumps([context[SIGNATURES], answer]))}


def is_signed(key: str, to: str, method: str, arguments: Values, context: Values) -> bool:
    """Return whether the call was signed with this key for this receiver, and is unchanged."""
    signatures = context.get(SIGNATURES)
    if not isinstance(signatures, list):
        return False
    valid = _signature(key, to, method, arguments, context)
    texts = [each for each in signatures if isinstance(each, str) and each.isascii()]
    return any(hmac.compare_digest(each, valid) for each in texts)


def _signature(key: str, to: str, method: str, arguments: Values, context: Values) -> str:
    """Return the signature of the fields that decide; fields for logs are not signed."""
    decides = [context.get(SIGNED_BY), context.get(RECORD_VERSION)]
    return _hmac(key, json.dumps([to, method, arguments, decides], sort_keys=True))


def _hmac(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


class Permit(Protocol):
    """Decides on calls to a server, and signs its answers."""

    def __call__(self, method: str, arguments: Values, context: Values) -> None:
        """:raises NotPermitted: the sender may not make this call."""

    def signed(self, context: Values, answer: Any) -> Any:
        """Return the answer to a call with this context as it is sent."""


@dataclass(frozen=True, slots=True)
class AgentPermissions:
    """Calls to an agent: signed with its host's key, for a record's version.

    An older version than the last one changes nothing, so a recorded call can't be replayed.
    """

    key: str
    host: str

    def __call__(self, method: str, arguments: Values, context: Values) -> None:
        """:raises NotPermitted: the call is not signed for this host and a version."""
        if not is_signed(self.key, self.host, method, arguments, context):
            raise NotPermitted(f"{method} is not signed for {self.host}")
        if record_version(context) is None:
            raise NotPermitted(f"{method} is signed without a version of the service record")

    def signed(self, context: Values, answer: Any) -> Any:
        """Return the signed answer: anybody who saw the call could send another."""
        return signed_answer(self.key, context, answer)
