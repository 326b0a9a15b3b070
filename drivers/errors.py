"""Errors that a driver may raise, and how the agent reacts to each."""


class DriverError(Exception):
    """Base class of errors that concern a driver."""


class DriverNotReady(DriverError):
    """The backend can't answer now: the agent skips the node until the next period.

    What was reported before stays in Placement.
    """


class ReshapeNeeded(DriverError):
    """Inventory has to move between providers or classes together with its allocations.

    Raise it from ``update_provider_tree`` when ``allocations`` is ``None``.  The
    agent then calls again with a fresh tree and with the allocations.
    """


class ReshapeFailed(DriverError):
    """The allocations can't be moved.  At its start the agent exits; later it skips the reshape.

    Nova's drivers pass the reason as ``error``.
    """

    def __init__(self, *args: object, error: object = None) -> None:
        super().__init__(*args, *(() if error is None else (error,)))


class DriverNotFound(DriverError):
    """No driver of this name is installed."""


class DriverLoadFailed(DriverError):
    """The driver is installed but can't be used; the cause is chained."""
