"""The status of the service, its heartbeats and the hypervisor, on a loop that is stepped by hand."""

from __future__ import annotations

import errno
import queue
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from agent import version
from agent.bus.incoming import WAITED
from agent.errors import Changed, HostTaken, RegistryUnavailable, UnknownHost
from agent.loop import Loop
from agent.registry import checks
from agent.registry.checks import StatusChange
from agent.registry.record import ServiceRecord
from agent.reporting.reports import Report
from agent.state import files
from agent.state.document import Document, Unusable
from agent.state.lock import lock_file
from agent.switching import rpc
from agent.switching.heartbeat import (
    FEWEST_UNANSWERED,
    MOST_UNANSWERED,
    FollowingHeartbeat,
    Heartbeat,
)
from agent.switching.host_status import (
    HostStatus,
    change_saved_status,
    saved_status,
    status_document,
)
from agent.switching.hypervisor import MEMORY, STEADY, Hypervisor
from agent.switching.machine import (
    CALLER_EVENTS,
    FOUND,
    REASON_FOUND,
    UNTOUCHED,
    Effect,
    Event,
    ServiceStatus,
    Verdict,
    after,
    verdict,
)
from agent.switching.rpc import VERSION_5, VERSION_6, ComputeEndpoint
from reportclient.errors import Unreachable
from tests.full_disk import full_disk
from tests.registries import MemoryDatabase, registry_at
from tests.reports import report_with

HOST, ROOT = "host1", "c0ffee00-0000-4000-8000-000000000001"


@dataclass
class FakeRegistry:
    """One record, by the registry's rules; ``down`` until it is put up again."""

    record: ServiceRecord | None = None
    down: bool = False
    name_conflict: bool = False
    over_rpc: bool = False
    """Whether heartbeats that report nothing new are not answered."""
    answers: bool = True
    grants: bool = True
    """Whether no other record has the roots."""
    known: list[int | None] = field(default_factory=list)
    writes: list[tuple[bool, str | None]] = field(default_factory=list)
    before_write: list = field(default_factory=list)
    on_the_way: list = field(default_factory=list)
    """Happens while an answer to a heartbeat is on its way."""

    def heartbeat(self, report):
        self._check()
        if self.name_conflict:
            raise HostTaken("host1 runs at there, this one at here")
        if self.over_rpc:
            self.known.append(report.known_version)
            if report.known_version is not None:
                return None
            if not self.answers:
                raise RegistryUnavailable("no answer in 10 s")
        self.record = self.record or ServiceRecord(1, "u", report.host)
        roots = report.roots if self.grants else ()
        self.record = replace(self.record, roots=roots, hosts=3, **report.about_agent())
        answer = self.record
        while self.on_the_way:
            self.on_the_way.pop()()
        return answer

    def get_service(self, host):
        self._check()
        if self.record is None:
            raise UnknownHost(host)
        return self.record

    def set_status(self, change):
        self._check()
        while self.before_write:
            self.before_write.pop()()
        if change.expected_version not in (None, self.record.version):
            raise Changed("changed")
        self.writes.append((change.disabled, change.reason))
        return self.operator(change.disabled, change.reason)

    def operator(self, disabled: bool, reason: str | None = None) -> ServiceRecord:
        self.record = replace(
            self.record,
            disabled=disabled,
            disabled_reason=checks.reason(disabled=disabled, reason=reason, by_host=True),
            version=self.record.version + 1,
        )
        return self.record

    def _check(self) -> None:
        if self.down:
            raise RegistryUnavailable("nobody answers")


@dataclass
class World:
    """``step`` does what the loop would do next; ``placement`` is what was written there."""

    directory: Path
    now: float = 1000.0
    placement: bool = False
    broken: Exception | None = None
    writes: list[bool] = field(default_factory=list)
    retries: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loop = Loop(clock=lambda: self.now)
        self.registry = FakeRegistry()
        self.status = HostStatus(status_document(self.directory), self.loop, self.write)
        self.status.load_status()
        self.heartbeat: Heartbeat = self.heartbeat_of(FollowingHeartbeat)
        self.hypervisor = Hypervisor(self.status, self.loop)
        self.status.on_decided = self.heartbeat.wake.set
        self.status.on_period = self.hypervisor.enable_if_due
        self.told = self.hypervisor.listener("libvirt")

    def heartbeat_of(self, kind: type[Heartbeat]) -> Heartbeat:
        return kind(lambda: self.registry, HOST, "here", lambda: (ROOT,), self.status)

    def write(self, disabled: bool, again: bool) -> Sequence[Report]:
        self.writes.append(disabled)
        self.retries.append(again)
        if self.broken is None:
            self.placement = disabled
        return [report_with(HOST, error=self.broken)]

    def step(self, seconds: float = 0.0) -> None:
        """All that is due up to then, at its time."""
        until = self.now + seconds
        while True:
            self.loop.run_jobs()
            if self.loop.next_job_at() > until:
                break
            self.now = max(self.now, self.loop.next_job_at())
        self.now = until

    def beat(self) -> None:
        self.heartbeat.beat()
        self.step()

    def tell(self, why: object, seconds: float = 0.0) -> None:
        """The hypervisor is lost for this reason, or back, and so much time passes."""
        self.told(why)
        self.step(seconds)

    def decide(self, disabled: bool, reason: str | None = None) -> None:
        """An operator changes the record, and a heartbeat follows."""
        self.registry.operator(disabled, reason)
        self.beat()

    def switch(self, *, disabled: bool, **how: object) -> None:
        """A call, and what the loop does then."""
        self.status.handle(Event.DISABLE if disabled else Event.ENABLE, **how)
        self.step()

    def restarted(self) -> World:
        again = World(self.directory, self.now, self.placement)
        again.registry = self.registry
        return again

    @property
    def known(self) -> ServiceStatus:
        return self.status.current


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(rpc, "REGISTRY_WITHIN", 0.0)
    world = World(tmp_path)
    world.beat()
    world.status.handle(Event.FOUND_ENABLED)
    world.beat()
    return world


