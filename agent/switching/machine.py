"""The state machine of a host that is enabled or disabled: status, event -> status, effects.  Pure.

``TABLE`` has the next state for each event and state, :func:`after` and :func:`after_record` the
next status and its effects.  :func:`verdict` decides whether the registry's record or this
agent's status holds.

A changed status is saved in ``service.json``; then ``host_status.py`` carries out the effects.  A
status is acknowledged if it came from the registry, or once the registry has it.  Without a
registry ``service.json`` is the record of the host: ``record_version`` counts its changes, by the
agent and by commands.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, Flag, auto

from agent.registry.checks import AUTO, StatusChange
from agent.registry.record import ServiceRecord

UNTOUCHED = 1
"""The version of a record whose status was never changed."""
REASON_FOUND = "found disabled in Placement"


class State(Enum):
    """The state of this host, as this agent knows it."""

    UNKNOWN = "neither this agent nor the registry knows: the trait stays as it is"
    NEW = "the status in the record was never changed, and this agent has none"
    ENABLED = "takes new guests"
    DISABLED = "disabled, until an operator enables it"
    AUTO = "disabled because the hypervisor was lost, until it is back"


class Event(Enum):
    """An event that may change the state; a record of the registry has :func:`after_record`."""

    DISABLE = "a caller disables the host"
    ENABLE = "a caller enables the host"
    ASK = "a caller is answered by what holds"
    LOST = "the hypervisor is lost"
    BACK = "the hypervisor was back for long enough"
    FOUND_DISABLED = "the roots were read, and have the trait"
    FOUND_ENABLED = "the roots were read, and do not have it"


class Effect(Flag):
    """What follows from an event, once the status is saved."""

    NOTHING = 0
    REGISTER = auto()
    """The registry may lack the status: the next heartbeat is sent now."""
    WRITE = auto()
    """The trait is written to the roots now."""
    WRITE_SPREAD = auto()
    """The same, at a random time: an operator may have changed all records at once."""
    ALL = REGISTER | WRITE


_SAME = None
TABLE: Mapping[Event, Mapping[State, State | None]] = {
    event: dict(zip(State, row, strict=True))
    for event, row in {
        # before:              UNKNOWN         NEW             ENABLED         DISABLED       AUTO
        Event.DISABLE: (State.DISABLED, State.DISABLED, State.DISABLED, _SAME, State.DISABLED),
        Event.ENABLE: (State.ENABLED, State.ENABLED, _SAME, State.ENABLED, State.ENABLED),
        Event.ASK: (_SAME, _SAME, _SAME, _SAME, _SAME),
        Event.LOST: (State.AUTO, State.AUTO, State.AUTO, _SAME, _SAME),
        Event.BACK: (_SAME, _SAME, _SAME, _SAME, State.ENABLED),
        Event.FOUND_DISABLED: (_SAME, State.DISABLED, _SAME, _SAME, _SAME),
        Event.FOUND_ENABLED: (_SAME, State.ENABLED, _SAME, _SAME, _SAME),
    }.items()
}
CALLER_EVENTS = frozenset({Event.DISABLE, Event.ENABLE, Event.ASK})
"""Events of a caller, who waits for all effects, in case an earlier write was lost.  All others
come from a program, yield to an operator's record, and have effects only where they change it."""
FOUND = frozenset({Event.FOUND_DISABLED, Event.FOUND_ENABLED})
"""Events after which the trait is as it has to be."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The last known status of this host; ``disabled`` is ``None`` while it is unknown.

    ``record_version``: the version of the record that is known.  ``acknowledged``: whether
    the registry has this status.  ``by_program``: whether a program, not a caller, set it.
    """

    disabled: bool | None = None
    reason: str | None = None
    record_version: int | None = None
    acknowledged: bool = True
    by_program: bool = False

    @property
    def state(self) -> State:
        """The state, a column of ``TABLE``."""
        if self.disabled is None:
            return State.NEW if self.record_version == UNTOUCHED else State.UNKNOWN
        if not self.disabled:
            return State.ENABLED
        return State.AUTO if (self.reason or "").startswith(AUTO) else State.DISABLED

    def __str__(self) -> str:
        status = "disabled" if self.disabled else "enabled"
        return f"{status} ({self.reason})" if self.reason else status


