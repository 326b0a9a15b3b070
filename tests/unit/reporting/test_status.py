"""status.json: a field that is added breaks no reader, and is shown."""

import json
from dataclasses import MISSING, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agent.reporting.condition import (
    BROKER,
    HYPERVISOR,
    PLACEMENT,
    REGISTRY,
    Condition,
    Severity,
    texts_of,
)
from agent.reporting.reports import Occasion, Report
from agent.reporting.status import (
    FILE_NAME,
    SERVING,
    VERSION,
    AgentStatus,
    NodeStatus,
    ServiceFacts,
    StatusFile,
)
from agent.service import SILENCE
from computectl.reading.status_file import LaterVersion, from_json
from computectl.shared.screen import Screen
from computectl.status import ObservedStatus, ShowStatus, status_lines
from reportclient.errors import Unreachable
from reportclient.plan import EnsureTrait
from tests.reports import report_with

DATA = Path(__file__).parent / "data"
PAGE = (Path(__file__).parents[3] / "docs" / "computectl.rst").read_text()
WRITTEN_BY_1 = {
    AgentStatus: {"host", "pid", "started", "updated", "interval", "nodes"},
    NodeStatus: {"node", "ok"},
    ServiceFacts: set(),
    Condition: {"text", "next_step"},
}
"""Fields without a default: the first version had them, and every file has them."""


def stored() -> dict[str, Any]:
    """A file as the first agent of this version wrote it."""
    return json.loads((DATA / f"status-v{VERSION}.json").read_text())


def test_a_file_says_what_its_agent_said() -> None:
    status = from_json(stored())
    placement = "http://placement.example (internal, RegionOne)"
    expected = ServiceFacts(True, "new disks", "serving", placement=placement)
    assert status.service == expected
    (node,) = status.nodes
    assert texts_of(node.conditions, Severity.INFO) == ["host1_pf0: draining: in use by 8d1d"]
    assert texts_of(node.conditions, Severity.ERROR)[0] == "driver libvirt: no disk"
    drawn = "\n".join(status_lines(ObservedStatus(status, status.updated, alive=True), Screen()))
    for text in (
        "disabled (new disks)",
        "Placement: http://placement.example (internal, RegionOne)",
        "no disk",
        "in use by 8d1d (for 2 h)",
        "do it: restart compute-agent",
    ):
        assert text in drawn


@pytest.mark.parametrize("kind", WRITTEN_BY_1)
def test_a_field_that_is_added_has_a_default_for_the_files_of_older_agents(kind: type) -> None:
    needed = {
        one.name
        for one in fields(kind)
        if one.default is MISSING and one.default_factory is MISSING
    }
    assert needed == WRITTEN_BY_1[kind]


def test_a_reader_passes_over_fields_of_a_later_agent() -> None:
    said = stored()
    said["nodes"][0]["moon"] = said["moon"] = said["service"]["moon"] = "full"
    assert from_json(said) == from_json(stored())


def test_a_file_of_a_later_version_is_told_from_damage() -> None:
    with pytest.raises(LaterVersion):
        from_json({**stored(), "version": VERSION + 1})
    with pytest.raises(ValueError, match="version 0, not 1"):
        from_json({**stored(), "version": 0})


def test_what_is_written_is_read_again_with_every_field(tmp_path: Path) -> None:
    report = Report("host1", Occasion.SWITCH, 0.5, 7, took={"a": 1.0})
    report = report.with_error(Unreachable("away"))
    file = StatusFile(tmp_path, "host1", 60.0, lambda: 7.0, lambda: ServiceFacts(disabled=False))
    file([report])
    said = json.loads((tmp_path / FILE_NAME).read_text())
    assert from_json(said) == file.written
    (node,) = from_json(said).nodes
    assert (node.occasion, node.seconds) == ("switch", 0.5)
    assert set(said) >= set(stored())


@pytest.mark.parametrize("one", fields(NodeStatus), ids=lambda one: one.name)
def test_every_field_of_a_node_is_filled_and_shown(one: Any, tmp_path: Path) -> None:
    report = Report(
        "host1",
        Occasion.SWITCH,
        seconds=0.5,
        calls=7,
        done=(EnsureTrait("CUSTOM_A"),),
        reshape_pending=("libvirt",),
        took={"a": 1.0},
    ).with_error(Unreachable("away"))
    file = StatusFile(tmp_path, "host1", 60.0, lambda: 7.0)
    file([Report("host1")])
    file([report])
    assert file.written is not None
    filled = getattr(file.written.nodes[0], one.name)
    forgotten = "agent/reporting/status.py fills it, and the report of this test has another value"
    assert filled != one.default, f"{forgotten} than the default"


