"""How large the rooms are, and how many hands a period goes through: growth is a decision."""

from collections import Counter
from pathlib import Path

from tests.unit.imports import BUILT
from tests.unit.walk import walks

REPOSITORY = Path(__file__).resolve().parents[2]
WHOLE = ("computectl", "compute_registry", "driverkit", "reportclient")
"""Packages that are one room; of the others each folder is one."""
LINES = {
    "agent": 2_045,
    "agent/bus": 996,
    "agent/metrics": 478,
    "agent/nodes": 860,
    "agent/ownership": 1_452,
    "agent/period": 1_193,
    "agent/provider_config": 500,
    "agent/registry": 567,
    "agent/reporting": 1_204,
    "agent/state": 678,
    "agent/switching": 1_164,
    "compute_registry": 3_467,
    "computectl": 5_124,
    "driverkit": 1_965,
    "drivers": 2_500,
    "drivers/libvirt": 5_555,
    "reportclient": 7_410,
}
"""Lines of production code by room.  A commit that raises a number says why."""
SMALLER = 30
"""So many lines fewer are not yet a lower number."""
QUIET, CHANGED = "15 files and 75 functions", "28 files and 179 functions"
"""What a quiet period passes, and one with one changed inventory."""
SWITCH = "12 files and 41 functions"
"""What disabling a root passes whose view is certain."""


def lines_by_room() -> Counter[str]:
    lines: Counter[str] = Counter()
    for top in ("agent", "drivers", *WHOLE):
        for path in (REPOSITORY / top).rglob("*.py"):
            if path.is_relative_to(REPOSITORY / BUILT):
                continue
            parts = path.relative_to(REPOSITORY).parts
            room = top if top in WHOLE or len(parts) == 2 else "/".join(parts[:2])
            lines[room] += len(path.read_text().splitlines())
    return lines


def test_structure_a_room_has_the_lines_that_were_decided() -> None:
    lines = lines_by_room()
    assert lines.keys() == LINES.keys()
    wrong = {
        room: f"{number} lines, LINES says {LINES[room]}"
        for room, number in lines.items()
        if not LINES[room] - SMALLER <= number <= LINES[room]
    }
    assert not wrong


def test_structure_periods_and_switches_pass_what_was_decided() -> None:
    passed = tuple(map(str, walks()))
    assert passed == (QUIET, CHANGED, SWITCH), "python -m tests.unit.walk lists them"
