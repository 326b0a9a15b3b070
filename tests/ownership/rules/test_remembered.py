"""What is reconciled again is not worked out again, and never anything else than it would be."""

from collections.abc import Callable
from typing import Any

import pytest

from agent.ownership.answers import driver_answer
from agent.ownership.ledger import Ledger
from agent.ownership.reconcile import (
    Inputs,
    ReconciledProvider,
    reconcile,
    reconcile_provider,
)
from agent.period.tracker import LastResults
from reportclient.provider_tree import ProviderTree
from tests.agents import Agent, Small, devices
from tests.ownership.rules.small import (
    DEVICE,
    ONE,
    OWN,
    ROOT,
    device,
    kept,
    of_one,
    root,
    said_by,
    there,
)
from tests.stranger import FakePlacement

FULL = there(root(), device(8, "CUSTOM_A"))
LEDGER: Ledger = kept()
Body = Callable[[ProviderTree], object]


def same(tree: ProviderTree) -> None:
    tree.update_inventory(DEVICE, {"VCPU": {"total": 8}})


def change(tree: ProviderTree) -> None:
    tree.update_inventory(DEVICE, {"VCPU": {"total": 9}})


def name_a_trait_that_is_there(tree: ProviderTree) -> None:
    same(tree)
    tree.add_traits(DEVICE, "CUSTOM_A")


def name_a_source(tree: ProviderTree) -> None:
    with tree.source("pci"):
        same(tree)


def fall_silent(tree: ProviderTree) -> None:
    same(tree)
    tree.unanswered("pci")


def adopt(tree: ProviderTree) -> None:
    same(tree)
    tree.adopt(DEVICE)


def remove(tree: ProviderTree) -> None:
    tree.remove(DEVICE)


def say_nothing(tree: ProviderTree) -> None:
    assert tree.exists(ROOT)


BODIES = [
    same,
    change,
    name_a_trait_that_is_there,
    name_a_source,
    fall_silent,
    adopt,
    remove,
    say_nothing,
]


def spoken(body: Body) -> ProviderTree:
    tree = of_one(FULL, LEDGER)
    body(tree)
    return tree


@pytest.mark.parametrize("second", BODIES)
@pytest.mark.parametrize("first", BODIES)
def test_the_answer_is_what_it_would_be_whatever_was_said_before(first: Body, second: Body) -> None:
    earlier = driver_answer(ONE, spoken(first), LEDGER)
    later = driver_answer(ONE, spoken(second), LEDGER, earlier)
    assert later == driver_answer(ONE, spoken(second), LEDGER)
    assert (later is earlier) == (first is second)


@pytest.mark.parametrize("second", BODIES)
@pytest.mark.parametrize("first", BODIES)
def test_it_is_so_on_another_tree_and_ledger_too(first: Body, second: Body) -> None:
    before = spoken(first)
    last = driver_answer(ONE, before, LEDGER)
    ledger = LEDGER
    for uuid, one in last.answers[0].reported.items():
        ledger = ledger.adding(ONE, uuid, one.claims)
    after = before.freeze()
    if DEVICE not in after:
        after = FULL.with_changes({DEVICE: None})

    def now() -> ProviderTree:
        tree = of_one(after, ledger)
        if tree.exists(DEVICE) or second is say_nothing:
            second(tree)
        return tree

    assert driver_answer(ONE, now(), ledger, last) == driver_answer(ONE, now(), ledger)


def test_a_quiet_round_is_settled_once() -> None:
    results, last = LastResults(), driver_answer(ONE, spoken(same), LEDGER)

    def settled(body: Body) -> object:
        said = driver_answer(ONE, spoken(body), LEDGER, last).answers
        return results.result_of("all", reconcile, FULL, LEDGER, said_by(*said), OWN)

    assert settled(same) is settled(same)
    assert settled(same) is not settled(change)


@pytest.mark.parametrize("size", [5, 50])
def test_a_period_reconciles_only_what_changed_since_the_one_before(size: int, monkeypatch) -> None:
    reconciled: list[str] = []

    def body(tree: ProviderTree, nodename: str, allocations: Any = None) -> None:
        devices(*(f"device{number}" for number in range(size)))(tree, nodename)
        tree.update_inventory("device3", {"VCPU": {"total": total}})

    def counted(inputs: Inputs, uuid: str) -> ReconciledProvider:
        reconciled.append(uuid)
        return reconcile_provider(inputs, uuid)

    agent, total = Agent(FakePlacement(), Small(body)), 1
    agent.settle()
    monkeypatch.setattr("agent.ownership.reconcile.reconcile_provider", counted)
    agent.period()
    assert reconciled == []
    total = 2
    agent.period()
    assert len(reconciled) == 2, "the device, and the root, which has several owners"
