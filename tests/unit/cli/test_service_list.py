"""``computectl service list`` for people: totals, what needs attention, and rows that fit."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

import pytest

from compute_registry.observed_service import Roots, observed_services
from computectl.reading.services import Observed
from computectl.service import COLUMNS, MANY, ListServices
from computectl.shared.screen import Screen
from tests.servers.fleet_pages import records, root_of


class Listed(ListServices):
    """The command over records that are given."""

    def __init__(self, count: int, **more: object) -> None:
        listed = [replace(each, **more) for each in records(count)]  # type: ignore[arg-type]
        marked = {root for each in listed if each.disabled for root in each.roots}
        present = {root_of(each.id): each.host for each in listed}
        self.all = observed_services(listed, 60, Roots(frozenset(marked), present))

    class registry:
        @staticmethod
        def list_services() -> None: ...

    def observed(self, _: object) -> Observed:
        return Observed(self.all)

    def shown(self, width: int = 80, **options: str) -> list[str]:
        given = argparse.Namespace(**{"state": None, "match": None} | options)
        answer = self.do(self, given)  # type: ignore[arg-type]
        lines: Sequence[str] = list(self.draw(answer, Screen(width), given))
        return "\n".join(lines).splitlines()


def test_totals_are_first_and_no_row_is_wider_than_the_terminal() -> None:
    lines = Listed(40).shown()
    said = "40 services: 37 up, 3 down, 2 degraded, 36 enabled, 4 disabled, 1 attached, 1 contested"
    assert " ".join(" ".join(lines[:2]).split()) == said
    assert lines[2].split() == ["host", "status", "state", "last", "seen", "placement"]
    assert max(map(len, lines)) <= 80
    assert any("…" in line for line in lines)
    assert "  degraded: hypervisor: connection lost (+2 more)" in lines


def test_of_a_large_fleet_only_what_needs_attention_is_listed() -> None:
    lines = Listed(400).shown()
    assert lines[0].startswith("400 services: 397 up")
    assert len(lines) < MANY and lines[3].startswith("compute-007")
    assert lines[-1].endswith("other services: choose with --state or --match")
    assert len(Listed(400).shown(state="up")) > 397


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"state": "down"}, 3),
        ({"state": "degraded", "match": "DISK"}, 1),
        ({"match": "ticket 4711"}, 1),
    ],
)
def test_state_and_match_choose(options: dict[str, str], count: int) -> None:
    assert Listed(40).shown(**options)[0].startswith(f"{count} service")


def test_no_match_is_a_sentence() -> None:
    assert Listed(40).shown(match="nothing like it") == ["no service matches"]


def test_programs_get_conditions_and_iso_times() -> None:
    (first,) = (each for each in Listed(40).all if each.record.contested_by)
    row = {name: cell(first) for name, cell in COLUMNS.items()}
    assert row["last_seen"] == "2030-05-17T09:30:00+00:00"
    assert "two agents use this host name" in row["conditions"][0]
