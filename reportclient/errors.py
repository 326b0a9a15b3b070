"""Errors of requests to Placement, by what has to happen next and who has to do it.

Every error has the ``request_id`` of Placement's answer, if there is one, to find the request in
Placement's log.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeGuard, TypeVar

if TYPE_CHECKING:
    from reportclient.plan import Problem

Next: TypeAlias = Literal["retry", "candidate", "wait", "operator", "code"]
"""The caller's next step: the same again, with another candidate, again once consumers or other
services have released it, after an operator's work, or not before the calling code is corrected."""
E = TypeVar("E", bound=BaseException)


def without_frames(err: E) -> E:
    """Return the error without traceback, cause and context, so that it can be kept.

    They hold the variables of every function on the way, among them earlier errors.
    """
    err.__traceback__ = err.__cause__ = err.__context__ = None
    return err


class PlacementError(Exception):
    """The base class of all errors of requests to Placement.

    ``status`` is the HTTP status, ``code`` and ``detail`` are those of Placement's error object;
    ``None`` if there was no such answer.
    """

    next: ClassVar[Next] = "retry"
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

    Next: the caller tries again later.  Whether a write was done is unknown, unless ``unsent``: ask
    for it first.
    """

    retry_after: float | None = None
    """Seconds of the answer's ``Retry-After``, or ``None``."""
    unsent: bool = False
    """Whether the request was not carried out: no connection, or a 503 or 429 before Placement."""


class WrongForm(Unreachable):
    """An answer that is not Placement's: no JSON, or a value of another type than Placement's.

    Next: nothing of it is used, and the client reads again.  If it is repeated, the operator finds
    out what answers at Placement's address.
    """


class ServerFault(Unreachable):
    """500 from Placement itself, often caused by a race inside it.

    Next: the client tries once more at once; then only this provider's operations wait.
    """


class AuthenticationFailed(Unreachable):
    """Keystone or Placement did not accept the credentials.  Next: the operator corrects them."""

    next: ClassVar[Next] = "operator"


class NoEndpoint(Unreachable):
    """Not sent: no endpoint in Keystone's catalogue matches the options.

    Next: the operator corrects the options or the catalogue, which is read again.
    """


class Forbidden(PlacementError):
    """403: the user may not make this call.  Next: the operator grants the role."""

    next: ClassVar[Next] = "operator"


class Conflict(PlacementError):
    """409 ``placement.concurrent_update``: another client wrote first.

    Next: the client reads, plans and writes again, at once.
    """


class NotFound(PlacementError):
    """404: the provider does not exist.  Next: the client reads and plans again."""


class InUse(PlacementError):
    """409: consumers or providers use what was to be removed.  Next: the operator moves them."""

    next: ClassVar[Next] = "wait"

    classes: frozenset[str] = frozenset()
    """Classes of which consumers hold more than an inventory leaves, so that it was not sent."""


class Shared(InUse):
    """Not sent: other hosts are in the sharing provider's aggregates, and may use it."""


class Kept(InUse):
    """Not sent: the provider has something of another client.  Next: that client removes it."""


class NameTaken(PlacementError):
    """409 ``placement.duplicate_name``: another provider has this name.  Next: see the message."""

    next: ClassVar[Next] = "operator"


class AlreadyThere(PlacementError):
    """409: a provider with this UUID exists, after a lost reply or created by another client.

    Next: the client reads it and plans again.
    """


class UnknownNames(PlacementError):
    """400: Placement does not know the traits or resource classes in ``names``.

    Next: the client creates custom ones, leaves out others, and plans again.
    """

    next: ClassVar[Next] = "code"

    names: frozenset[str] = frozenset()


class Rejected(PlacementError):
    """Any other 4xx: the request is wrong.  Next: the author corrects the calling code."""

    next: ClassVar[Next] = "code"


class NoCapacity(Rejected):
    """409: an allocation does not fit.  Next: the caller takes another candidate."""

    next: ClassVar[Next] = "candidate"


class Wrong(PlacementError, ValueError):
    """Data that no Placement takes: nothing was sent.  Next: the author corrects the calling code.

    ``problems`` has one entry for each wrong value.
    """

    next: ClassVar[Next] = "code"
    problems: "tuple[Problem, ...]" = ()


class NotOwned(Wrong):
    """The change is of a provider that another service owns: nothing was sent."""


class NotSent(PlacementError):
    """Not sent: what it requires was refused, or is not as it was.  Next: read the text."""


class TooOld(PlacementError):
    """This Placement does not support the microversion that a request needs.

    ``newest`` is the newest microversion that it supports, if known.
    """

    next: ClassVar[Next] = "operator"

    newest: str | None = None


class TooNew(PlacementError):
    """This Placement supports no microversion of this client.  Next: upgrade the client."""

    next: ClassVar[Next] = "operator"


OF_OPTIONS = (AuthenticationFailed, Forbidden, NoEndpoint)
"""Errors that options of the client's configuration may have caused."""
PLAN_ANEW = (AlreadyThere, Conflict, NotFound, UnknownNames)
"""Errors after which the tree is read and planned again, in the same attempt."""
PASSING = (*PLAN_ANEW, ServerFault)
"""Errors that usually pass by themselves: an operation that met one is sent again soon."""


def is_passing(err: object) -> bool:
    """Return whether ``err`` is one of ``PASSING``."""
    return isinstance(err, PASSING)


def is_silence(err: object) -> TypeGuard[Unreachable]:
    """Return whether ``err`` says that Placement did not answer."""
    return isinstance(err, Unreachable) and not isinstance(err, ServerFault)