# -- the machine

STATUSES = (
    ServiceStatus(),
    ServiceStatus(record_version=UNTOUCHED),
    ServiceStatus(False),
    ServiceStatus(True, "new disks"),
    ServiceStatus(True, "AUTO: gone"),
)
"""One in each state."""


@pytest.mark.parametrize(
    ("event", "states"),
    [
        (None, "UNKNOWN NEW ENABLED DISABLED AUTO"),
        (Event.DISABLE, "DISABLED DISABLED DISABLED DISABLED DISABLED"),
        (Event.ENABLE, "ENABLED ENABLED ENABLED ENABLED ENABLED"),
        (Event.ASK, "UNKNOWN NEW ENABLED DISABLED AUTO"),
        (Event.LOST, "AUTO AUTO AUTO DISABLED AUTO"),
        (Event.BACK, "UNKNOWN NEW ENABLED DISABLED ENABLED"),
        (Event.FOUND_DISABLED, "UNKNOWN DISABLED ENABLED DISABLED AUTO"),
        (Event.FOUND_ENABLED, "UNKNOWN ENABLED ENABLED DISABLED AUTO"),
    ],
)
def test_each_event_leads_from_each_state_to_another(event: Event | None, states: str) -> None:
    reason = "AUTO: lost" if event is Event.LOST else None
    for before, state in zip(STATUSES, states.split(), strict=True):
        new, effects = (before, Effect.NOTHING) if event is None else after(before, event, reason)
        assert new.state.name == state
        if event is not None:
            changed = Effect.REGISTER if event in FOUND else Effect.ALL
            expected = Effect.NOTHING if new is before else changed
            assert effects is (Effect.ALL if event in CALLER_EVENTS else expected)
        assert (new is before) == (new.state is before.state)
        assert new is before or new.by_program == (event not in (Event.DISABLE, Event.ENABLE))


RECORDS = {
    reason: ServiceRecord(1, "u", HOST, disabled=bool(reason), disabled_reason=reason, version=3)
    for reason in (None, "AUTO: gone", "new disks")
}
seen = ServiceStatus
decided = partial(ServiceStatus, acknowledged=False)
by_program = partial(decided, by_program=True)


@pytest.mark.parametrize(
    ("ours", "reason", "expected"),
    [
        (seen(False, None, 5), None, Verdict.RECORD),
        (seen(False, None, 5), "new disks", Verdict.RECORD),
        (seen(True, "AUTO: x", 5), "AUTO: gone", Verdict.RECORD),
        (seen(True, "x", 5), "AUTO: gone", Verdict.STATUS_IS_LATER),
        (seen(True, "AUTO: x", 5), None, Verdict.STATUS_IS_LATER),
        (decided(True, None, 2), "new disks", Verdict.RECORD),
        (decided(True, None, 2), None, Verdict.RECORD_CHANGED),
        (decided(True, None, 3), None, Verdict.STATUS),
        (decided(True, None, 3), "AUTO: gone", Verdict.STATUS),
        (decided(False), "new disks", Verdict.STATUS),
        (by_program(False), "new disks", Verdict.RECORD_CHANGED),
        (by_program(True, "AUTO: x"), "new disks", Verdict.RECORD_CHANGED),
        (by_program(False), "AUTO: gone", Verdict.STATUS),
    ],
)
def test_either_status_or_record_holds(ours, reason, expected) -> None:
    """The record has version 3."""
    assert verdict(ours, RECORDS[reason]) is expected


# -- asked


def test_a_decision_is_on_disk_before_it_is_written_to_placement(world) -> None:
    done = world.status.handle(Event.DISABLE)
    assert saved_status(status_document(world.directory)).disabled is True
    assert not world.writes and not done.done()
    world.step()
    assert world.placement and [report.node for report in done.result(0)] == [HOST]


def test_the_last_of_two_holds_in_whatever_order_their_jobs_run(world) -> None:
    world.status.handle(Event.DISABLE)
    world.switch(disabled=False)
    assert world.writes == [False, False]


