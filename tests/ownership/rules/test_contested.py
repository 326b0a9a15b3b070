"""Names that a driver reports absent and another service sets: pauses, and when it is reported."""

from dataclasses import replace

from agent.ownership.policy import DAY, REPORT_AFTER, ContestedNames, record_text
from reportclient.model import Inventory
from reportclient.snapshot import Snapshot
from tests.ownership.rules.small import ONE, ROOT, root, there

GAP = 600.0
SET, REMOVED = there(root(traits="A B")), there(root())
A, B = (ROOT, "A"), (ROOT, "B")


def told(contested: ContestedNames) -> str:
    return "".join(condition.text for condition in contested.conditions())


def remove(
    contested: ContestedNames, *absences: tuple[str, str], now: float = 0, after: Snapshot = REMOVED
) -> list[tuple[str, str]]:
    return list(contested.note_absent(dict.fromkeys(absences, ONE), after, now, GAP))


def test_a_removal_is_yielded_once_also_beside_a_name_that_stays() -> None:
    contested = ContestedNames()
    only_a = there(root(traits="A"))
    assert remove(contested, A, B, after=only_a) == [B]
    assert remove(contested, A, B, after=only_a) == []
    assert remove(contested, A, B) == [A]


def test_the_pause_before_the_next_removal_doubles_up_to_a_day() -> None:
    contested = ContestedNames()
    for pause in (GAP, 2 * GAP, 4 * GAP):
        remove(contested, A, now=7.0)
        assert contested.waiting(7.0 + pause - 1) == {A}
        assert contested.waiting(7.0 + pause) == set()
    for _ in range(2000):
        remove(contested, A, now=7.0)
    assert contested.waiting(7.0 + DAY - 1) == {A}
    assert contested.waiting(7.0 + DAY) == set()


def test_a_name_is_contested_while_it_is_set_again_after_three_removals() -> None:
    contested = ContestedNames()
    for times in range(1, REPORT_AFTER + 1):
        remove(contested, A)
        assert not told(contested)
        remove(contested, A, after=SET)
        assert bool(told(contested)) is (times == REPORT_AFTER)
    assert told(contested).startswith(f"A of provider {ROOT} is set again by another service")
    remove(contested)  # the other service has removed it
    assert not told(contested)
    remove(contested, A, after=SET)
    assert told(contested)
    remove(contested, after=SET)  # no driver denies it any more
    assert not told(contested)


def test_a_record_set_again_is_contested_at_once_and_waits_a_day() -> None:
    contested, less, more = (
        ContestedNames(),
        *({"X": Inventory(n).with_defaults(None)} for n in (1, 2)),
    )
    absence = (ROOT, record_text("X", less["X"]))
    lowered, raised = (there(replace(root(), inventory=each)) for each in (less, more))
    assert remove(contested, absence, after=raised) == [] == list(contested.conditions())
    remove(contested, absence, after=lowered, now=1.0)
    assert "X (total 1, " in told(contested)
    assert contested.waiting(DAY - 1) == {absence} and not contested.waiting(DAY)
    remove(contested, after=raised, now=2 * DAY + 1)
    assert not contested.removals, "what was replaced for good is forgotten"
