"""What a record says about its service, and how records travel."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import errors
from agent.errors import ReasonRefused
from agent.registry import checks, wire
from agent.registry.checks import StatusChange
from agent.registry.record import is_alive, rivals
from agent.switching.heartbeat import agent_address
from compute_registry.observed_service import renamed_hosts
from tests.unit.registry.fakes import record


@pytest.mark.parametrize(
    ("fields", "alive", "up"),
    [
        ({"silent_for": 0.0}, True, True),
        ({"silent_for": 60.0}, True, True),
        ({"silent_for": 60.1}, False, False),
        ({"silent_for": 0.0, "forced_down": True}, True, False),
        ({"silent_for": None, "last_seen": None}, False, False),
    ],
)
def test_up_means_recent_heartbeats_and_not_forced_down(
    fields: dict[str, object], alive: bool, up: bool
) -> None:
    assert (is_alive(record(**fields)), record(**fields).is_up()) == (alive, up)


ROOT = "c0ffee00-0000-4000-8000-000000000001"
OURS = "host2 (boot 2, /var/lib/compute-agent)"


@pytest.mark.parametrize(
    ("fields", "is_rival"),
    [
        ({"host": "host1", "address": "host1 (boot 1, /var/lib/compute-agent)"}, True),
        ({"host": "host2", "address": "host2 (boot 1, /var/lib/compute-agent)"}, True),
        ({"host": "host2", "address": "host2 (boot 1, /var/lib/compute-agent)", "roots": ()}, True),
        ({"host": "host1", "address": "host1 (boot 1, /x)", "roots": ()}, False),
        ({"host": "host1", "address": "host1 (boot 1, /x)", "silent_for": 61.0}, False),
        ({"host": "host1", "address": OURS.replace("host2", "host1")}, False),
        ({"host": "host2", "address": OURS}, False),
    ],
)
def test_a_rival_is_up_elsewhere_with_the_root_or_the_host_name(
    fields: dict[str, Any], is_rival: bool
) -> None:
    other = record(**{"roots": (ROOT,), "silent_for": 60.0, **fields})
    denied = rivals([other], checks.HeartbeatMessage("host2", OURS, roots=(ROOT,)), 60.0)
    assert denied.keys() == ({ROOT} if is_rival else set())


OLD = OURS.replace("host2", "host1")


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({}, {}, {"host2": "host1"}),
        ({"roots": ()}, {"roots": (ROOT,)}, {"host1": "host2"}),
        ({}, {"roots": ("c0ffee00-0000-4000-8000-000000000002",)}, {}),
        ({"address": OLD.replace("boot 2", "boot 1")}, {}, {}),
        ({"address": None}, {"address": None}, {}),
    ],
)
def test_a_renamed_host_has_one_agent_and_two_records(
    old: dict[str, Any], new: dict[str, Any], found: dict[str, str]
) -> None:
    records = [
        record(**{"host": "host1", "address": OLD, "roots": (ROOT,), **old}),
        record(**{"host": "host2", "address": OURS, "roots": (), **new}),
    ]
    assert {host: other.host for host, other in renamed_hosts(records).items()} == found


@pytest.mark.parametrize(
    ("disabled", "reason", "auto"),
    [
        (True, "AUTO: libvirtd is lost", True),
        (True, "auto: me", False),
        (True, "not AUTO: ", False),
        (True, None, False),
        (False, None, False),
    ],
)
def test_only_what_a_program_disabled_may_be_enabled_by_one(
    disabled: bool, reason: str | None, auto: bool
) -> None:
    assert record(disabled=disabled, disabled_reason=reason).is_auto is auto


def test_a_reason_is_trimmed_and_kept_in_one_line_that_no_terminal_obeys() -> None:
    assert checks.reason(disabled=True, reason="  new disks ") == "new disks"
    assert checks.reason(disabled=True, reason="disks\n\ttoday") == "disks today"
    assert checks.reason(disabled=True, reason="a\x1b[2Jb") == "a\\x1b[2Jb"
    assert checks.reason(disabled=False, reason=None) is None
    assert len(checks.reason(disabled=True, reason="x" * 255)) == 255


@pytest.mark.parametrize(
    ("disabled", "reason"),
    [(True, "x" * 256), (False, "why not"), (True, "a\0b"), (True, "a\udcff")]
    + [(True, ""), (True, "  "), (False, ""), (True, 5), (True, "\x1b" * 100)],
)
def test_a_reason_too_long_out_of_place_or_no_text_is_refused(disabled: bool, reason: str) -> None:
    with pytest.raises(ReasonRefused):
        checks.reason(disabled=disabled, reason=reason)


def test_an_operators_reason_is_none_that_an_agent_takes_for_its_own() -> None:
    own = StatusChange("h", disabled=True, reason="AUTO: x", expected_version=1, new_version=2)
    assert own.reason == "AUTO: x"
    for text in ("AUTO: x", " AUTO:\tx"):
        with pytest.raises(ReasonRefused, match="begins with AUTO:, as those of agents"):
            StatusChange("h", disabled=True, reason=text)
    assert StatusChange("h", disabled=True, reason="AUTO").reason == "AUTO"


@given(
    roots=st.lists(st.uuids().map(str)).map(tuple),
    reason=st.none() | st.text(),
    seen=st.none() | st.datetimes(timezones=st.just(record().last_seen.tzinfo)),
)
def test_a_record_arrives_as_it_was_sent(roots, reason, seen) -> None:  # type: ignore[no-untyped-def]
    sent = record(roots=roots, disabled_reason=reason, last_seen=seen)
    assert wire.from_wire(json.loads(json.dumps(wire.to_wire(sent)))) == sent


def test_a_field_of_a_newer_version_is_left_out() -> None:
    assert wire.from_wire(wire.to_wire(record()) | {"mood": "fine"}) == record()


@pytest.mark.parametrize("kind", errors.RegistryError.__subclasses__())
def test_an_error_arrives_as_it_was_raised(kind: type[Exception]) -> None:
    with pytest.raises(kind) as raised:
        wire.value_of(json.loads(json.dumps(wire.failure(kind("host1: why")))))
    assert (type(raised.value), str(raised.value)) == (kind, "host1: why")


def test_an_error_of_a_newer_version_is_still_one_of_the_registry() -> None:
    with pytest.raises(errors.RegistryError, match="full moon"):
        wire.value_of({"error": {"kind": "FullMoon", "text": "full moon"}})


def test_the_address_changes_with_a_reboot_and_not_with_a_restart(tmp_path: Path) -> None:
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("one\n")
    before = agent_address(tmp_path / "state", root=tmp_path)
    assert agent_address(tmp_path / "state", root=tmp_path) == before
    assert agent_address(tmp_path / "other", root=tmp_path) != before
    boot.write_text("two\n")
    assert agent_address(tmp_path / "state", root=tmp_path) != before


def test_a_heartbeat_has_a_line_for_each_condition_that_fits_and_a_number() -> None:
    assert checks.degraded_text([]) == ""
    assert checks.degraded_text(["a\n b", "c"]) == "a b\nc"
    text = checks.degraded_text(["x" * 300] * 5000)
    *lines, last = text.splitlines()
    assert set(lines) == {"x" * checks.LONGEST} and last == f"and {5000 - len(lines)} more"
    assert checks.MOST_DEGRADED - checks.LONGEST < len(text) <= checks.MOST_DEGRADED
    assert checks.HeartbeatMessage("h", "a", None, (), degraded=text).degraded == text
    with pytest.raises(errors.InputRefused, match="degraded"):
        checks.HeartbeatMessage("h", "a", None, (), degraded="\x1b")
