"""Errors of the message bus, and the types of its permission checks; no bus is loaded.  Pure."""

from collections.abc import Callable, Mapping
from typing import Any

Permit = Callable[[str, Mapping[str, Any], Mapping[str, Any]], None]
"""Of a method, its arguments, and the context of the call: raises :class:`NotPermitted`."""
Sign = Callable[[str, str, Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]
"""Of the receiver, a method, its arguments and a context: the context with a signature."""
WAITED = "waited_unheard"
"""In the context of a call that waited while nobody listened here."""
OK, REFUSED, FAILED = "ok", "refused", "failed"
"""What becomes of a call."""


class MessagingError(Exception):
    """The root of what goes wrong on the bus."""


class TransportUnavailable(MessagingError):
    """The transport URL can't be used, or the broker is not there."""


class NoAnswer(MessagingError):
    """Nobody answered in time: no such server, or it is down, slow, or cut off."""


class NotPermitted(MessagingError):
    """The sender of this call may not make it, or its signature is missing or wrong."""


class RemoteFault(MessagingError):
    """The other side answered with an error."""
