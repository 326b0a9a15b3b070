"""The live screens: what is drawn, what keys do, what counts as a change."""

import io
import sys
from collections import Counter
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from unittest import mock

import pytest
from rich.cells import cell_len
from rich.console import Console

from agent.metrics.opts import MonitoringSettings
from agent.metrics.server import over_unix
from agent.registry.observed_service import ObservedService
from agent.registry.record import ServiceRecord
from agent.reporting.reports import Check, Condition, Severity
from agent.reporting.status import AgentStatus, NodeStatus, ServiceFacts
from computectl.reading.services import Observed
from computectl.shared.errors import CommandError
from computectl.status import ObservedStatus
from computectl.watch import refuse_without_rich
from computectl.watching import fleet as hosts
from computectl.watching import host as this_host
from computectl.watching.controls import GONE, Controls, keys_in
from computectl.watching.fleet import fleet_view
from computectl.watching.host import Numbers, ThisHost, host_view, numbers, numbers_in
from computectl.watching.live import Feed
from tests.waiting import eventually

SIZES = [(80, 24), (120, 40), (60, 12), (40, 10)]


def service(number: int, *, differs: bool = False, absent: int = 0, **said) -> ObservedService:
    facts = {
        "host": f"host{number}",
        "silent_for": 1.0,
        "roots": ("root",),
        "address": "here",
        "rpc_version": "6.5",
    }
    record = ServiceRecord(number, f"uuid{number}", **{**facts, **said})
    return ObservedService(record, record.is_up(60), int(record.disabled != differs), absent)


def fleet(*services: ObservedService) -> Feed[Observed]:
    return Feed(lambda: Observed(services), hosts.changes, 3600, Observed(services), at=0.0)


def extent(view, feed: Feed, size: tuple[int, int]) -> tuple[int, int]:
    """How many rows there are, and how many of them are seen at once."""
    made = view(feed.latest, Controls(), size[0])
    return len(made.rows), made.room(size[1])


def drawn(view, feed: Feed, controls: Controls, size: tuple[int, int]) -> list[str]:
    picture = view(feed.latest, controls, size[0]).on(feed, controls, size)
    console = Console(file=io.StringIO(), width=size[0], height=size[1])
    console.print(picture)
    lines = console.file.getvalue().splitlines()
    assert len(lines) == size[1]
    assert max(map(cell_len, lines)) <= size[0]
    return lines


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_thousand_hosts_fill_the_screen_and_no_more(size: tuple[int, int]) -> None:
    feed = fleet(*(service(number) for number in range(1000)))
    lines, page = extent(fleet_view, feed, size)
    assert lines == 1000
    controls = Controls().pressed("end", page, lines)
    last = drawn(fleet_view, feed, controls, size)
    assert f"{1001 - page}-1000 of 1000" in last[-1]
    assert any(line.startswith("host999") for line in last)
    first = drawn(fleet_view, feed, controls.pressed("home", page, lines), size)
    assert first[3].startswith("host0 ")


def test_those_that_want_attention_are_first() -> None:
    feed = fleet(
        service(1),
        service(2, disabled=True, disabled_reason="disks"),
        service(3, silent_for=7200.0),
        service(4, differs=True),
        service(5, absent=1),
        service(6, absent=1, silent_for=7200.0),
    )
    lines = drawn(fleet_view, feed, Controls(), (120, 24))
    order = ["host4", "host5", "host3", "host6", "host2", "host1"]
    assert [line.split()[0] for line in lines[3:9]] == order
    count = "1 disabled  2 down  1 differ from Placement  2 not in Placement"
    assert lines[0].startswith(f"6 hosts  4 up  {count}")
    assert "not in Placement" in lines[4]


def test_an_unreadable_record_is_first_and_what_to_do_with_it_stands_beside_it() -> None:
    broken = service(2, unreadable=True, disabled=True, roots=(), silent_for=None)
    lines = drawn(fleet_view, fleet(service(1), broken), Controls(), (120, 24))
    row = next(line for line in lines if "host2" in line)
    assert lines.index(row) == 3
    assert "record unreadable: computectl service delete" in row


