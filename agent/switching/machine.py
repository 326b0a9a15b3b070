"""Whether this host takes new guests: its states, what moves it, and who is right.  Pure.

Two tables decide, and nothing else does.  ``TABLE``: what an event makes of each state.
``VERDICTS``: whether the registry's record holds, or what is known here.

What follows from a move is the same for all: the status is kept in ``service.json``, the
registry hears of it with the next heartbeat, and the trait on the roots follows (but where
it was found there, and is right already).  An event that moves nothing keeps the status as
it is.  What the registry says is acknowledged; what is decided here is not, until the
registry has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from agent.registry.checks import AUTO

if TYPE_CHECKING:
    from agent.registry.record import ServiceRecord

UNTOUCHED = 1
"""Version of a record whose status nobody has changed."""
FOUND = "found disabled in Placement"


class State(Enum):
    """The state of this host, as this agent knows it."""

    UNKNOWN = "not heard of, neither here nor in the registry: the trait stays as it is"
    NEW = "the registry has a record that nobody has changed, and nobody here has decided"
    ENABLED = "takes new guests"
    DISABLED = "disabled, until an operator enables it"
    AUTO = "disabled since its hypervisor was lost, until that is back"


class Event(Enum):
    """An event other than a record of the registry."""

    DISABLE = "a caller disables the host"
    ENABLE = "a caller enables the host"
    LOST = "the hypervisor is lost"
    BACK = "the hypervisor was back for long enough"
    FOUND_DISABLED = "the roots were read, and carry the trait"
    FOUND_ENABLED = "the roots were read, and do not"


_SAME = None
TABLE: Mapping[Event, Mapping[State, State | None]] = {
    event: dict(zip(State, row, strict=True))
    for event, row in {
        # before:              UNKNOWN         NEW             ENABLED         DISABLED       AUTO
        Event.DISABLE: (State.DISABLED, State.DISABLED, State.DISABLED, _SAME, State.DISABLED),
        Event.ENABLE: (State.ENABLED, State.ENABLED, _SAME, State.ENABLED, State.ENABLED),
        Event.LOST: (State.AUTO, State.AUTO, State.AUTO, _SAME, _SAME),
        Event.BACK: (_SAME, _SAME, _SAME, _SAME, State.ENABLED),
        Event.FOUND_DISABLED: (_SAME, State.DISABLED, _SAME, _SAME, _SAME),
        Event.FOUND_ENABLED: (_SAME, State.ENABLED, _SAME, _SAME, _SAME),
    }.items()
}
OF_A_CALLER = frozenset({Event.DISABLE, Event.ENABLE})
"""All others a program reports; it yields to an operator's record."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The last known status of this host; ``disabled`` is ``None`` before there was one.

    ``record_version`` is that of the record that was seen last.  ``acknowledged`` is false
    for what the registry does not have yet; ``by_program``: nobody asked for it.
    """

    disabled: bool | None = None
    reason: str | None = None
    record_version: int | None = None
    acknowledged: bool = True
    by_program: bool = False

    @property
    def state(self) -> State:
        """Where it stands in ``TABLE``."""
        if self.disabled is None:
            return State.NEW if self.record_version == UNTOUCHED else State.UNKNOWN
        if not self.disabled:
            return State.ENABLED
        return State.AUTO if (self.reason or "").startswith(AUTO) else State.DISABLED

    def __str__(self) -> str:
        status = "disabled" if self.disabled else "enabled"
        return f"{status} ({self.reason})" if self.reason else status


def after(status: ServiceStatus, event: Event, reason: str | None = None) -> ServiceStatus:
    """The status after the event: the same object if nothing changes."""
    state = TABLE[event][status.state]
    if state is None:
        return status
    disabled = state in (State.DISABLED, State.AUTO)
    by_program = event not in OF_A_CALLER
    return ServiceStatus(
        disabled, reason, status.record_version, acknowledged=False, by_program=by_program
    )


def after_call(status: ServiceStatus, *, disabled: bool, version: int) -> ServiceStatus:
    """After a call which says that the record has this version: an older one changes nothing."""
    if status.record_version is not None and status.record_version >= version:
        return status
    return ServiceStatus(disabled, None, version)


def after_record(status: ServiceStatus, record: ServiceRecord) -> ServiceStatus:
    """Where the record holds.

    One that nobody has ever changed was made by a first heartbeat, and says nothing about a
    host that somebody may have disabled in Placement before.
    """
    if status.disabled is None and not record.disabled and record.version == UNTOUCHED:
        return ServiceStatus(record_version=record.version)
    return ServiceStatus(record.disabled, record.disabled_reason, record.version)


class Verdict(Enum):
    """Whether the registry's record or this agent's status holds."""

    RECORD = "the record holds"
    RECORD_CHANGED = "the record holds: somebody changed it after what was decided here"
    OURS = "what was decided here goes into the record"
    OURS_IS_LATER = "the same, since the record is an older one"


def _record_is_older(ours: ServiceStatus, record: ServiceRecord) -> bool:
    """Return whether a restored or recreated record would enable this host.

    Whoever lost it did not decide that; nor that a program may enable what an operator has
    disabled.  Any other record that disables counts, whatever its age.
    """
    if ours.record_version is None or record.version >= ours.record_version:
        return False
    if ours.state is State.DISABLED:
        return not record.disabled or record.is_auto
    return bool(ours.disabled) and not record.disabled


def _is_acknowledged(ours: ServiceStatus, _: ServiceRecord) -> bool:
    return ours.acknowledged


def _agree(ours: ServiceStatus, record: ServiceRecord) -> bool:
    same = bool(ours.disabled) == record.disabled
    return same and (ours.state is State.AUTO) == record.is_auto


def _operator_beats_program(ours: ServiceStatus, record: ServiceRecord) -> bool:
    """Not one whose decision is known here: a call has enabled the host since."""
    is_new = ours.record_version != record.version
    return is_new and ours.by_program and record.disabled and not record.is_auto


def _changed_since(ours: ServiceStatus, record: ServiceRecord) -> bool:
    return ours.record_version is not None and ours.record_version != record.version


VERDICTS: tuple[tuple[Callable[[ServiceStatus, ServiceRecord], bool], Verdict], ...] = (
    (_record_is_older, Verdict.OURS_IS_LATER),
    (_is_acknowledged, Verdict.RECORD),
    (_agree, Verdict.RECORD),
    (_operator_beats_program, Verdict.RECORD_CHANGED),
    (_changed_since, Verdict.RECORD_CHANGED),
)
"""The first that applies; if none does, ``OURS``."""


def verdict(ours: ServiceStatus, record: ServiceRecord) -> Verdict:
    """Return whether the record or the status holds."""
    return next((right for applies, right in VERDICTS if applies(ours, record)), Verdict.OURS)
