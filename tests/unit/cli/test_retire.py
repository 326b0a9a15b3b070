"""``computectl retire``: what becomes of the other roots when one could not be taken out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from computectl.reading.retirement import Leaver, Leaving
from computectl.retire import Retired, removed
from reportclient.errors import Conflict, PlacementError, Unreachable
from reportclient.model import Provider

ROOTS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(3)]


class Refusing:
    """A Placement that answers each call with an error."""

    def __init__(self, error: PlacementError) -> None:
        self.error = error
        self.asked: list[str] = []

    def request(self, method: str, path: str, **_: object) -> dict[str, object]:
        self.asked.append(path)
        raise self.error


@pytest.mark.parametrize(("error", "tried"), [(Unreachable("no answer"), 1), (Conflict("no"), 3)])
def test_a_placement_that_is_away_is_not_waited_for_at_each_root(
    error: PlacementError, tried: int
) -> None:
    planned = Retired("host1", [Leaving(one, (Leaver(Provider(one, one)),)) for one in ROOTS])
    kept = SimpleNamespace(forget=lambda: pytest.fail("it is still in Placement"))
    session = SimpleNamespace(kept=lambda *_, **__: kept)
    placement = Refusing(error)
    answer = removed(session, planned, placement)
    assert len(placement.asked) == tried
    assert [str(one) for one in answer.failed] == [str(error)] * tried
    assert answer.gone == frozenset()
