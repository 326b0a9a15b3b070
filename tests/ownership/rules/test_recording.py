"""What is said on a tree is recorded, also where it changes nothing."""

import copy
from dataclasses import replace

import pytest

from agent.ownership.answers import Answer, Reported, driver_answer, without_moved_classes
from agent.ownership.ledger import Ledger
from agent.ownership.policy import Policy
from reportclient.model import Inventory, Provider
from reportclient.provider_tree import Claims, ProviderTree
from tests.ownership.rules.small import (
    DEVICE,
    ONE,
    ROOT,
    TWO,
    claim,
    device,
    kept,
    names,
    of_one,
    root,
    said_by,
    says,
    there,
)

FULL = there(root(), device(8, "CUSTOM_A"))
POOL = "c0ffee00-0000-4000-8000-000000000003"
SHARES, PCI = "MISC_SHARES_VIA_AGGREGATE", f"{ONE}/pci"


def asserted(tree: ProviderTree, uuid: str = DEVICE) -> Reported | None:
    (main, *_) = driver_answer(ONE, tree, Ledger()).answers
    return main.reported.get(uuid)


def test_a_child_is_asserted_by_its_making() -> None:
    tree = ProviderTree(there(root()))
    uuid = tree.new_child("card", ROOT)
    said = asserted(tree, uuid)
    assert said is not None and said.claims == claim(provider=True)


def test_records_are_said_like_dicts() -> None:
    one, other = ProviderTree(FULL), ProviderTree(FULL)
    one.update_inventory(DEVICE, {"FPGA": Inventory(2)})
    other.update_inventory(DEVICE, {"FPGA": {"total": 2}})
    assert asserted(one) == asserted(other) == (claim("FPGA", provider=True), one.provider(DEVICE))


def test_what_was_added_and_taken_away_again_is_not_said() -> None:
    tree = ProviderTree(FULL)
    tree.add_traits(DEVICE, "CUSTOM_A", "CUSTOM_B")
    tree.remove_traits(DEVICE, "CUSTOM_B")
    said = asserted(tree)
    assert said is not None and said.claims.traits == names("CUSTOM_A")


def test_a_copy_has_what_was_said_and_goes_its_own_way() -> None:
    tree = ProviderTree(FULL)
    with tree.source("pci"):
        tree.update_inventory(DEVICE, {"VCPU": {"total": 8}})
    tree.unanswered("mdev")
    other = copy.deepcopy(tree)
    assert other.claims == tree.claims and other.claims["mdev"].unanswered
    with other.source("pci"):
        other.update_inventory(DEVICE, {})
    other.unanswered("net")
    assert tree.claims["pci"].on(DEVICE) == claim("VCPU", provider=True)
    assert "net" not in tree.claims


def test_a_sharing_provider_that_is_not_shown_is_there_all_the_same() -> None:
    shared = Provider(
        POOL, "pool", None, {"DISK_GB": Inventory(9).with_defaults(None)}, names(SHARES)
    )
    tree = ProviderTree(FULL, whole=FULL.with_changes({POOL: shared}))
    assert tree.has_sharing_provider("DISK_GB")
    assert not tree.has_sharing_provider("VCPU")


def test_a_set_of_own_traits_or_aggregates_replaces_earlier_claims() -> None:
    ledger = kept((ONE, DEVICE, claim("VCPU", "CUSTOM_A", provider=True)))
    ledger = ledger.adding(ONE, DEVICE, Claims(aggregates=names(POOL)))
    both = there(root(), replace(device(8, "CUSTOM_A"), aggregates=names(POOL)))
    tree = of_one(both, ledger)
    for own in (tree.set_own_traits, tree.set_own_aggregates):
        own(DEVICE, ())
    (said,) = driver_answer(ONE, tree, ledger).answers
    assert said.reported[DEVICE].claims == claim("VCPU", provider=True)
    assert not said.absent and tree.data(DEVICE).aggregates == {POOL}