def test_each_call_that_changes_something_is_told(world, caplog) -> None:
    world.status.handle(Event.DISABLE, reason="new disks")
    world.status.handle(Event.DISABLE, reason="again")
    world.status.handle(Event.ENABLE)
    world.status.handle(Event.DISABLE, version=7)
    told = ["This host is disabled (new disks)", "This host is enabled", "This host is disabled"]
    assert caplog.messages == told


def test_a_killed_agent_finds_what_was_last_asked(world) -> None:
    world.status.handle(Event.DISABLE)
    again = world.restarted()
    assert again.status.disabled is True and not again.known.acknowledged
    again.beat()
    assert again.registry.record.disabled and again.known.acknowledged


def test_a_file_that_is_broken_means_an_unknown_status(world, caplog) -> None:
    world.status.document.save({**asdict(ServiceStatus()), "disabled": "perhaps"})
    with pytest.raises(Unusable, match="service.json.*disabled is 'perhaps'") as unusable:
        saved_status(world.status.document)
    again = World(world.directory)
    assert again.status.disabled is None
    aside = f"{world.status.document.path}.damaged"
    assert f"{unusable.value}, it is now {aside}; it is made again" in caplog.text


def test_a_file_of_a_later_version_is_a_condition_as_long_as_it_stays(world) -> None:
    file = world.status.document.path
    Document(file, version=2).save(asdict(ServiceStatus()))
    text, status = file.read_text(), World(world.directory).status
    for _ in range(2):
        (condition,) = status.conditions()
        assert f"{file} has version 2" in condition.text
        status.period_done([], None)
    assert file.read_text() == text


def test_a_full_disk_is_reported_once_and_the_status_saved_later(world, caplog) -> None:
    with full_disk():
        world.switch(disabled=True)
        assert world.placement
        (condition,) = world.status.conditions()
        assert condition.subject == "status file" and "No space left" in condition.text
        told = "the status of this host would be lost at a restart"
        for _ in range(2):
            assert [told in each for each in caplog.messages].count(True) == 1
            world.status.period_done([], None)
        assert world.status.document.problem
    world.status.period_done([], None)
    assert not world.status.conditions()
    assert saved_status(status_document(world.directory)).disabled


# -- without a registry


@pytest.fixture
def alone(tmp_path: Path) -> World:
    alone = alone_in(tmp_path)
    alone.status.handle(Event.FOUND_ENABLED)
    return alone


def alone_in(directory: Path) -> World:
    """A host whose ``service.json`` is its record."""
    world = World(directory)
    world.status.alone = True
    world.status.load_status()
    return world


def command(world: World, reason: str | None = "new disks", *, disabled: bool = True) -> None:
    change_saved_status(world.directory, StatusChange(HOST, disabled=disabled, reason=reason))


@pytest.mark.parametrize("has_trait", [True, False])
def test_alone_the_first_status_is_that_of_the_trait(tmp_path: Path, has_trait: bool) -> None:
    alone = alone_in(tmp_path)
    alone.status.period_done([], has_trait)
    assert alone_in(alone.directory).known.disabled is has_trait
    alone.status.period_done([], not has_trait)
    assert alone.known.disabled is has_trait, "only once"


def test_alone_each_change_has_the_next_version(alone: World) -> None:
    alone.status.handle(Event.DISABLE)
    command(alone)
    assert alone_in(alone.directory).known.reason == "new disks"
    alone.status.follow_saved()
    alone.status.handle(Event.ENABLE)
    assert alone.known.record_version == 5


def test_alone_a_loss_right_after_a_command_leaves_the_operators_decision(alone: World) -> None:
    command(alone)
    alone.told("libvirtd is gone")
    alone.tell(None, 3600)
    assert alone.placement and alone.known.reason == "new disks"


def test_alone_a_call_that_waited_is_answered_by_what_a_command_saved(alone: World) -> None:
    command(alone)
    assert _called(alone, True, context={WAITED: True}) == "disabled"


@pytest.mark.parametrize("data", [None, b"{"])
def test_alone_a_lost_status_is_saved_again(alone: World, data: bytes | None) -> None:
    alone.status.handle(Event.DISABLE, reason="new disks")
    path = alone.status.document.path
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    alone.status.follow_saved()
    assert alone_in(alone.directory).known == alone.known


