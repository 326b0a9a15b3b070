"""Calls over the bus that say by whom they are, so that it can be proved.  Pure.

Every user of the broker can put a message into every queue: oslo.messaging sends answers
through the default exchange, which reaches all of them, so agents have to have the right to it.
So a call carries a signature.  One master key is with ``compute-registry`` and operators; each
hypervisor has a key that is made from it for its own host, and proves to be that host only.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SIGNATURE = "signature"
SIGNED_BY = "signed_by"
"""In the context of a call: a host, or an empty text for an operator."""
RECORD_VERSION = "record_version"


def host_key(master_key: str, host: str) -> str:
    """The key of one hypervisor; the host's name is no secret, the key is."""
    return _hmac(master_key, f"host {host}")


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs what one party sends; ``host`` is empty for an operator."""

    key: str
    host: str = ""

    def signed(
        self, to: str, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The context with the signature; ``to`` is the host that is called, or the registry."""
        said = {**context, SIGNED_BY: self.host}
        return said | {SIGNATURE: _signature(self.key, to, method, arguments, said)}


@dataclass(frozen=True, slots=True)
class Operator:
    """Has the master key: signs for operators, and knows who has signed."""

    master_key: str

    def signer(self) -> Signer:
        """For calls to the registry."""
        return Signer(self._operators())

    def sign_to(
        self, to: str, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
    ) -> dict[str, Any]:
        """For a call to a host, which knows its own key only."""
        return Signer(host_key(self.master_key, to)).signed(to, method, arguments, context)

    def who(
        self, to: str, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
    ) -> str | None:
        """The host that has signed this, empty for an operator; ``None`` if nobody has."""
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
    """Whether this was signed with this key, for this receiver, and not changed since."""
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
