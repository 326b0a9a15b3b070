"""The calls of a plan are those that are sent, generations and all."""

import pytest

from computectl.reading.forecast import calls_of
from reportclient.apply import apply
from reportclient.plan import Plan, diff, with_bulk_writes
from reportclient.reader import refresh
from reportclient.view import View
from tests.stranger import FakePlacement
from tests.unit.cli.trees import AGGREGATE, uuid_of

ROOT = uuid_of("host1")


@pytest.fixture
def view(fake_placement: FakePlacement) -> View:
    stranger = fake_placement.stranger
    stranger.create_provider("host1", ROOT)
    stranger.set_inventory(ROOT, {"VCPU": {"total": 8}, "VGPU": {"total": 2}})
    old = stranger.create_child(ROOT, "old")
    stranger.set_inventory(old, {"VGPU": {"total": 2}})
    return refresh(View(), ROOT, fake_placement)


def a_plan(view: View) -> Plan:
    """Of every kind but a reshape; each provider is written several times."""
    tree = view.edit()
    tree.remove("old")
    for name, parent in (("numa", "host1"), ("pf", "numa")):
        tree.new_child(name, parent)
        tree.update_traits(name, ["CUSTOM_A"])
        tree.update_aggregates(name, [AGGREGATE])
        tree.update_inventory(name, {"CUSTOM_B": {"total": 1}})
    tree.update_traits("host1", ["HW_CPU_X86_AVX"])
    tree.update_inventory("host1", {"VCPU": {"total": 16}})
    return diff(view.snapshot, tree.freeze())


@pytest.mark.parametrize("chunk", [0, 2, 100])
def test_what_is_shown_is_what_is_sent(
    fake_placement: FakePlacement, view: View, chunk: int
) -> None:
    plan = with_bulk_writes(a_plan(view), chunk)
    shown = [(call.method, call.path, call.body) for call in calls_of(plan, view.generations)]
    mark = fake_placement.mark()
    outcome = apply(plan, view, fake_placement)
    sent = [(r.method, r.path, r.body) for r in fake_placement.since(mark) if r.is_write]
    assert outcome.done == plan.operations
    assert len(shown) > 10
    assert shown == sent
