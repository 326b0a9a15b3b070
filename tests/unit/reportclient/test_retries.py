"""How a conflict is retried: how often, and with which waits."""

from dataclasses import replace

import pytest

from reportclient.errors import Conflict, NotFound, WrongForm
from reportclient.root import ATTEMPTS, FIRST_PAUSE, Root
from reportclient.schedule import Times
from tests.stranger import FakePlacement

ROOT = "c0ffee00-0000-4000-8000-000000000001"


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


@pytest.mark.parametrize("err", [Conflict("x"), NotFound("x"), KeyError("x"), WrongForm("x")])
def test_after_an_attempt_that_nobody_planned_for_the_tree_is_read(err: Exception) -> None:
    root = Root(ROOT, FakePlacement(), Times(pause=lambda _: None))

    def once(_api: object) -> None:
        root.view = replace(root.view, certain=True)
        raise err

    assert root.attempt(0.0, once)[0] is err
    assert root.is_due(1.0) and not root.view.certain