def test_alone_a_status_that_cant_be_read_now_is_unknown_and_kept(
    alone: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone.status.handle(Event.DISABLE, reason="new disks")
    saved = alone.known
    with monkeypatch.context() as unreadable:
        unreadable.setattr(
            files, "read_with_identity", Mock(side_effect=OSError(errno.EIO, "I/O error"))
        )
        again = alone_in(alone.directory)
        again.status.handle(Event.FOUND_ENABLED)
        again.status.period_done([], False)
        assert again.known.disabled is None
        (condition,) = again.status.conditions()
        assert "I/O error" in condition.text
    again.status.follow_saved()
    assert again.known == saved and not again.status.conditions()


@pytest.mark.parametrize("has_trait", [False, True])
def test_alone_a_restored_status_is_that_of_placement(alone: World, has_trait: bool) -> None:
    alone.status.handle(Event.DISABLE)
    alone.status.handle(Event.ENABLE if has_trait else Event.DISABLE)
    path = alone.status.document.path
    backup = path.read_bytes()
    path.unlink()
    path.write_bytes(backup)
    again = alone_in(alone.directory)
    again.status.period_done([], has_trait)
    assert again.known.disabled is has_trait
    assert again.known.reason == (REASON_FOUND if has_trait else None)
    assert alone_in(alone.directory).known == again.known


def test_alone_a_status_that_a_full_disk_refused_is_kept(alone: World) -> None:
    with full_disk():
        alone.status.handle(Event.DISABLE)
        alone.status.follow_saved()
    alone.status.follow_saved()
    assert alone.known.disabled
    alone.status.period_done([], None)
    assert alone_in(alone.directory).known.disabled


def test_alone_a_command_that_holds_the_lock_delays_no_change_for_ever(
    alone: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.switching.host_status.LOCKED_WITHIN", 0.0)
    with lock_file(alone.status.document.path, 0.0):
        alone.status.handle(Event.DISABLE)
    assert alone_in(alone.directory).known.disabled


# -- tried again


def test_what_can_not_be_written_is_tried_again_with_longer_pauses(world, monkeypatch) -> None:
    monkeypatch.setattr("agent.switching.host_status.random.uniform", lambda low, high: high)
    world.broken = Unreachable("Placement is away")
    world.status.handle(Event.DISABLE)
    start, times = world.now, []
    for _ in range(200):
        before = len(world.writes)
        world.step(1)
        times += [world.now - start] * (len(world.writes) - before)
    assert times == [1, 1, 61, 121, 181]
    assert world.retries == [False, *[True] * 4]
    (condition,) = world.status.conditions()
    assert condition.subject == "trait" and "Placement is away" in condition.text
    world.broken = None
    world.step(60)
    assert world.placement and not world.status.conditions()
    world.broken = Unreachable("Placement is away")
    world.status.handle(Event.ENABLE)
    before = len(world.writes)
    world.step(1)
    assert len(world.writes) == before + 2, "the pauses began anew"


@pytest.mark.parametrize("kind", ["failed", "driver_errors"])
def test_an_error_at_any_provider_may_mean_that_the_trait_is_not_written(world, kind) -> None:
    report = report_with(HOST, **{kind: {ROOT: Unreachable("first"), "b": Unreachable("second")}})
    world.status.write = lambda *_: [report]
    world.switch(disabled=True)
    assert world.status.waiting.text == "COMPUTE_STATUS_DISABLED is not written yet: first"
    world.status.period_done([report], None)
    assert world.status.waiting


def test_a_period_that_wrote_it_ends_the_waiting(world) -> None:
    world.broken = Unreachable("away")
    world.switch(disabled=True)
    assert world.status.waiting
    world.status.period_done([Report(HOST).with_error(world.broken)], None)
    assert world.status.waiting
    world.status.period_done([Report(HOST)], None)
    assert not world.status.waiting
    writes = len(world.writes)
    world.step(120)
    assert len(world.writes) == writes


def test_several_failures_make_one_retry(world, monkeypatch) -> None:
    monkeypatch.setattr("agent.switching.host_status.random.uniform", lambda low, high: high)
    world.broken = Unreachable("away")
    for _ in range(5):
        world.status.handle(Event.DISABLE)
    world.step()
    asked = len(world.writes)
    world.step(60)
    assert len(world.writes) == asked + 1, "after one second, and then after a minute more"


# -- the registry


def test_records_are_followed_at_a_random_time_and_calls_at_once(world) -> None:
    world.status.spread = lambda: 100.0
    world.decide(True, "all hosts of the site")
    assert world.known.disabled and not world.placement
    world.step(100)
    assert world.placement
    world.switch(disabled=False)
    assert not world.placement


def test_the_record_is_followed_and_each_change_logged(world, caplog) -> None:
    caplog.set_level("DEBUG")
    for disabled, reason in ((True, "by hand"), (True, "and more"), (False, None), (False, None)):
        world.decide(disabled, reason)
        assert (world.placement, world.known.reason) == (disabled, reason)
    assert [f"{each.levelname} {each.message}" for each in caplog.records] == [
        "INFO This host is disabled (by hand), as its service record says",
        "INFO This host is disabled (and more), as its service record says",
        "INFO This host is enabled, as its service record says",
    ]


def test_a_decision_here_gets_into_the_record_once_the_registry_answers(world, caplog) -> None:
    world.registry.down = True
    world.status.handle(Event.DISABLE)
    world.beat()
    world.registry.down = False
    world.beat()
    assert "older record than before" not in caplog.text
    assert world.registry.record.disabled and world.known.acknowledged
    world.beat()
    assert len(world.registry.writes) == 1, "told once"


def test_a_lost_registry_changes_nothing_and_warns_once(world, caplog) -> None:
    world.decide(True)
    world.registry.down = True
    for _ in range(3):
        world.beat()
    assert world.status.disabled is True and world.placement
    assert caplog.text.count("does not answer") == 1 and "status: nobody answers" in caplog.text
    assert world.status.registry_lost == "nobody answers"
    world.registry.down = False
    with caplog.at_level("INFO"):
        world.beat()
        world.beat()
    assert caplog.text.count("answers again") == 1


def test_a_record_that_was_changed_while_it_was_away_holds(world, caplog) -> None:
    world.registry.down = True
    world.status.handle(Event.DISABLE)
    world.beat()
    world.registry.operator(True, "x")
    world.registry.operator(False)
    world.registry.down = False
    world.beat()
    assert not world.status.disabled and not world.placement
    assert "is replaced" in caplog.text


@pytest.mark.parametrize("restarted", [False, True])
def test_a_registry_that_was_lost_or_restored_enables_nobody(world, caplog, restarted) -> None:
    world.decide(disabled=True, reason="new disks")
    world.registry.record = ServiceRecord(1, "v", HOST)
    world = world.restarted() if restarted else world
    world.heartbeat.read_once()
    assert world.known.disabled
    world.beat()
    assert world.registry.record.status == str(world.known).partition(" ")[0] == "disabled"
    assert world.registry.record.disabled_reason == "new disks"
    assert world.placement
    assert "older record than before" in caplog.text
    world.decide(disabled=False)
    assert not world.placement


def test_an_operator_can_enable_a_host_in_a_registry_that_was_restored(world) -> None:
    clock = [1_800_000_000.0]
    database = MemoryDatabase(lambda: clock[0])
    world.registry = registry_at(database)
    world.heartbeat.follow(lambda: world.registry, every=10)
    world.beat()
    database.back_up()
    for disabled in (True, False, True):
        clock[0] += 3600
        world.registry.set_status(StatusChange(HOST, disabled=disabled))
        world.beat()
    assert world.placement
    database.restore()
    clock[0] += 60
    record = world.registry.set_status(StatusChange(HOST, disabled=False))
    world.switch(disabled=False, version=record.version)
    assert not world.placement, "the call is not taken for an old one"
    world.beat()
    assert (world.registry.get_service(HOST).disabled, world.placement) == (False, False)


def test_two_who_write_at_once_lose_nothing(world) -> None:
    world.status.handle(Event.DISABLE)
    world.registry.before_write.append(lambda: world.registry.operator(True, "by hand"))
    world.beat()
    assert world.registry.record.disabled_reason == "by hand"
    assert world.known.reason == "by hand" and world.known.acknowledged


def test_a_decision_while_an_answer_is_noted_is_not_registered(world) -> None:
    decides = threading.Thread(target=lambda: world.status.handle(Event.DISABLE))

    class Overtaken(threading.Event):
        def set(self) -> None:
            if decides.ident is None:
                decides.start()
                decides.join(0.2)
            super().set()

    world.status.registered = Overtaken()
    world.beat()
    decides.join()
    assert not world.status.in_step(within=0)
    world.beat()
    assert world.registry.record.disabled and world.status.in_step(within=0)


def test_asked_again_while_the_registry_was_told(world) -> None:
    world.status.handle(Event.DISABLE)
    world.registry.before_write.append(lambda: world.status.handle(Event.ENABLE))
    world.beat()
    assert not world.registry.record.disabled and not world.placement and world.known.acknowledged


def test_asked_again_after_a_write_whose_reply_was_lost(world) -> None:
    world.status.handle(Event.DISABLE)

    def lose_the_reply() -> None:
        world.registry.operator(True)
        world.registry.down = True
        raise RegistryUnavailable("nobody answers any more")

    world.registry.before_write.append(lose_the_reply)
    world.beat()
    world.status.handle(Event.ENABLE)
    world.registry.down = False
    world.beat()
    assert not world.registry.record.disabled and not world.placement and world.known.acknowledged
    assert world.known.record_version == world.registry.record.version


@pytest.mark.parametrize(("has_trait", "reason"), [(True, REASON_FOUND), (False, None)])
def test_a_first_record_says_nothing_the_trait_in_placement_does(
    tmp_path, has_trait, reason
) -> None:
    world = World(tmp_path, placement=has_trait)
    world.beat()
    world.status.period_done([], None)
    assert world.status.disabled is None and not world.writes
    world.status.period_done([], has_trait=has_trait)
    assert (world.known.disabled, world.known.reason) == (has_trait, reason)
    world.beat()
    record = world.registry.record
    assert (record.disabled, record.disabled_reason) == (has_trait, reason)
    assert world.placement is has_trait and len(world.registry.writes) == has_trait


def test_a_taken_name_is_an_error_once_an_earlier_agent_would_be_down(
    world, caplog, monkeypatch
) -> None:
    """After a boot or a reinstallation the registry still has this host's own earlier agent."""
    now = 1000.0
    monkeypatch.setattr("agent.switching.heartbeat.time", Mock(monotonic=lambda: now))
    world.registry.name_conflict = True
    taken = "host1 runs at there, this one at here"
    waits = f"waiting up to 60 s for an earlier agent to count as down: {taken}"
    for now, error in ((1000.0, waits), (1059.0, waits), (1060.0, taken), (1070.0, taken)):  # noqa: B007
        world.beat()
        assert world.heartbeat.name_conflict == error
    assert [(it.levelname, it.getMessage()) for it in caplog.records] == [
        ("WARNING", waits),
        ("ERROR", taken),
    ]
    world.registry.name_conflict = False
    world.beat()
    assert caplog.messages[2:] == ["No other agent has the name of this host any more"]


def test_each_heartbeat_reports_its_seconds_and_why_it_failed(world, monkeypatch, caplog) -> None:
    times = iter([1.0, 3.5, 4.0, 5.0, 6.0, 6.5, 7.0, 7.5, 8.0, 9.0])
    monkeypatch.setattr("agent.switching.heartbeat.time", Mock(monotonic=times.__next__))
    done: list[tuple[float, str | None]] = []
    world.heartbeat.on_done = lambda *each: done.append(each)
    world.beat()
    world.registry.down = True
    world.beat()
    world.registry.down, roots, world.heartbeat.roots = False, world.heartbeat.roots, lambda: 1 / 0
    for _ in range(2):
        world.beat()
        assert caplog.messages.count("A heartbeat failed") == 1
    world.heartbeat.roots, world.registry.name_conflict = roots, True
    world.beat()
    taken, wrong = world.heartbeat.name_conflict, "division by zero"
    assert [seconds for seconds, _ in done] == [2.5, 1.0, 0.5, 0.5, 1.0]
    assert [why for _, why in done] == [None, "nobody answers", wrong, wrong, taken]


def test_a_look_leaves_no_sign_of_life(tmp_path) -> None:
    world = World(tmp_path)
    world.heartbeat.read_once()
    assert world.registry.record is None
    world.beat()
    world.registry.operator(True)
    again = World(tmp_path)
    again.registry = world.registry
    again.heartbeat.read_once()
    assert again.status.disabled is True
    again.registry.down = True
    again.heartbeat.read_once()
    assert (again.status.registry_lost, again.status.disabled) == ("nobody answers", True)


@pytest.mark.parametrize(("lost", "waits"), [(None, 7.0), ("no answer", 0)])
def test_how_long_an_answer_waits(world, lost, waits) -> None:
    asked: list[float] = []
    world.status.registered = SimpleNamespace(wait=asked.append)
    world.status.registry_lost = lost
    world.status.in_step(7.0)
    assert asked == [waits]


def test_heartbeats_are_spread_and_end(world, monkeypatch) -> None:
    """So that hosts that were started together do not report together for ever."""
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        world.heartbeat.stop()

    monkeypatch.setattr("agent.switching.heartbeat.random.uniform", lambda low, high: low + high)
    world.heartbeat.every = 30.0
    world.heartbeat.wake = SimpleNamespace(wait=wait, set=lambda: None, clear=lambda: None)
    world.heartbeat.run = lambda work, *_: work()
    world.heartbeat.start()
    assert waits == [30.0 * (0.8 + 1.2)]


def test_a_decision_during_a_heartbeat_is_the_one_that_the_registry_gets(world) -> None:
    """Not the one before it, which others would follow until the next heartbeat."""
    world.status.handle(Event.DISABLE)
    world.registry.on_the_way.append(lambda: world.status.handle(Event.ENABLE))
    world.beat()
    assert not world.registry.writes
    assert not world.registry.record.disabled and not world.placement and world.known.acknowledged


def test_beside_nova_compute_the_record_decides_nothing(world) -> None:
    world.heartbeat = world.heartbeat_of(Heartbeat)
    world.registry.operator(disabled=True)
    world.heartbeat.read_once()
    world.beat()
    assert world.status.disabled is False and not world.writes
    assert not world.registry.writes


# -- the hypervisor


def test_a_host_with_two_hypervisors_is_enabled_once_both_are_back(world) -> None:
    other = world.hypervisor.listener("ironic")
    for report, why in ((world.told, "gone"), (other, "gone, too"), (other, None)):
        report(why)
    world.step(3600)
    assert world.placement
    world.tell(None, 3600)
    assert not world.placement


def test_a_lost_hypervisor_disables_and_its_return_enables(world) -> None:
    world.tell("libvirtd closed the connection")
    assert world.placement and world.known.reason == "AUTO: libvirtd closed the connection"
    world.beat()
    assert world.registry.record.is_auto
    world.tell(None, 4)
    world.status.period_done([], None)
    world.step()
    assert world.placement, "it has to stay for a while"
    world.step(2)
    assert not world.placement
    world.beat()
    assert not world.registry.record.disabled


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (ConnectionError("no\nanswer"), "no answer"),
        (OSError(), "OSError"),
        ("", "lost"),
        ("socket \udcff", r"socket \udcff"),
        (7, "7"),
        ("x" * 1000, "x" * 1000),
    ],
)
def test_why_the_hypervisor_is_lost_may_be_told_by_whatever_a_driver_has(world, why, said) -> None:
    """``status.json`` has it as text, or could not be written at all."""
    world.tell(why)
    assert world.hypervisor.lost == {"libvirt": said}
    assert world.status.current.reason == f"AUTO: {said}"[:255]


