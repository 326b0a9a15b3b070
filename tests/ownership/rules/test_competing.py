"""Other services that write to this agent's providers: what is counted, and when it is reported."""

from __future__ import annotations

import pytest

from agent.ownership.ledger import Ledger
from agent.period.competing import DAY, QUIET_READS, REPORT_AFTER, CompetingOwners
from reportclient.model import Inventory, Provider
from reportclient.plan import Operation, SetInventories, SetTraits
from reportclient.snapshot import Snapshot
from tests.ownership.rules.small import DEVICE, ONE, ROOT, device, holding, kept, root, there

OURS = there(root(8), device(4))
THEIRS = OURS.with_changes({DEVICE: device(2)})
GAP = 600.0


def stock(uuid: str, **totals: int) -> Provider:
    inventory = {name: Inventory(total).with_defaults(None) for name, total in totals.items()}
    return Provider(uuid, f"name-{uuid}", None if uuid == ROOT else ROOT, inventory)


# -- writes that another service undoes

BULK = SetInventories({DEVICE: {}})
TRAITS = SetTraits(DEVICE, frozenset())


def undo(competing: CompetingOwners, operation: Operation = TRAITS) -> None:
    competing.note_written([operation])
    competing.count_undone_writes(OURS, THEIRS)


def twin(competing: CompetingOwners) -> bool:
    return "twin" in competing.degraded(ROOT, "host")


@pytest.mark.parametrize("operation", [TRAITS, BULK], ids=["one provider", "in bulk"])
def test_a_write_undone_three_times_is_reported(operation: Operation) -> None:
    competing = CompetingOwners()
    for _ in range(REPORT_AFTER):
        assert not twin(competing)
        undo(competing, operation)
    text = competing.degraded(ROOT, "host")["twin"]
    assert f"each change of 1 provider(s), {DEVICE} first" in text


def test_writes_that_stay_or_are_changed_differently_each_time_are_not_reported() -> None:
    competing = CompetingOwners()
    for total in range(1, 2 * REPORT_AFTER):
        competing.note_written([TRAITS, SetTraits(ROOT, frozenset())])
        competing.count_undone_writes(OURS, OURS.with_changes({DEVICE: device(100 + total)}))
    assert not twin(competing)
    assert competing.undone.keys() == {DEVICE}


def test_each_undone_write_is_counted_whatever_stays_beside_it() -> None:
    uuids = [f"u{number}" for number in range(40)]
    before = there(root(), *(stock(uuid, VGPU=4) for uuid in uuids))
    after = before.with_changes({uuid: stock(uuid, VGPU=2) for uuid in uuids[::2]})
    competing = CompetingOwners()
    competing.note_written([SetTraits(uuid, frozenset()) for uuid in uuids])
    competing.count_undone_writes(before, after)
    assert competing.undone.keys() == set(uuids[::2])


def test_the_report_ends_after_reads_without_an_undone_write() -> None:
    competing = CompetingOwners()
    for _ in range(REPORT_AFTER):
        undo(competing)
    for _ in range(2):  # an undone write starts the count again
        for _ in range(QUIET_READS - 1):
            competing.count_undone_writes(OURS, OURS)
        assert twin(competing)
        undo(competing)
    for _ in range(QUIET_READS - 1):
        competing.count_undone_writes(OURS, OURS)
    assert twin(competing)
    competing.count_undone_writes(OURS, OURS)
    assert not twin(competing)


# -- names that a driver reports absent and another service sets

SET, REMOVED = there(root(traits="A B")), there(root())
A, B = (ROOT, "A"), (ROOT, "B")


def remove(
    competing: CompetingOwners, *denials: tuple[str, str], now: float = 0, after: Snapshot = REMOVED
) -> list[tuple[str, str]]:
    denied = competing.note_denied(dict.fromkeys(denials, ONE), after, now, GAP)
    return [denial for denial, manager in denied if manager == ONE]


