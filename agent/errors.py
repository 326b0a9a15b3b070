"""Errors of the message bus and of the registry, with who has to act next.  Pure.

The registry's store and its RPC client raise the same errors.  oslo.messaging is not imported here.
"""


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


class RegistryError(Exception):
    """The base class of the registry's errors."""


class UnknownHost(RegistryError):
    """No service has this name or UUID.  Next: the caller."""


class HostTaken(RegistryError):
    """Another agent that is up sends heartbeats with this host name.

    Next: the operator gives one of them another ``host``.  The message has both addresses.
    """


class Attached(RegistryError):
    """The agent is in attach mode.  Next: the caller changes the service in Nova's API."""


class ReasonRefused(RegistryError):
    """The reason is invalid: empty, too long, or given while enabling.  Next: the caller."""


class InputRefused(RegistryError):
    """An argument is invalid, such as a name of 300 characters.  Next: the caller."""


class Changed(RegistryError):
    """The record was changed after it was read.  Next: the caller reads it and decides again."""


class StillUp(RegistryError):
    """A service that is up can't be deleted: its next heartbeat would create it again."""


class RegistryUnavailable(RegistryError):
    """The database, the broker or every ``compute-registry`` is unreachable.

    Next: the caller retries later; the last known status holds.  Whether a write was done is
    unknown until the record is read.
    """


class SignatureRefused(RegistryError):
    """The registry did not accept the call's signature.  Next: the operator corrects the keys."""