WRITTEN = AgentStatus(
    "host1", 1, 1, 100.0, 60.0, (NodeStatus("n", ok=True),), "1.0", ServiceFacts()
)
CONDITION = Condition("good", "wait", "q", Severity.WARNING)
WRITTEN = replace(WRITTEN, service=ServiceFacts(conditions=(CONDITION,)))
OTHERWISE: dict[type, dict[str, Any]] = {
    AgentStatus: {"host": "h2", "pid": 2, "updated": 1.0, "interval": 1.0, "nodes": ()}
    | {"agent_version": "2.0", "service": ServiceFacts(rpc="waiting")}
    | {"since": 50.0, "first_due": 300.0},
    ServiceFacts: {"disabled": True, "reason": "why", "rpc": "waiting", "attached": True}
    | {"roots": ("c0ffee",), "placement": "http://placement"}
    | {"conditions": (Condition("libvirtd is gone", "wait", kind=HYPERVISOR),)},
    NodeStatus: {"node": "m", "ok": False, "last_ok": 50.0, "occasion": "switch", "seconds": 3.0}
    | {
        "calls": 7,
        "changes": "set 1 inventory (host1)",
        "took": {"a": 1.0},
        "reshape_pending": ("d",),
    }
    | {"conditions": (Condition("bad", "act", "p"),)},
    Condition: {"text": "bad", "next_step": "act", "subject": "p", "severity": Severity.ERROR}
    | {"kind": PLACEMENT, "uuid": "c0ffee", "since": 50.0},
}
"""Another value for each field."""
READ_ELSEWHERE = {"started": "tells the process from another with its pid: drivers that end"}


def shown(written: AgentStatus) -> list[Any]:
    """All that ``computectl status`` says of it, to people, programs and health checks."""
    found = []
    for now in (100.0, 250.0):
        status = ObservedStatus(written, now, alive=True)
        columns, rows = ShowStatus.table(ShowStatus.__new__(ShowStatus), status)
        cells = [[cell(row) for cell in columns.values()] for row in rows]
        lines = list(status_lines(status, Screen(), sources=True))
        found += [lines, cells, status.well, status.out_of_date]
    return found


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, one.name)
        for kind in OTHERWISE
        for one in fields(kind)
        if one.name not in READ_ELSEWHERE
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_every_field_changes_what_status_says(kind: type, name: str) -> None:
    new = {name: OTHERWISE[kind][name]}
    if kind is AgentStatus:
        changed = replace(WRITTEN, **new)
    elif kind is ServiceFacts:
        changed = replace(WRITTEN, service=ServiceFacts(**new))
    elif kind is NodeStatus:
        changed = replace(WRITTEN, nodes=(replace(WRITTEN.nodes[0], **new),))
    else:
        other = replace(CONDITION, **new)
        changed = replace(WRITTEN, service=replace(WRITTEN.service, conditions=(other,)))
    assert shown(WRITTEN) == shown(WRITTEN)
    assert shown(changed) != shown(WRITTEN), "computectl/status.py shows it"


@pytest.mark.parametrize("name", [one.name for kind in WRITTEN_BY_1 for one in fields(kind)])
def test_every_field_is_on_the_page(name: str) -> None:
    section = PAGE.partition("\nstatus\n======\n")[2].partition("\n======")[0]
    assert f"``{name}``" in section, "docs/computectl.rst lists the fields of status.json"


def test_programs_get_the_words_and_values_of_the_file() -> None:
    status = ObservedStatus(from_json(stored()), 0.0, alive=True)
    columns, (row,) = ShowStatus.table(ShowStatus.__new__(ShowStatus), status)
    file = stored()
    (node,), _ = file.pop("nodes"), file.pop("version")
    shown = {name: cell(row) for name, cell in columns.items()}
    for times in (shown, *shown["conditions"]):
        for name in {"last_ok", "updated", "since"} & times.keys():
            if times[name] is not None:
                times[name] = datetime.fromisoformat(times[name]).timestamp()
    assert shown == {**node, **file}


def test_an_agent_that_waits_for_its_first_report_says_when_it_is(tmp_path: Path) -> None:
    clock = iter(range(100, 200))
    file = StatusFile(tmp_path, "host1", 60.0, lambda: float(next(clock)))
    file.started(8.0)
    waiting = from_json(json.loads((tmp_path / FILE_NAME).read_text()))
    seen = ObservedStatus(waiting, 103.0, alive=True)
    (first, *_), later = status_lines(seen, Screen()), replace(seen, now=120.0)
    assert "starting; started 2 s ago, first report due in 5 s" in first
    assert "first report not finished yet" in next(iter(status_lines(later, Screen())))
    assert not seen.well and not file.problems(), "not ready, and nothing is wrong"
    assert waiting.stuck(108.0 + 181) and not waiting.stuck(108.0 + 179)
    file([Report("host1")])
    assert file.written is not None and file.written.first_due is None
    assert ObservedStatus(file.written, 130.0, alive=True).well


