"""``computectl retire``: what becomes of the other roots when one could not be taken out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agent.ownership.ledger import Ledger
from agent.state.saved_root import SavedRoot
from computectl.reading.retirement import Leaver, Leaving
from computectl.retire import Retired, removed, removed_of
from reportclient.errors import Conflict, PlacementError, ServerFault, Unreachable
from reportclient.model import Provider
from reportclient.testing.fake_placement import FakePlacement
from reportclient.view import View

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
    kept = SimpleNamespace(
        load=View, ledger=Ledger(), forget=lambda: pytest.fail("it is still in Placement")
    )
    settings = SimpleNamespace(rules=SimpleNamespace(child_wait=0.0))
    session = SimpleNamespace(settings=settings, saved_root=lambda *_, **__: kept)
    placement = Refusing(error)
    answer = removed(session, planned, placement)
    assert len(placement.asked) == tried
    assert [str(one) for one in answer.failed] == [str(error)] * tried
    assert answer.gone == frozenset()


@pytest.mark.parametrize("error", [ServerFault("500 made up"), None])
def test_children_that_stay_below_an_attached_root_hide_no_error(error, tmp_path) -> None:
    """Without a wait they are emptied only; what could not be emptied is named."""
    placement = FakePlacement()
    root, child = ROOTS[:2]
    placement.stranger.create_provider("host1", root)
    placement.stranger.create_child(root, "disk", child)
    placement.stranger.set_inventory(child, {"VCPU": {"total": 8}})
    for _ in range(5 if error else 0):
        placement.fail_next("PUT", child, error)
    leaving = Leaving(root, (Leaver(Provider(child, "disk", root)),))
    progress: list[str] = []
    saved = SavedRoot.in_directory(tmp_path, root)
    gone, errors = removed_of(leaving, saved, None, placement, progress.append)
    assert (gone, errors) == (set(), [error] if error else [])
    assert bool(progress) is not bool(error)
    assert bool(placement.store.providers[child].inventory) is bool(error)


def test_a_placement_that_goes_away_between_two_steps_is_not_waited_for_at_the_next_root() -> None:
    placement, leaving = FakePlacement(), []
    for number, root in enumerate(ROOTS):
        child = root.replace("4000", "4001")
        placement.stranger.create_provider(f"host{number}", root)
        placement.stranger.create_child(root, f"disk{number}", child)
        placement.stranger.set_inventory(child, {"VCPU": {"total": 8}})
        leaving.append(Leaving(root, (Leaver(Provider(child, f"disk{number}", root)),)))
    placement.fail_next("PUT", "inventories", Unreachable("no answer"))
    saved = SimpleNamespace(load=View, save=lambda *_: None, ledger=Ledger())  # is not forgotten
    settings = SimpleNamespace(rules=SimpleNamespace(child_wait=0.0))
    session = SimpleNamespace(settings=settings, saved_root=lambda *_, **__: saved)
    answer = removed(session, Retired("host1", leaving), placement, lambda _: None)
    assert [str(each) for each in answer.failed] == ["no answer"]
    assert answer.gone == frozenset()
    assert sum(bool(each.inventory) for each in placement.store.providers.values()) == 3