def test_a_filter_takes_words_of_everything_that_is_said() -> None:
    services = [service(1), service(2, disabled=True, disabled_reason="New disks"), service(3)]
    assert [one.record.host for one in hosts.chosen(services, "new disk", "host")] == ["host2"]
    assert hosts.chosen(services, "host2 enabled", "host") == []
    backwards = hosts.chosen(services, "up", "host", backwards=True)
    assert [one.record.host for one in backwards] == ["host3", "host2", "host1"]


def test_what_happens_to_hosts_is_a_change_and_heartbeats_are_not() -> None:
    before = Observed((service(1), service(2), service(3)))
    disabled = service(2, disabled=True, disabled_reason="disks", version=2)
    now = Observed((service(1, silent_for=9.0), disabled, service(4)))
    assert [(one.subject, one.text) for one in hosts.changes(before, now, 0.0)] == [
        ("host2", "disabled: disks"),
        ("host4", "is new"),
        ("host3", "its record is deleted"),
    ]
    gone = Observed((service(1, absent=1),))
    assert [one.text for one in hosts.changes(Observed((service(1),)), gone, 0.0)] == [
        "its root provider is not in Placement"
    ]
    down = Observed((service(1, silent_for=99.0),))
    assert [one.text for one in hosts.changes(Observed((service(1),)), down, 0.0)] == ["up -> down"]


def test_what_does_not_answer_is_shown_above_what_was_there() -> None:
    feed = fleet(service(1))
    feed.read = mock.Mock(side_effect=CommandError("no answer", "is it up?"))
    feed.once()
    lines = drawn(fleet_view, feed, Controls(), (80, 24))
    assert "no answer; is it up?" in lines[0]
    assert lines[3].startswith("host1")


# -- one host


NUMBERS = Numbers(Counter({"ok": 2, "conflict": 1}), 40.0)


def host(*nodes: NodeStatus, now: float = 100.0, **said) -> ThisHost:
    facts = {"interval": 60.0, "updated": 90.0, "service": ServiceFacts(disabled=False)}
    written = AgentStatus("host1", 7, None, nodes=nodes, **{**facts, **said})
    return ThisHost(ObservedStatus(written, now, alive=True), NUMBERS)


WRONG = NodeStatus(
    "node1",
    ok=False,
    conditions=(
        Condition("it hangs " * 20, "driver libvirt"),
        Condition("in use by 2 guests", severity=Severity.INFO, next_step="move them"),
    ),
)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_all_that_is_wrong_with_a_host_can_be_scrolled_to(size: tuple[int, int]) -> None:
    seen = host(WRONG, checks=(Check("drivers", "driver libvirt: it hangs"), Check("disk")))
    feed = Feed(lambda: seen, this_host.changes, 3600, seen, at=0.0)
    lines, page = extent(host_view, feed, size)
    controls, text = Controls(), []
    for _ in range(lines):
        text += drawn(host_view, feed, controls, size)
        controls = controls.pressed("down", page, lines)
    shown = "\n".join(text)
    assert "driver libvirt: it hangs" in shown
    assert "in use by 2 guests" in shown
    assert "move them" in shown
    rows = host_view(seen, Controls(), 300).rows
    [error] = [row for row in rows if "it hangs it" in row.plain]
    assert [span.style.color.number for span in error.spans] == [1]  # red
    calls = "  calls to Placement: 3 since compute-agent started, 1 conflict; verified 60 s ago"
    assert calls in [row.plain for row in rows]