Step = tuple[ServiceStatus, Effect]
"""The status after an event, the same object if nothing changes, and what follows."""


def after(
    status: ServiceStatus, event: Event, reason: str | None = None, version: int | None = None
) -> Step:
    """Return the next step after an event of ``TABLE``.

    ``version``: the version in which the record has the caller's change already; the call changes
    nothing if this version or a later one is known.
    """
    by_program = event not in CALLER_EVENTS
    known, state = status.record_version, TABLE[event][status.state]
    disabled = state in (State.DISABLED, State.AUTO)
    new = status
    if version is not None:
        if known is None or known < version:
            new = ServiceStatus(event is Event.DISABLE, None, version)
    elif state is not None:
        new = ServiceStatus(disabled, reason, known, acknowledged=False, by_program=by_program)
    if by_program and new is status:
        return status, Effect.NOTHING
    return new, Effect.REGISTER if event in FOUND else Effect.ALL


def with_next_version(status: ServiceStatus) -> ServiceStatus:
    """Return a changed status of a host without a registry: of two the later one holds."""
    return replace(status, record_version=(status.record_version or 0) + 1)


def after_record(status: ServiceStatus, record: ServiceRecord) -> Step:
    """Return the next step if the record holds.

    A record that was never changed was created by the first heartbeat: it does not tell whether
    the host was disabled in Placement before.
    """
    new = ServiceStatus(record.disabled, record.disabled_reason, record.version)
    if status.disabled is None and not record.disabled and record.version == UNTOUCHED:
        new = ServiceStatus(record_version=record.version)
    # A host that starts enabled is in no hurry: its first period writes the trait.
    hurries = new.disabled or status.disabled is not None
    differs = new.disabled != status.disabled
    effects = Effect.WRITE_SPREAD if differs and hurries else Effect.NOTHING
    return (status if new == status else new), effects


class Verdict(Enum):
    """Whether the registry's record or this agent's status holds; two values are log lines."""

    RECORD = "the record holds"
    RECORD_CHANGED = (
        "The service record was changed later than this host's status, which is replaced: %s"
    )
    STATUS = "the status of this agent is written to the record"
    STATUS_IS_LATER = (
        "The registry has an older record than before (%s), perhaps from a backup: "
        "this host's own status is written into the record"
    )


def verdict(status: ServiceStatus, record: ServiceRecord) -> Verdict:
    """Return whether the record or the status holds."""
    by_operator = record.disabled and not record.is_auto
    known = status.record_version
    if known is not None and record.version < known:
        # The record was restored or created anew.  It must not enable a host, nor replace an
        # operator's decision by an automatic one, which a program may end.  Otherwise a record
        # that disables holds at any age.
        overrides_operator = status.state is State.DISABLED and not by_operator
        if overrides_operator or (status.disabled and not record.disabled):
            return Verdict.STATUS_IS_LATER
    if status.acknowledged:
        return Verdict.RECORD
    same_status = bool(status.disabled) == record.disabled
    if same_status and (status.state is State.AUTO) == record.is_auto:
        return Verdict.RECORD
    # An operator's decision in a new record outweighs a program's here, even if no record is known.
    if record.version != known and (known is not None or (status.by_program and by_operator)):
        return Verdict.RECORD_CHANGED
    return Verdict.STATUS


def change_of(host: str, status: ServiceStatus, record: ServiceRecord) -> StatusChange:
    """Return the change that writes this agent's status into the record."""
    versions = {"expected_version": record.version, "new_version": record.version + 1}
    return StatusChange(host, disabled=bool(status.disabled), reason=status.reason, **versions)


def is_made(change: StatusChange, record: ServiceRecord) -> bool:
    """Return whether the record is that after a change by this agent, whose reply was lost."""
    made = change.new_version, change.disabled, change.reason
    return made == (record.version, record.disabled, record.disabled_reason)
