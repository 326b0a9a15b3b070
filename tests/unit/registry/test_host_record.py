"""The record of a host without a fleet: a file that its agent and its commands change."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.registry import host_record as module
from agent.registry.checks import Report, StatusChange
from agent.registry.errors import (
    Changed,
    InputRefused,
    ReasonRefused,
    RecordUnusable,
    StillUp,
    UnknownHost,
)
from agent.registry.host_record import HostRecord
from agent.registry.record import ServiceRecord
from agent.state.document import Document
from agent.switching.host_status import status_document
from agent.switching.machine import ServiceStatus
from tests.registries import ended, host_record

ROOT = "6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca"


@pytest.fixture
def registry(tmp_path: Path) -> HostRecord:
    return host_record(tmp_path)


def beat(registry: HostRecord, **more: object) -> ServiceRecord:
    return registry.heartbeat(Report("host1", "here", "6.5", [ROOT], **more))  # type: ignore[arg-type]


def test_the_first_heartbeat_makes_the_record_and_commands_make_none(registry: HostRecord) -> None:
    assert registry.list_services() == []
    for call in (
        lambda: registry.get_service("host1"),
        lambda: registry.set_status(StatusChange("host1", disabled=True)),
        lambda: registry.set_forced_down("host1", forced_down=True),
        lambda: registry.delete("host1"),
    ):
        with pytest.raises(UnknownHost):
            call()
    assert list(registry.state_path.iterdir()) == []
    record = beat(registry, attached=True, agent_version="1.2", degraded="disk: full")
    assert (record.version, record.disabled, record.is_up(), record.hosts) == (1, False, True, 1)
    assert (record.attached, record.agent_version, record.degraded) == (True, "1.2", "disk: full")
    assert registry.get_service("host1").roots == (ROOT,)
    with pytest.raises(UnknownHost):
        registry.get_service("host2")


def test_each_change_has_the_next_version_and_only_for_the_version_that_was_read(
    registry: HostRecord,
) -> None:
    beat(registry)
    disabled = registry.set_status(StatusChange("host1", disabled=True, reason=" new  disks "))
    assert (disabled.version, disabled.disabled_reason) == (2, "new disks")
    again = registry.set_status(
        StatusChange("host1", disabled=True, reason="ticket 7", expected_version=2)
    )
    assert (again.version, again.disabled_at) == (3, disabled.disabled_at)
    with pytest.raises(Changed, match="version 3, not 2"):
        registry.set_status(StatusChange("host1", disabled=False, expected_version=2))
    with pytest.raises(Changed):
        registry.set_forced_down("host1", forced_down=True, expected_version=2)
    assert beat(registry).version == 3
    assert not registry.set_forced_down("host1", forced_down=True).is_up()
    enabled = registry.set_status(StatusChange("host1", disabled=False))
    assert (enabled.version, enabled.disabled_at, enabled.disabled_reason) == (5, None, None)


@pytest.mark.slow
def test_an_operators_change_and_a_heartbeat_at_once_lose_nothing(tmp_path: Path) -> None:
    beat(host_record(tmp_path))
    change = (
        "import sys; from pathlib import Path; from agent.registry.checks import StatusChange\n"
        "from agent.registry.host_record import HostRecord\n"
        "change = StatusChange('host1', disabled=True)\n"
        "for _ in range(30): HostRecord(Path(sys.argv[1])).set_status(change)"
    )
    writers = [subprocess.Popen([sys.executable, "-c", change, str(tmp_path)]) for _ in range(2)]
    number = 0
    while any(writer.poll() is None for writer in writers):
        number += 1
        beat(host_record(tmp_path), degraded=str(number))
    assert [writer.returncode for writer in writers] == [0, 0]
    record = host_record(tmp_path).get_service("host1")
    assert (record.version, record.degraded) == (61, str(number))


def test_wrong_input_is_refused_and_nothing_changes(registry: HostRecord) -> None:
    beat(registry)
    before = registry.path.read_bytes()
    with pytest.raises(ReasonRefused, match="300"):
        registry.set_status(StatusChange("host1", disabled=True, reason="x" * 300))
    with pytest.raises(InputRefused, match="roots"):
        registry.heartbeat(Report("host1", "here", "6.5", ["r"]))
    assert registry.path.read_bytes() == before


def test_a_heartbeat_that_reports_nothing_new_writes_nothing(registry: HostRecord) -> None:
    beat(registry)
    before = registry.path.stat()
    beat(registry)
    assert registry.path.stat() == before


# -- up and down


@pytest.mark.slow
def test_a_service_is_up_as_long_as_its_agents_process_runs(registry: HostRecord) -> None:
    agent = (
        "import sys, time; from pathlib import Path\n"
        "from agent.registry.checks import Report\n"
        "from agent.registry.host_record import HostRecord\n"
        "HostRecord(Path(sys.argv[1])).heartbeat(Report('host1', 'here', '6.5'))\n"
        "print(flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", agent, str(registry.state_path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert registry.get_service("host1").is_up()
        with pytest.raises(StillUp, match="here"):
            registry.delete("host1")
        process.send_signal(signal.SIGKILL)
    record = registry.get_service("host1")
    assert (record.is_up(), record.silence, record.last_seen is not None) == (False, "ended", True)
    assert beat(registry).is_up()


@pytest.mark.parametrize("address", ["here (boot 2)", "elsewhere"])
def test_no_clock_and_no_address_keeps_an_agent_from_its_record(
    registry: HostRecord, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a reboot, and with a clock that was ahead: nobody else has this directory."""

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime(2100, 1, 1, tzinfo=UTC)

    with monkeypatch.context() as patched:
        patched.setattr(module, "datetime", Ahead)
        beat(registry)
        registry.set_status(StatusChange("host1", disabled=True, reason="new disks"))
    ended(registry)
    assert not registry.get_service("host1").is_up()
    record = registry.heartbeat(Report("host1", address, "6.5", [ROOT]))
    assert (record.address, record.disabled_reason) == (address, "new disks")
    assert registry.set_status(StatusChange("host1", disabled=False)).version == 3