def test_an_operator_who_enables_a_host_without_hypervisor_has_his_way(world) -> None:
    world.tell("gone")
    world.beat()
    world.decide(False)
    assert not world.placement
    world.status.period_done([], None)
    world.step(600)
    assert not world.placement


def disabled_after_a_loss(world: World) -> float:
    """Seconds for which the host stays disabled once the connection is back."""
    world.tell("gone", 1)
    world.told(None)
    since = world.now
    while world.placement:
        world.step(1)
        assert world.now - since <= 301
    return world.now - since


def test_flapping_keeps_it_disabled_longer_each_time(world) -> None:
    waits = [disabled_after_a_loss(world) for _ in range(8)]
    assert waits[:4] == [5, 10, 20, 40]
    assert max(waits) <= 300
    world.step(MEMORY)
    assert disabled_after_a_loss(world) == STEADY, "losses are forgotten after a time"


def test_a_return_that_is_reported_twice_counts_from_the_first(world) -> None:
    world.told("gone")
    for seconds in (4, 2):
        world.tell(None, seconds)
    assert world.writes == [True, False] and not world.placement


def test_a_quick_flap_writes_once(world) -> None:
    for why in ("gone", None) * 5:
        world.tell(why, 1)
    assert world.writes == [True]


def test_a_restart_while_it_was_lost_enables_once_it_is_there(world) -> None:
    world.tell("gone")
    world.beat()
    again = world.restarted()
    again.told(None)
    again.step(10)
    assert not again.placement


