"""How a conflict is retried: how often, with which waits, and that the page says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from reportclient.errors import Conflict
from reportclient.root import ATTEMPTS, FIRST_PAUSE, Root
from reportclient.schedule import Times
from reportclient.testing.fake_placement import FakePlacement

ROOT = "c0ffee00-0000-4000-8000-000000000001"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "client.rst"
IN_WORDS = {3: "three", 4: "four", 5: "five", 6: "six"}


@pytest.mark.parametrize("conflicts", [0, 1, ATTEMPTS - 1, ATTEMPTS])
def test_a_conflict_is_tried_again_after_a_pause_but_not_for_ever(conflicts: int) -> None:
    pauses: list[float] = []
    root = Root(ROOT, FakePlacement(), Times(pause=pauses.append))
    tries: list[int] = []

    def once(_api: object) -> str:
        tries.append(len(tries))
        if len(tries) <= conflicts:
            root.view = root.view.stale()
            raise Conflict(f"generation moved, {len(tries)}")
        return "done"

    result, counted = root.attempt(0.0, once)
    assert len(tries) == counted.tries == min(conflicts + 1, ATTEMPTS)
    assert len(pauses) == len(tries) - 1
    assert (result == "done") is (conflicts < ATTEMPTS)
    longest = [FIRST_PAUSE * 2**number for number in range(len(pauses))]
    assert all(0 <= pause <= limit for pause, limit in zip(pauses, longest, strict=True))


def test_the_page_of_the_library_says_how_often() -> None:
    words = f"tried again, in {IN_WORDS.get(ATTEMPTS, str(ATTEMPTS))} tries at most"
    assert words in " ".join(PAGE.read_text().split()), f"docs/client.rst says: {words}"
