"""Errors that a driver may raise, each with the agent's reaction."""


class DriverError(Exception):
    """The root of the errors that concern a driver."""


class DriverNotReady(DriverError):
    """The backend can't answer now: the node is skipped until the next period.

    Nothing of what was reported before is taken away.
    """


class ReshapeNeeded(DriverError):
    """Inventory has to move between providers or classes together with its allocations.

    Raise it from ``update_provider_tree`` when ``allocations`` is ``None``.  The
    agent then calls again with a fresh tree and with the allocations.
    """


class ReshapeFailed(DriverError):
    """The allocations can't be moved.  At start the agent exits; later it goes on without.

    ``error`` is how Nova's drivers name the reason.
    """

    def __init__(self, *args: object, error: object = None) -> None:
        super().__init__(*args, *(() if error is None else (error,)))


class DriverNotFound(DriverError):
    """No driver of this name is installed."""


class DriverLoadFailed(DriverError):
    """The driver is installed but can't be used; the cause is chained."""
