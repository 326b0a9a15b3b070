"""Errors of the message bus, and types of signing and permission checks.  Pure.

It does not import oslo.messaging.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

Values = Mapping[str, Any]
"""The arguments of a call, or its context."""
OpenAnswer = Callable[[str, Values, Any], Any]
"""Takes the called host, the context that was sent, and the answer; returns the answer without its
signature, or raises :class:`NotPermitted`."""
Sign = Callable[[str, str, Values, Values], dict[str, Any]]
"""Takes the receiver, a method, its arguments and a context; returns the signed context."""
WAITED = "waited_unheard"
"""The key in the context of a call that waited in the queue while the agent did not listen."""
OK, REFUSED, FAILED = "ok", "refused", "failed"
"""The outcomes of a call."""


class Permit(Protocol):
    """Decides on calls to a server, and signs its answers."""

    def __call__(self, method: str, arguments: Values, context: Values) -> None:
        """:raises NotPermitted: the sender may not make this call."""

    def signed(self, context: Values, answer: Any) -> Any:
        """Return the answer to a call with this context as it is sent."""


class MessagingError(Exception):
    """The base of all errors of the message bus."""


class TransportUnavailable(MessagingError):
    """The transport URL can't be used, or the broker can't be reached."""


class NoAnswer(MessagingError):
    """No answer came in time: there is no such server, or it is down, slow, or cut off."""


class NotPermitted(MessagingError):
    """The sender of this call may not make it, or its signature is missing or wrong."""


class RemoteFault(MessagingError):
    """The other side answered with an error."""


class CallRefused(RemoteFault):
    """The other side raised :class:`NotPermitted`.  Next: the operator corrects the keys."""