def test_a_record_that_becomes_auto_is_enabled_after_the_next_period(world) -> None:
    world.tell(None, 10)
    world.decide(True, "AUTO: gone")
    assert world.placement
    world.status.period_done([], None)
    world.step()
    assert not world.placement


# -- the endpoint


@pytest.mark.parametrize(("version", "enabled"), [(VERSION_6, True), (VERSION_5, False)])
def test_the_endpoint_answers_when_it_is_written(world, version, enabled) -> None:
    called = ComputeEndpoint(world.status, version=version)
    assert called.target.version == version
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: answers.put(called.set_host_enabled({}, enabled)))
    thread.start()
    while world.loop.commands.empty():
        assert thread.is_alive()
    assert answers.empty()
    world.step()
    assert answers.get(timeout=60) == ("enabled" if enabled else "disabled")
    thread.join()
    assert world.placement is not enabled


@pytest.mark.parametrize("heard_between", [False, True])
def test_a_call_for_an_older_record_does_not_overturn_a_later_one(world, heard_between) -> None:
    first = world.registry.operator(disabled=True, reason="new disks")
    second = world.registry.operator(disabled=False)
    if heard_between:
        world.beat()
    else:
        assert _called(world, True, second.version) == "enabled"
    assert _called(world, False, first.version) == "enabled"
    world.beat()
    assert (world.registry.record, world.placement) == (second, False)