def test_what_a_driver_names_is_added_to_what_it_claimed_before() -> None:
    ledger = kept((ONE, DEVICE, claim("VCPU", "CUSTOM_A", provider=True)))
    ledger = ledger.adding(ONE, DEVICE, Claims(aggregates=names(ROOT)))
    both = there(root(), replace(device(8, "CUSTOM_A"), aggregates=names(ROOT)))
    tree = of_one(both, ledger)
    tree.add_traits(DEVICE, "CUSTOM_B")
    tree.add_aggregates(DEVICE, POOL)
    (said,) = driver_answer(ONE, tree, ledger).answers
    assert said.reported[DEVICE].claims == Claims(
        True, names("VCPU"), names("CUSTOM_A CUSTOM_B"), names(f"{ROOT} {POOL}")
    )


def test_each_source_denies_names_and_only_the_driver_removes_providers() -> None:
    tree = ProviderTree(there(root(), device(8), Provider(POOL, "port", DEVICE)))
    tree.update_inventory(ROOT, {})
    tree.adopt(ROOT)
    tree.remove_traits(ROOT, "CUSTOM_A")
    tree.remove(DEVICE)
    with tree.source("pci"):
        tree.remove_aggregates(ROOT, POOL)
    main, source = driver_answer(ONE, tree, Ledger()).answers
    assert main.removed == {DEVICE, POOL}
    assert main.sets_inventory == main.adopted == {ROOT}
    assert main.absent == {ROOT: claim(traits="CUSTOM_A")}
    assert source == Answer(PCI, absent={ROOT: Claims(aggregates=names(POOL))})


def test_a_source_beside_a_silent_one_is_reported() -> None:
    tree = ProviderTree(FULL)
    tree.unanswered("pci")
    with tree.source("mdev"):
        tree.update_inventory(DEVICE, {"VCPU": {"total": 8}})
    said = driver_answer(ONE, tree, Ledger())
    assert [each.owner for each in said.answers] == [ONE, f"{ONE}/mdev"]
    assert said.unanswered == {PCI}


@pytest.mark.parametrize(
    ("owner", "unanswered", "answered", "stay"),
    [
        (ONE, ONE, (), True),
        (ONE, PCI, (ONE,), True),
        (ONE, TWO, (ONE,), False),
        (PCI, ONE, (), True),
        (PCI, ONE, (PCI,), False),
        (PCI, TWO, (), False),
    ],
)
def test_claims_stay_while_their_driver_or_its_source_is_silent(
    owner: str, unanswered: str, answered: tuple[str, ...], stay: bool
) -> None:
    said = said_by(*map(Answer, answered), unanswered=[unanswered])
    assert said.is_unanswered(owner) is stay


# -- while a reshape is pending


def test_what_would_move_is_offered_where_it_is_and_nowhere_else() -> None:
    ledger = kept((ONE, ROOT, claim("VCPU", provider=True)))
    one = without_moved_classes(says(ONE, root(), device(8, "CUSTOM_A")), ledger)
    assert one.reported.keys() == {ROOT}, "the device would have nothing else"
    held = ledger.adding(ONE, DEVICE, claim(provider=True))
    one = without_moved_classes(says(ONE, root(), device(8, "CUSTOM_A")), held)
    assert one.reported[DEVICE].claims == claim(traits="CUSTOM_A", provider=True)


def test_what_another_driver_has_elsewhere_does_not_move() -> None:
    said = says(ONE, device(8))
    assert without_moved_classes(said, kept((TWO, ROOT, claim("VCPU", provider=True)))) == said
    assert without_moved_classes(said, kept((ONE, DEVICE, claim("VCPU", provider=True)))) == said


# -- what may be asserted


def test_who_says_of_somebody_elses_pool_what_it_has_is_told_nothing() -> None:
    pool = Provider(
        POOL, "pool", None, {"DISK_GB": Inventory(9).with_defaults(None)}, names(SHARES)
    )
    policy, observed = Policy(ROOT, foreign=frozenset({POOL})), there(root(), pool)
    (same,) = says(ONE, pool).reported.values()
    assert policy.allowed(ONE, same, observed, Ledger()) == (None, [])
    for other in (
        replace(pool, inventory={"DISK_GB": Inventory(8).with_defaults(None)}),
        replace(pool, name="mine"),
        replace(pool, inventory={}),
    ):
        (said,) = says(ONE, other).reported.values()
        counts, told = policy.allowed(ONE, said, observed, Ledger())
        assert counts is None and "sharing provider of another service" in told[0]
