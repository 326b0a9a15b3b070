"""What provider files assert on a tree: on which provider, and what is left out with a problem."""

from dataclasses import replace

from agent.ownership.ledger import Ledger
from agent.ownership.policy import Policy
from agent.provider_config.asserted import asserted
from agent.provider_config.entries import Entries, Entry
from reportclient.plan import Problem
from tests.ownership.rules.small import (
    ATTACHED,
    DEVICE,
    ONE,
    OWN,
    ROOT,
    device,
    holding,
    kept,
    names,
    root,
    there,
)

HOST = Entry("uuid", ROOT, "a.yaml:1", traits=names("CUSTOM_A"))
CARD = Entry("name", "device", "a.yaml:9", traits=names("CUSTOM_B"))


def claimed(*entries: Entry, policy: Policy = OWN, ledger: Ledger | None = None):
    return asserted(Entries(entries), there(root(), device()), policy, ledger or kept())


def test_entries_assert_classes_and_traits_of_providers_that_are_there() -> None:
    missing = Entry("name", "missing", "a.yaml:5")
    result = claimed(missing, CARD, HOST)
    claims = {uuid: each.holding for uuid, each in result.statement.assertions.items()}
    # A file never claims the provider itself: it would keep what a driver removed.
    assert claims == {ROOT: holding(traits="CUSTOM_A"), DEVICE: holding(traits="CUSTOM_B")}
    assert result.matched == {CARD.key, HOST.key} and not result.problems


def test_each_class_has_the_place_of_its_entry() -> None:
    entries = [
        replace(entry, places={name: f"{entry.place} {name}"})
        for entry, name in ((HOST, "CUSTOM_X"), (CARD, "CUSTOM_Y"))
    ]
    places = {(ROOT, "CUSTOM_X"): "a.yaml:1 CUSTOM_X", (DEVICE, "CUSTOM_Y"): "a.yaml:9 CUSTOM_Y"}
    assert claimed(*entries).statement.places == places


def test_a_uuid_is_not_taken_for_a_name_nor_a_name_for_a_uuid() -> None:
    tree = there(root(), device(), replace(device(name=DEVICE), uuid="other"))
    for by, uuid in (("uuid", DEVICE), ("name", "other")):
        result = asserted(Entries((Entry(by, DEVICE, "a.yaml:1"),)), tree, OWN, kept())
        assert list(result.statement.assertions) == [uuid]


def test_the_second_entry_of_a_provider_is_ignored() -> None:
    again = Entry("uuid", DEVICE, "b.yaml:1")
    text = f"{again} ignored: {CARD} describes this provider, too; merge the two entries"
    assert claimed(CARD, again).problems == (Problem(DEVICE, "device", text),)


def test_beside_another_owner_only_own_children_are_changed() -> None:
    text = "not changed: owned by another service"
    ours = kept((ONE, DEVICE, holding(provider=True)), (ONE, ROOT, holding(provider=True)))
    result = claimed(HOST, CARD, policy=ATTACHED, ledger=ours)
    assert list(result.statement.assertions) == [DEVICE]
    assert result.problems == (Problem(ROOT, "host", f"{HOST.place}: {text}"),)
    for policy in (ATTACHED, replace(OWN, foreign=frozenset({DEVICE}))):
        assert DEVICE not in claimed(CARD, policy=policy).statement.assertions
