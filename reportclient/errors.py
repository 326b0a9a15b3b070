"""Errors of requests to Placement, by what has to happen next.

Every error has the ``request_id`` of the answer, if there is one, so that the caller's log can
be compared with Placement's.
"""

from typing import Any


class PlacementError(Exception):
    """The base class of all errors of requests to Placement.

    ``status`` is the HTTP status, ``code`` and ``detail`` are those of Placement's error object;
    ``None`` if there was no such answer.
    """

    status: int | None = None
    code: str | None = None
    detail: str | None = None

    def __init__(self, message: str, *, request_id: str | None = None, **details: Any) -> None:
        """Create an error; ``details`` become attributes, such as ``retry_after``."""
        super().__init__(message)
        self.request_id = request_id
        vars(self).update(details)

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} (request {self.request_id})" if self.request_id else text


class Unreachable(PlacementError):
    """No usable answer: no connection, time-out, 5xx, 429, or an answer that is not Placement's.

    Next: the caller tries again later.  Whether a write was done is unknown: read first.
    """

    retry_after: float | None = None
    """Seconds of the answer's ``Retry-After``, or ``None``."""


class ServerFault(Unreachable):
    """500 from Placement itself, often a race that it lost.

    Next: the client tries once more at once; then this provider waits, others go on.
    """


class AuthenticationFailed(Unreachable):
    """Keystone or Placement did not accept the credentials.  Next: the operator."""


class Forbidden(PlacementError):
    """403: the credentials are good, but not for this call.  Next: the operator."""


class Conflict(PlacementError):
    """409 ``placement.concurrent_update``: another client wrote first.

    Next: the client reads, plans and writes again, at once.
    """


class NotFound(PlacementError):
    """404: the provider does not exist.  Next: the client reads and plans again."""


class InUse(PlacementError):
    """409: consumers hold allocations on what was to be removed.  Next: the operator."""


class NameTaken(PlacementError):
    """409 ``placement.duplicate_name``: another provider has this name.  Next: the operator."""


class AlreadyThere(PlacementError):
    """409: a provider with this UUID exists, after a lost reply or created by another client.

    Next: the client reads it and plans again.
    """


class UnknownNames(PlacementError):
    """400: Placement does not know the traits or resource classes in ``names``.

    Next: the client creates custom ones, leaves out others, and plans again.
    """

    names: frozenset[str] = frozenset()


class Rejected(PlacementError):
    """Any other 4xx: the request was wrong.  Next: the author of the calling code."""


class NotSent(PlacementError):
    """An operation was not sent because another one, which it needs, was refused."""


class TooOld(PlacementError):
    """This Placement does not support the microversion that a request needs.

    ``speaks`` is the newest microversion that it supports, if known.
    """

    speaks: str | None = None


class TooNew(PlacementError):
    """This Placement supports no microversion of this client.  Next: upgrade the client."""
