"""Claims that a driver makes by editing a tree, and names that it removes."""

from reportclient.model import Provider
from reportclient.provider_tree import ProviderTree, SourceClaims
from reportclient.snapshot import Snapshot

ONE = "c0ffee00-0000-4000-8000-000000000000"
A, B = frozenset({"CUSTOM_A"}), frozenset({"CUSTOM_B"})


def having(traits: frozenset[str]) -> ProviderTree:
    return ProviderTree(Snapshot.build([Provider(ONE, "host", traits=traits)]))


def test_what_was_there_and_is_not_added_is_no_claim() -> None:
    tree = having(A)
    claimed = tree.claims[""].traits
    tree.update_traits(ONE, A)
    assert not claimed
    tree.update_traits(ONE, A | B)
    assert claimed == {ONE: B}
    tree.update_traits(ONE, A)
    assert claimed == {ONE: frozenset()}


def test_names_are_removed_one_after_the_other_and_asserted_again() -> None:
    tree = having(A | B)
    absent = tree.claims[""].absent_traits
    tree.remove_traits(ONE)
    assert not absent
    tree.remove_traits(ONE, *A)
    tree.remove_traits(ONE, *B)
    assert absent == {ONE: A | B}
    tree.add_traits(ONE, *A)
    assert absent == {ONE: B}
    tree.update_traits(ONE, A | B)
    assert not absent


def test_claims_differ_where_one_was_added_changed_or_dropped() -> None:
    then = SourceClaims(traits={"same": A, "changed": A, "dropped": A}, placed={"moved": None})
    now = SourceClaims(traits={"same": A, "changed": B, "added": A}, placed={"moved": None})
    assert set(now.changed_since(then)) == {"changed", "added", "dropped"}
    assert not now.changed_since(now.copy())
    assert set(now.claimed_uuids()) == {"same", "changed", "added", "moved"}