@pytest.mark.parametrize("disabled", [True, False])
def test_a_heartbeats_answer_that_a_call_overtook_does_not_overturn_it(world, disabled) -> None:
    world.registry.operator(not disabled)

    def called() -> None:
        record = world.registry.operator(disabled)
        world.status.handle(Event.DISABLE if disabled else Event.ENABLE, version=record.version)

    world.registry.on_the_way.append(called)
    world.beat()
    assert world.writes and set(world.writes) == {disabled}
    assert world.known.disabled is disabled is world.placement
    assert world.known.record_version == world.registry.record.version


def test_a_call_for_a_changed_record_is_followed_without_another_change(world) -> None:
    changed = world.registry.operator(disabled=True, reason="new disks")
    assert _called(world, False, changed.version) == "disabled"
    assert (world.known.disabled, world.placement) == (True, True)
    world.beat()
    assert world.known.reason == "new disks"
    assert (world.registry.record, world.registry.writes) == (changed, [])


def test_a_call_that_waited_is_answered_by_what_holds_and_written(world, caplog) -> None:
    world.decide(disabled=True)
    world.placement = False
    assert _called(world, True, context={WAITED: True}) == "disabled"
    assert (world.placement, world.registry.writes) == (True, [])
    why = "it waited in the queue while the agent did not listen"
    assert caplog.messages[-1] == f"Ignoring a call to enable this host: {why}"


def test_a_call_for_a_version_of_the_record_is_never_late(world) -> None:
    world.decide(disabled=True)
    changed = world.registry.operator(disabled=False)
    late = {WAITED: True, "record_version": changed.version}
    assert _called(world, True, context=late) == "enabled"
    changed = world.registry.operator(disabled=True)
    late = {WAITED: True, "record_version": changed.version}
    assert _called(world, False, context=late) == "disabled"