def test_a_removal_is_yielded_once_also_beside_a_name_that_stays() -> None:
    competing = CompetingOwners()
    only_a = there(root(traits="A"))
    assert remove(competing, A, B, after=only_a) == [B]
    assert remove(competing, A, B, after=only_a) == []
    assert remove(competing, A, B) == [A]


def test_the_pause_before_the_next_removal_doubles_up_to_a_day() -> None:
    competing = CompetingOwners()
    for pause in (GAP, 2 * GAP, 4 * GAP):
        remove(competing, A, now=7.0)
        assert competing.deferred_removals(7.0 + pause - 1) == {A}
        assert competing.deferred_removals(7.0 + pause) == set()
    for _ in range(2000):
        remove(competing, A, now=7.0)
    assert competing.deferred_removals(7.0 + DAY - 1) == {A}
    assert competing.deferred_removals(7.0 + DAY) == set()


def test_a_name_is_contested_while_it_is_set_again_after_three_removals() -> None:
    competing = CompetingOwners()
    for times in range(1, REPORT_AFTER + 1):
        remove(competing, A)
        assert "contested" not in competing.degraded(ROOT, "host")
        remove(competing, A, after=SET)
        reported = "contested" in competing.degraded(ROOT, "host")
        assert reported is (times == REPORT_AFTER)
    remove(competing, after=SET)  # no driver denies it any more
    assert "contested" not in competing.degraded(ROOT, "host")


# -- values that another service set

LEDGER = kept((ONE, ROOT, holding("VCPU FPGA", provider=True)))


def texts(competing: CompetingOwners, before: Snapshot, after: Snapshot) -> list[str]:
    return competing.overwritten(before, after, LEDGER)


def host(**totals: int) -> Snapshot:
    return there(stock(ROOT, **totals))


def test_a_foreign_value_that_is_overwritten_is_reported_once() -> None:
    competing = CompetingOwners()
    ours, theirs = host(VCPU=8, FPGA=1), host(VCPU=5, FPGA=1)
    competing.note_records(ours, theirs)
    assert texts(competing, theirs, ours) == [f"provider name-{ROOT} ({ROOT}): VCPU total 5 -> 8"]
    # The driver itself reports 5 now, and 8 again: that value is no other service's any more.
    assert texts(competing, ours, theirs) == []
    assert texts(competing, theirs, ours) == []


def test_foreign_values_of_several_reads_are_kept_until_they_are_overwritten() -> None:
    competing = CompetingOwners()
    first, second = host(VCPU=5, FPGA=1), host(VCPU=5, FPGA=3)
    competing.note_records(host(VCPU=8, FPGA=1), first)
    assert texts(competing, first, first) == []
    competing.note_records(first, second)
    changes = "FPGA total 3 -> 1; VCPU total 5 -> 8"
    told = texts(competing, second, host(VCPU=8, FPGA=1))
    assert told == [f"provider name-{ROOT} ({ROOT}): {changes}"]


def test_a_value_that_no_other_service_changed_may_be_overwritten_silently() -> None:
    competing = CompetingOwners()
    theirs = host(VCPU=5, FPGA=1)
    competing.note_records(host(VCPU=8, FPGA=1), theirs)
    assert texts(competing, theirs, host(VCPU=5, FPGA=2)) == []


def test_foreign_values_of_a_provider_that_is_gone_are_forgotten() -> None:
    competing = CompetingOwners()
    changed = OURS.with_changes({DEVICE: device(2)})
    competing.note_records(OURS, changed)
    assert texts(competing, changed, there(root(8))) == []
    assert not competing.foreign_records


def test_values_are_reported_for_each_provider_beside_one_that_was_created() -> None:
    competing = CompetingOwners()
    ours, theirs = host(VCPU=8), host(VCPU=5)
    competing.note_records(ours, theirs)
    created = Provider("u9", "u9", ROOT)
    after = theirs.with_changes({"u9": created, ROOT: stock(ROOT, VCPU=8)})
    assert len(texts(competing, theirs, after)) == 1
    assert competing.overwritten(theirs, after, Ledger()) == []
