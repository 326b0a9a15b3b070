"""Errors of service records; each says who acts next.

The same errors come from the store and, over RPC, from the client.
"""


class RegistryError(Exception):
    """The root of all errors of the registry."""


class UnknownHost(RegistryError):
    """No service has this name or UUID.  Next: whoever asked."""


class HostTaken(RegistryError):
    """Another agent, that is up, sends heartbeats with this host's name.

    Next: the operator, who gives one of them another ``host``.  The message names both
    addresses.
    """


class Attached(RegistryError):
    """The host's compute service is nova-compute's.  Next: whoever asked, by Nova's API."""


class ReasonRefused(RegistryError):
    """A reason that can't be stored: empty, too long, or given while enabling."""


class InputRefused(RegistryError):
    """An argument can't be used: a name of 300 characters, a number below 0.  Next: the sender."""


class Changed(RegistryError):
    """Somebody else changed the record since it was read.  Next: read it and decide again."""


class StillUp(RegistryError):
    """A service that is up can't be deleted: its next heartbeat would make it anew."""


class DatabaseRefused(RegistryError):
    """An agent or a command was given a fleet's database, which only compute-registry opens.

    Next: the operator, who sets ``[registry] access = rpc``.
    """


class RegistryUnavailable(RegistryError):
    """No answer: the database, the broker or every ``compute-registry`` is away.

    Next: try again later; the last known status holds.  What a write did is unknown until
    the record has been read.
    """