def test_an_ill_device_is_no_error_and_is_named_everywhere(tmp_path: Path) -> None:
    file = StatusFile(tmp_path, "host1", 60.0, lambda: 100.0)
    file([report_with(ill={"host1_gpu0": "ECC errors: reserved completely"})])
    assert file.written is not None
    seen = ObservedStatus(file.written, 100.0, alive=True)
    text = "\n".join(status_lines(seen, Screen()))
    assert seen.well and not any(file.written.checks.values())
    assert "host1: reported, degraded (1 part)" in text and "host1_gpu0: ECC errors" in text
    assert file.problems() == ["host1_gpu0: ECC errors: reserved completely"]


def test_a_node_that_was_not_reported_yet_says_since_when(tmp_path: Path) -> None:
    file = StatusFile(tmp_path, "host1", 60.0, lambda: 100.0)
    file.started(0.0)
    file([Report("host1").with_error(Unreachable("away"))])
    assert file.written is not None
    lines = status_lines(ObservedStatus(file.written, 400.0, alive=True), Screen())
    assert "not fully reported since compute-agent started, 5 min ago" in "\n".join(lines)


def test_who_asks_for_sources_learns_that_there_are_none() -> None:
    status = ObservedStatus(WRITTEN, 100.0, alive=True)
    lines = "".join(status_lines(status, Screen(), sources=True))
    assert "no driver of this node measures" in lines


def test_the_problems_are_all_those_that_the_registry_does_not_know(tmp_path: Path) -> None:
    registry = Condition("no answer", "wait", REGISTRY, kind=REGISTRY)
    away = Condition("waiting for the message broker", "wait", BROKER, kind=BROKER)
    facts = ServiceFacts(conditions=(registry, away))
    status = StatusFile(tmp_path, "host1", 60.0, lambda: 1.0, lambda: facts)
    assert not status.problems()
    broker = "broker: waiting for the message broker"
    status([Report("host1")])
    assert status.problems() == [broker]
    now, facts = facts, ServiceFacts(rpc=SERVING)
    assert status.problems() == [], "of now, not of the last period"
    facts = now
    gone, away = {"libvirt": OSError("gone")}, Unreachable("away")
    ill = {"gpu0": "ECC errors"}
    first = report_with(driver_errors=gone, ill=ill, error=away)
    asleep = Condition("is asleep", "wake it", "disk", Severity.WARNING)
    first = replace(first, conditions=(*first.conditions, asleep))
    status([first, Report("host2").with_error(away)])
    assert status.problems() == [broker, "driver libvirt: gone", "gpu0: ECC errors", "away"]


def test_a_status_that_can_not_be_written_is_logged_and_its_end_too(tmp_path: Path, caplog) -> None:
    caplog.set_level("INFO")
    file = StatusFile(tmp_path / "state", "host1", 60.0, lambda: 100.0)
    for _ in range(2):
        file([])
    (tmp_path / "state").mkdir()
    for _ in range(2):
        file([])
    text = f"The status can't be written to {tmp_path}/state"
    assert caplog.messages == [f"{text}: No such file or directory", f"resolved: {text}"]


def test_a_placement_that_does_not_answer_is_not_called_ok(tmp_path: Path, caplog) -> None:
    file = StatusFile(tmp_path, "host1", 60.0, lambda: 7.0)
    file([Report("host1")])
    for why, text in ((SILENCE, SILENCE.text), (None, "")) * 2:
        for _ in range(2):
            file.note_silence(why)
        written = from_json(json.loads((tmp_path / FILE_NAME).read_text()))
        assert written.checks["placement"] == text
    assert [record.message for record in caplog.records] == ["Placement does not answer"] * 2
    file.note_silence(SILENCE)
    file([Report("host1")])  # the period has ended
    assert file.written is not None and not any(file.written.checks.values())


def test_an_old_status_calls_nothing_well_and_says_nothing_twice() -> None:
    away = Unreachable("no answer to PUT /x")
    report = NodeStatus.from_report(Report("n").with_error(away), 50.0)
    failed = replace(WRITTEN, nodes=(report,))
    drawn = "\n".join(status_lines(ObservedStatus(failed, 100.0, alive=True), Screen()))
    assert drawn.count("no answer to PUT /x") == 1 and "placement: see below" in drawn
    assert "compute-agent --check" in drawn and "nothing was changed" in drawn
    for old in (
        ObservedStatus(WRITTEN, 900.0, alive=True),
        ObservedStatus(WRITTEN, 100.0, True, 9),
    ):
        drawn = "\n".join(status_lines(old, Screen()))
        assert "was well" in drawn and ": ok" not in drawn and ": well" not in drawn
        assert not old.well
    assert "process 9 runs" in str(old.out_of_date)