def test_a_call_is_told_with_its_caller_and_reason(world, caplog) -> None:
    asked = {"reason": "new disks", "user_name": "ann"}
    _called(world, False, context=asked)
    _called(world, True, context={})
    told = [each for each in caplog.messages if each.startswith("RPC call")]
    assert told == [
        "RPC call to disable this host (new disks), by ann",
        "RPC call to enable this host, by an unknown caller",
    ]


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"record_version": True},
        {"record_version": "7"},
        *({"timestamp": at} for at in ("1970-01-01T00:00:00", "2100-01-01T00:00:00+02:00", "", 7)),
    ],
)
def test_a_call_without_a_version_counts_whatever_else_its_context_has(world, context) -> None:
    """Its time and that of the record's last change are from two clocks, or of a changed one."""
    world.decide(disabled=False)
    assert _called(world, False, context=context) == "disabled"
    world.beat()
    assert world.registry.writes == [(True, None)] and world.placement


def _called(world, enabled, version=None, context=None):
    said = {"record_version": version} if version is not None else context
    answers: queue.Queue[str] = queue.Queue()
    called = ComputeEndpoint(world.status)
    thread = threading.Thread(target=lambda: answers.put(called.set_host_enabled(said, enabled)))
    thread.start()
    while thread.is_alive():
        world.loop.run_jobs()
        thread.join(0.001)
    return answers.get(timeout=60)


@pytest.mark.parametrize(
    ("stops", "why"), [(False, "a period is running"), (True, "the agent stops")]
)
def test_the_endpoint_answers_though_the_loop_is_busy_or_the_agent_stops(
    world, caplog, monkeypatch, stops: bool, why: str
) -> None:
    monkeypatch.setattr(rpc, "ANSWER_WITHIN", 0.05)
    if stops:
        world.loop.stop()
    endpoint = ComputeEndpoint(world.status)
    assert endpoint.set_host_enabled({}, False) == "disabled"
    assert saved_status(status_document(world.directory)).disabled is True
    assert f"Answering 'disabled': {why}" in caplog.text


# -- heartbeats over RPC, of which most are not answered


def answered(world: World, beats: int) -> list[int]:
    """Send heartbeats; the numbers of those that had to be answered."""
    world.registry.known.clear()
    for _ in range(beats):
        world.beat()
    return [number for number, known in enumerate(world.registry.known) if known is None]


@pytest.fixture
def quiet(world: World) -> World:
    """A host that has reported all, and the registry has its status."""
    world.registry.over_rpc = True
    world.status.handle(Event.FOUND_ENABLED)
    world.beat()
    assert world.status.registered.is_set()
    return world


@pytest.mark.parametrize("attached", [False, True])
def test_a_heartbeat_without_news_names_the_version_that_was_seen(
    quiet: World, attached: bool
) -> None:
    if attached:
        quiet.heartbeat = quiet.heartbeat_of(Heartbeat)
    gaps = [after - before for before, after in pairwise(answered(quiet, 1000))]
    assert min(gaps) >= FEWEST_UNANSWERED + 1 and max(gaps) <= MOST_UNANSWERED + 1
    seen = 0 if attached else quiet.registry.record.version
    assert set(quiet.registry.known) == {None, seen}


def test_a_lost_registry_is_asked_no_more_often_and_noticed(quiet: World) -> None:
    quiet.registry.answers = False
    asked = answered(quiet, 200)
    assert len(asked) <= 200 / (FEWEST_UNANSWERED + 1) + 1
    assert quiet.status.registry_lost is not None
    quiet.registry.answers = True
    answered(quiet, MOST_UNANSWERED + 1)
    assert quiet.status.registry_lost is None


def test_what_is_new_is_reported_at_once(quiet: World) -> None:
    answered(quiet, MOST_UNANSWERED + 2)
    quiet.heartbeat.roots = lambda: ()
    assert answered(quiet, 1) == [0] and quiet.registry.record.roots == ()
    quiet.status.handle(Event.DISABLE, reason="new disks")
    assert answered(quiet, 1) == [0] and quiet.registry.record.disabled


def test_a_root_that_another_record_has_is_asked_for_each_time(quiet: World) -> None:
    """A renamed host's moves to the new record once the old one is down."""
    quiet.registry.grants = False
    answered(quiet, MOST_UNANSWERED + 2)
    assert answered(quiet, 5) == [0, 1, 2, 3, 4]
    quiet.registry.grants = True
    assert len(answered(quiet, FEWEST_UNANSWERED + 1)) <= 2
    assert quiet.heartbeat.granted == {ROOT}


def test_a_call_of_the_registry_has_the_record_read(quiet: World) -> None:
    """One that was lost before, or of a record that was restored."""
    for seen in (quiet.registry.operator(True, "new disks").version, 1):
        quiet.status.handle(Event.DISABLE, version=seen)
        assert answered(quiet, 1) == [0]
    assert quiet.known.reason == "new disks"


def test_heartbeats_bring_the_number_of_hosts_and_what_is_wrong_here(quiet: World) -> None:
    quiet.heartbeat.rpc_version = lambda: VERSION_6
    quiet.heartbeat.degraded = lambda: ("driver libvirt:\nlibvirtd is gone", "broker: away")
    answered(quiet, MOST_UNANSWERED + 1)
    assert quiet.heartbeat.hosts == 3 and quiet.registry.record.rpc_version == VERSION_6
    assert quiet.registry.record.degraded == "driver libvirt: libvirtd is gone\nbroker: away"
    assert quiet.registry.record.agent_version == version()
