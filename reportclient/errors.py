"""Errors of requests to Placement; each says who acts next.

Every error carries ``request_id`` where Placement gave one, so that its log and
ours can be laid side by side.
"""

from typing import Any


class PlacementError(Exception):
    """The root of all errors of the report client.

    ``status`` is HTTP's, ``code`` and ``detail`` are Placement's own, where it answered.
    """

    status: int | None = None
    code: str | None = None
    detail: str | None = None

    def __init__(self, message: str, *, request_id: str | None = None, **details: Any) -> None:
        """``details`` are attributes by their names, such as ``retry_after``."""
        super().__init__(message)
        self.request_id = request_id
        vars(self).update(details)

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} (request {self.request_id})" if self.request_id else text


class Unreachable(PlacementError):
    """No usable answer: no connection, time-out, 5xx, 429, no page of Placement's.

    Next: the following period tries again.  What a write did is unknown until it
    has been read.
    """

    retry_after: float | None = None
    """Seconds for which Placement asked to be left alone."""


class ServerFault(Unreachable):
    """500 in Placement's own words: a race that it lost, often.

    Next: once more, now; then this provider waits for the next period, others go on.
    """


class AuthenticationFailed(Unreachable):
    """Keystone or Placement did not accept the credentials.  Next: the operator."""


class Forbidden(PlacementError):
    """403: the credentials are good, but not for this call.  Next: the operator."""


class Conflict(PlacementError):
    """409 ``placement.concurrent_update``: somebody else wrote first.

    Next: the tracker reads again, plans again and tries again, now.
    """


class NotFound(PlacementError):
    """404: the provider is gone.  Next: the tracker reads again and creates it again."""


class InUse(PlacementError):
    """409: allocations hold what was to be taken away.  Next: the operator."""


class NameTaken(PlacementError):
    """409 ``placement.duplicate_name``: another provider has this name."""


class AlreadyThere(PlacementError):
    """409 for a provider that exists with this UUID: a lost reply, or a twin was faster.

    Next: the tracker looks at it and plans anew.
    """


class UnknownNames(PlacementError):
    """400: Placement does not know these traits or resource classes: ``names``."""

    names: frozenset[str] = frozenset()


class Rejected(PlacementError):
    """Any other 4xx: the request was wrong.  Next: the author of the driver, or us."""


class NotSent(PlacementError):
    """Left out since something that it needs was refused.  Next: whoever that is up to."""


class TooOld(PlacementError):
    """This Placement does not speak the microversion that a call needs.

    ``speaks`` is the newest that it has, where that is known.
    """

    speaks: str | None = None


class TooNew(PlacementError):
    """This Placement speaks none of the microversions of this client.  Next: upgrade the client."""
