"""Claims that a driver makes by editing a tree, and names that it removes."""

from reportclient.model import Provider
from reportclient.provider_tree import Claims, ProviderTree, SourceClaims
from reportclient.snapshot import Snapshot

ONE = "c0ffee00-0000-4000-8000-000000000000"
A, B = frozenset({"CUSTOM_A"}), frozenset({"CUSTOM_B"})


def having(traits: frozenset[str]) -> ProviderTree:
    return ProviderTree(Snapshot.build([Provider(ONE, "host", traits=traits)]))


def test_what_was_there_and_is_not_added_is_no_claim() -> None:
    tree = having(A)
    claimed = tree.claims[""].claims
    tree.update_traits(ONE, A)
    assert not claimed
    tree.update_traits(ONE, A | B)
    assert claimed == {ONE: Claims(traits=B)}
    tree.update_traits(ONE, A)
    assert claimed == {ONE: Claims()}


def test_names_are_removed_one_after_the_other_and_asserted_again() -> None:
    tree = having(A | B)
    absent = tree.claims[""].absent
    tree.remove_traits(ONE)
    assert not absent
    tree.remove_traits(ONE, *A)
    tree.remove_traits(ONE, *B)
    assert absent == {ONE: Claims(traits=A | B)}
    tree.add_traits(ONE, *A)
    assert absent == {ONE: Claims(traits=B)}
    tree.update_traits(ONE, A | B)
    assert not absent


def test_an_edit_keeps_the_last_claims_that_it_does_not_replace() -> None:
    last = {ONE: Claims(True, frozenset({"VCPU"}), A | B)}
    own = SourceClaims(last)
    own.claim(ONE, traits=B)
    assert own.on(ONE) == last[ONE]._replace(traits=B) and own.on("other") == Claims()
    other = own.copy()
    other.place("other")
    assert own != other and own.claims.keys() == {ONE}
