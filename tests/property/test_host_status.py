"""The machine of a host's status: no decision of an operator or the registry is lost."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent.registry.checks import AUTO
from agent.registry.record import ServiceRecord
from agent.switching.machine import (
    CALLER_EVENTS,
    UNTOUCHED,
    Event,
    ServiceStatus,
    Verdict,
    after,
    after_record,
    verdict,
)

reasons = st.sampled_from([None, "new disks", f"{AUTO}libvirtd is gone"])
versions = st.integers(UNTOUCHED, 5)
statuses = st.builds(
    ServiceStatus,
    st.sampled_from([None, True, False]),
    reasons,
    st.none() | versions,
    st.booleans(),
    st.booleans(),
)
records = st.builds(
    lambda version, disabled, reason: ServiceRecord(
        1, "u", "host1", version=version, disabled=disabled, disabled_reason=reason
    ),
    versions,
    st.booleans(),
    reasons,
)
events = st.sampled_from(Event)
PROGRAMS = [event for event in Event if event not in CALLER_EVENTS]


def moved(status: ServiceStatus, event: Event) -> ServiceStatus:
    reason = f"{AUTO}gone" if event is Event.LOST else None
    return after(status, event, reason)[0]


@given(statuses, events)
def test_an_event_that_comes_twice_is_as_good_as_once(status, event) -> None:
    once = moved(status, event)
    assert moved(once, event) is once


@given(statuses, st.lists(st.sampled_from(PROGRAMS)))
def test_no_program_touches_what_an_operator_disabled(status, program) -> None:
    disabled, _ = after(replace(status, reason=None), Event.DISABLE)
    now = disabled
    for event in program:
        now = moved(now, event)
    assert now is disabled


@given(statuses, events)
def test_a_new_decision_is_not_acknowledged_and_keeps_the_version(status, event) -> None:
    new = moved(status, event)
    if new is not status:
        assert not new.acknowledged and new.record_version == status.record_version


@given(statuses, st.booleans(), versions)
def test_a_call_with_a_version_that_was_seen_changes_nothing(status, disabled, version) -> None:
    event = Event.DISABLE if disabled else Event.ENABLE
    new, _ = after(status, event, version=version)
    seen = status.record_version is not None and version <= status.record_version
    assert (new is status) if seen else (new.disabled is disabled and new.acknowledged)


@given(statuses, records)
def test_a_record_that_was_restored_enables_no_host(status, record) -> None:
    older = status.record_version is not None and record.version < status.record_version
    if status.disabled and not record.disabled and older:
        assert verdict(status, record) is Verdict.STATUS_IS_LATER


@given(statuses, records)
def test_where_the_record_holds_both_agree_afterwards(status, record) -> None:
    if verdict(status, record) in (Verdict.RECORD, Verdict.RECORD_CHANGED):
        new, _ = after_record(status, record)
        assert new.acknowledged and new.record_version == record.version
        assert new.disabled in (None, record.disabled)
        assert verdict(new, record) is Verdict.RECORD


@given(statuses, records)
def test_where_ours_holds_the_record_that_is_written_is_agreed_with(status, record) -> None:
    if verdict(status, record) in (Verdict.STATUS, Verdict.STATUS_IS_LATER):
        written = replace(
            record,
            version=record.version + 1,
            disabled=bool(status.disabled),
            disabled_reason=status.reason,
        )
        assert after_record(status, written)[0].disabled == bool(status.disabled)


@given(statuses, records)
def test_an_operators_record_beats_a_programs_decision(status, record) -> None:
    by_operator = replace(record, disabled=True, disabled_reason="new disks")
    program = replace(status, acknowledged=False, by_program=True)
    if status.record_version != record.version:
        assert verdict(program, by_operator) in (Verdict.RECORD, Verdict.RECORD_CHANGED)


def test_a_host_that_a_call_enabled_is_enabled_once_its_hypervisor_is_back() -> None:
    """The record is that of before the call: no heartbeat came in between."""
    record = ServiceRecord(1, "u", "host1", disabled=True, disabled_reason="new disks", version=3)
    status, _ = after_record(ServiceStatus(), record)
    status, _ = after(status, Event.ENABLE)
    status, _ = after(status, Event.LOST, "AUTO: libvirtd is gone")
    assert verdict(status, record) is Verdict.STATUS