def test_a_host_that_was_renamed_keeps_its_record(registry: HostRecord) -> None:
    beat(registry)
    uuid = registry.set_status(StatusChange("host1", disabled=True)).uuid
    renamed = registry.heartbeat(Report("host9", "here", "6.5", [ROOT]))
    assert (renamed.uuid, renamed.disabled, renamed.version) == (uuid, True, 2)
    assert [record.host for record in registry.list_services()] == ["host9"]


def test_a_record_is_deleted_once_its_agent_has_ended_or_is_forced_down(
    registry: HostRecord,
) -> None:
    for end in (ended, lambda one: one.set_forced_down("host1", forced_down=True)):
        beat(registry)
        end(registry)
        registry.delete("host1")
        assert registry.list_services() == []


# -- lost, damaged, refused


@pytest.mark.parametrize("damage", [None, b"", b"{}", b"no record at all"])
def test_a_record_that_is_lost_is_made_again_from_the_agents_status(
    registry: HostRecord, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    beat(registry)
    seen = registry.set_status(StatusChange("host1", disabled=True, reason="new disks")).version
    status_document(registry.state_path).save(asdict(ServiceStatus(True, "new disks", seen)))
    if damage is None:
        registry.path.unlink()
    else:
        registry.path.write_bytes(damage)
        with pytest.raises(RecordUnusable, match="is damaged"):
            registry.list_services()
        with pytest.raises(RecordUnusable, match="is damaged"):
            registry.set_status(StatusChange("host1", disabled=False))
        assert registry.path.read_bytes() == damage, "it is the agent that replaces it"
    record = beat(registry)
    assert (record.disabled_reason, record.version) == ("new disks", seen + 1)
    if damage is not None:
        aside = registry.path.with_name("record.json.damaged")
        assert aside.read_bytes() == damage, "for somebody to look at"
        assert f"it is now {aside}; it is made again" in caplog.text


def test_a_file_of_a_later_version_is_refused_and_left_alone(registry: HostRecord) -> None:
    beat(registry)
    Document(registry.path, version=2).save({"record": {}})
    later = registry.path.read_bytes()
    for call in (
        lambda: beat(registry),
        lambda: registry.set_status(StatusChange("host1", disabled=True)),
    ):
        with pytest.raises(RecordUnusable, match="a later compute-agent wrote it"):
            call()
    assert registry.path.read_bytes() == later


def test_a_command_that_holds_the_lock_delays_nobody_for_ever(
    registry: HostRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat(registry)
    monkeypatch.setattr(module, "LOCKED_WITHIN", 0.0)
    with (registry.state_path / "record.json.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RecordUnusable, match=r"record\.json.*is held by another process"):
            beat(registry)
    assert beat(registry).host == "host1"


@pytest.mark.parametrize("name", ["record.json", "record.json.lock"])
@pytest.mark.parametrize(
    "call", [beat, lambda one: one.set_status(StatusChange("host1", disabled=True))]
)
def test_a_link_that_was_planted_is_refused_and_leads_nowhere(
    registry: HostRecord,
    name: str,
    call: Callable[[HostRecord], object],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    beat(registry)
    other = tmp_path_factory.mktemp("root")
    (registry.state_path / name).rename(other / name)
    before = (other / name).read_bytes()
    (registry.state_path / name).symlink_to(other / name)
    with pytest.raises(RecordUnusable, match="is a symbolic link"):
        call(registry)
    assert (other / name).read_bytes() == before
    assert [path.name for path in other.iterdir()] == [name]
