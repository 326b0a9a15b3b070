"""Signatures of calls over the message bus: they prove who sent a call.  Pure.

Every user of the broker can write to every queue: oslo.messaging sends answers through the
default exchange, which reaches all queues, so each agent needs the permission to write to it.
So calls are signed.  ``compute-registry`` and operators have one master key; each hypervisor
has a key that is derived from it for its host, and signs for that host only.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SIGNATURE = "signature"
SIGNED_BY = "signed_by"
"""The key of the signer in the context of a call: a host name, or ``""`` for an operator."""
RECORD_VERSION = "record_version"
"""The version of the service record that the call carries out."""


def host_key(master_key: str, host: str) -> str:
    """Return the key of one hypervisor, a secret."""
    return _hmac(master_key, f"host {host}")


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs the calls of one sender; ``host`` is ``""`` for an operator."""

    key: str
    host: str = ""

    def sign(
        self, to: str, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the context with the signature; ``to``: the host, or the registry's topic."""
        signed = {**context, SIGNED_BY: self.host}
        return signed | {SIGNATURE: _signature(self.key, to, method, arguments, signed)}


@dataclass(frozen=True, slots=True)
class Operator:
    """The holder of the master key: signs calls of operators, and verifies all signatures."""

    master_key: str

    def signer(self) -> Signer:
        """Return the signer of an operator's calls to the registry."""
        return Signer(self._operators())

    def sign_to(
        self, to: str, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the signed context of a call to a host, which has only its own key."""
        return Signer(host_key(self.master_key, to)).sign(to, method, arguments, context)

    def verified_sender(
        self, to: str, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
    ) -> str | None:
        """Return the host that signed this call, ``""`` for an operator, ``None`` if invalid."""
        host = context.get(SIGNED_BY)
        if not isinstance(host, str):
            return None
        key = host_key(self.master_key, host) if host else self._operators()
        return host if is_signed(key, to, method, arguments, context) else None

    def _operators(self) -> str:
        return _hmac(self.master_key, "operator")


def is_signed(
    key: str, to: str, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
) -> bool:
    """Return whether the call was signed with this key for this receiver, and is unchanged."""
    signature = context.get(SIGNATURE)
    if not isinstance(signature, str) or not signature.isascii():
        return False
    return hmac.compare_digest(signature, _signature(key, to, method, arguments, context))


def _signature(
    key: str, to: str, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
) -> str:
    """Return the signature of the fields that decide; fields for logs are not signed."""
    decides = [context.get(SIGNED_BY), context.get(RECORD_VERSION)]
    return _hmac(key, json.dumps([to, method, arguments, decides], sort_keys=True))


def _hmac(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