def test_a_quiet_period_is_no_change_and_a_new_condition_is() -> None:
    well = NodeStatus("node1", ok=True)
    before = host(well)
    assert this_host.changes(before, host(well, updated=150.0), 0.0) == []
    found = this_host.changes(before, host(WRONG, updated=150.0), 0.0)
    assert [one.subject for one in found] == ["node1", "node1"]
    off = ServiceFacts(disabled=True, reason="disks")
    found = this_host.changes(before, host(well, service=off), 0.0)
    assert [(one.subject, one.text) for one in found] == [("service", "disabled: disks")]


# -- keys, numbers


def test_keys_are_told_apart_and_unknown_ones_are_nothing() -> None:
    assert keys_in("q\x1b[A\x1b[6~\x1b[1;5Cx\x1b") == ["q", "up", "pgdn", "x", "esc"]
    assert keys_in("\x1b[15~\r\x7f") == ["enter", "backspace"]


def test_while_a_filter_is_typed_letters_are_no_commands() -> None:
    controls = Controls()
    for key in ("/", "q", "s", "x", "backspace", "enter"):
        controls = controls.pressed(key, 10, 100)
    assert (controls.filter_text, controls.left, controls.typing) == ("qs", False, False)
    assert controls.pressed("q", 10, 100).left
    assert replace(controls, typing=True).pressed(GONE, 10, 100).left
    assert controls.pressed("esc", 10, 100).filter_text == ""


def test_ctrl_c_and_ctrl_d_leave_also_while_a_filter_is_typed() -> None:
    for pressed in ("\x03", "\x04"):
        (key,) = keys_in(pressed)
        assert Controls(typing=True).pressed(key, 10, 100).left


def test_what_changes_while_a_screen_is_drawn_is_in_the_next_one() -> None:
    feed = fleet(service(1))
    later = iter([Observed((service(1), service(2))), Observed((service(1),))])
    feed.read = lambda: next(later)
    feed.once()
    for _ in feed.changes:  # as a drawing goes through them
        feed.once()
    assert [one.text for one in feed.changes] == ["its record is deleted", "is new"]


def test_nothing_is_scrolled_beyond_either_end() -> None:
    controls = Controls()
    assert controls.pressed("up", 10, 100).top == 0
    assert controls.pressed("end", 10, 100).top == 90
    assert controls.pressed("pgdn", 10, 5).top == 0


def test_numbers_are_those_of_the_metrics() -> None:
    numbers = numbers_in(
        'compute_agent_placement_requests_total{method="GET",outcome="ok",route="/x"} 12.0\n'
        'compute_agent_placement_requests_total{method="PUT",outcome="ok",route="/x"} 2.0\n'
        'compute_agent_placement_requests_total{method="PUT",outcome="conflict",route="/x"} 1.0\n'
        'compute_agent_last_verification_timestamp_seconds{node="a"} 1.5e+09\n'
        'compute_agent_last_verification_timestamp_seconds{node="b"} 1.4e+09\n'
    )
    assert numbers.calls == {"ok": 14, "conflict": 1}
    assert numbers.verified == 1.4e9


def test_numbers_are_read_wherever_they_go(tmp_path: Path) -> None:
    text = 'compute_agent_placement_requests_total{outcome="ok"} 3.0\n'
    file, served = tmp_path / "agent.prom", tmp_path / "socket"
    file.write_text(text)
    assert numbers(MonitoringSettings(textfile=file)).calls == {"ok": 3}
    page = HTTPStatus.OK, "text/plain", text.encode()
    server = over_unix(served, {"/metrics": lambda _accepts: page})
    server.start()
    try:
        eventually(lambda: numbers(MonitoringSettings(socket=served)))
        assert numbers(MonitoringSettings(socket=served)).calls == {"ok": 3}
    finally:
        server.stop()
    assert numbers(MonitoringSettings()) is None
    assert numbers(MonitoringSettings(textfile=tmp_path / "none.prom")) is None


def test_without_rich_the_extra_is_named() -> None:
    with mock.patch.dict(sys.modules, {"rich": None}), pytest.raises(CommandError) as failed:
        refuse_without_rich()
    assert "pip install 'compute-agent[watch]'" in str(failed.value)
