"""Claims that a driver makes by editing a tree, and names that it removes."""

from reportclient.claims import SourceClaims, allow, deny, note

ONE, A, B = "one", frozenset({"CUSTOM_A"}), frozenset({"CUSTOM_B"})


def test_what_was_there_and_is_not_added_is_no_claim() -> None:
    claimed: dict[str, frozenset[str]] = {}
    note(claimed, ONE, A, A)
    assert not claimed
    note(claimed, ONE, A, A | B)
    assert claimed == {ONE: B}
    note(claimed, ONE, A | B, A)
    assert claimed == {ONE: frozenset()}


def test_names_are_removed_one_after_the_other_and_asserted_again() -> None:
    absent: dict[str, frozenset[str]] = {}
    deny(absent, ONE, frozenset())
    assert not absent
    deny(absent, ONE, A)
    deny(absent, ONE, B)
    assert absent == {ONE: A | B}
    allow(absent, ONE, A)
    assert absent == {ONE: B}
    allow(absent, ONE, B)
    assert not absent


def test_claims_differ_where_one_was_added_changed_or_dropped() -> None:
    then = SourceClaims(traits={"same": A, "changed": A, "dropped": A}, placed={"moved": None})
    now = SourceClaims(traits={"same": A, "changed": B, "added": A}, placed={"moved": None})
    assert set(now.changed_since(then)) == {"changed", "added", "dropped"}
    assert not now.changed_since(now.copy())
    assert set(now.claimed_uuids()) == {"same", "changed", "added", "moved"}
