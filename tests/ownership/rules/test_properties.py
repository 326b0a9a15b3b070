"""What holds of reconcile(), whatever Placement has, the ledger says and drivers answer."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.ownership.answers import Answer, Answers, Reported
from agent.ownership.ledger import Ledger, driver_of
from agent.ownership.policy import DISABLED, Policy
from agent.ownership.reconcile import reconcile
from reportclient.model import Provider
from reportclient.provider_tree import NONE, Claims
from reportclient.snapshot import Snapshot
from tests.profiles import examples
from tests.property.strategies import (
    AGGREGATES,
    CLASSES,
    NAMES,
    ROOT,
    UUIDS,
    inventories,
    snapshots,
)
from tests.property.strategies import traits as some_traits

few = settings(deadline=None, max_examples=examples(30), suppress_health_check=list(HealthCheck))
MANAGERS = ["driver:one", "driver:one/pci", "driver:two"]
POLICY = Policy(ROOT)

claims = st.builds(
    Claims,
    st.booleans(),
    st.frozensets(st.sampled_from(CLASSES)),
    some_traits,
    st.frozensets(st.sampled_from(AGGREGATES)),
)
ledgers = st.builds(
    lambda rows: Ledger({uuid: row for uuid, row in rows.items() if row}, known=True),
    st.dictionaries(
        st.sampled_from(UUIDS),
        st.dictionaries(st.sampled_from(MANAGERS), claims.filter(NONE.__ne__), max_size=2),
    ),
)
worlds = snapshots(one_tree=True)


@st.composite
def said_by(draw: st.DrawFn, owner: str, observed: Snapshot) -> Answer:
    """Of a driver that repeats some of what is there, changes some, and adds some."""
    said = {}
    for uuid in draw(st.lists(st.sampled_from(UUIDS), unique=True, max_size=4)):
        before = observed.get(uuid)
        if before is None:
            before = Provider(uuid, draw(st.sampled_from(NAMES)), ROOT)
        values = replace(before, inventory=draw(inventories), traits=draw(some_traits))
        values = before if draw(st.booleans()) else values
        held = Claims(draw(st.booleans()), frozenset(values.inventory), values.traits)
        if held != NONE:
            said[uuid] = Reported(held, values)
    return Answer(owner, said, sets_inventory=frozenset(said))


@st.composite
def rounds(draw: st.DrawFn, observed: Snapshot) -> Answers:
    unanswered = draw(st.frozensets(st.sampled_from(MANAGERS)))
    found = [draw(said_by(one, observed)) for one in MANAGERS if one not in unanswered]
    return Answers(tuple(found), unanswered, ("driver:one", "driver:two"))


asked = worlds.flatmap(lambda observed: st.tuples(st.just(observed), ledgers, rounds(observed)))


def unclaimed(observed: Snapshot, ledger: Ledger, said: Answers) -> set[str]:
    spoken = {uuid for one in said.in_order for uuid in one.reported}
    return set(observed.providers) - ledger.claims.keys() - spoken


@few
@given(asked)
def test_nothing_foreign_ever_changes(world: tuple[Snapshot, Ledger, Answers]) -> None:
    observed, ledger, said = world
    reconciled = reconcile(observed, ledger, said, POLICY)
    for uuid in unclaimed(observed, ledger, said):
        assert reconciled.desired.get(uuid) == observed.get(uuid)
    claimed = {
        (uuid, name)
        for uuid, holders in ledger.claims.items()
        for held in holders.values()
        for name in (*held.classes, *held.traits, *held.aggregates)
    }
    for uuid, provider in observed.providers.items():
        after = reconciled.desired.get(uuid)
        if after is None:
            assert ledger.owns(uuid)
            continue
        for before, now in (
            (provider.inventory.keys(), after.inventory.keys()),
            (provider.traits, after.traits),
            (provider.aggregates, after.aggregates),
        ):
            assert all((uuid, name) in claimed for name in before - now)


@few
@given(asked)
def test_settling_again_changes_nothing(world: tuple[Snapshot, Ledger, Answers]) -> None:
    """Once what leaves and is kept has lost its inventory and then the rest."""
    observed, ledger, said = world
    for _ in range(2):
        first = reconcile(observed, ledger, said, POLICY)
        observed, ledger = first.desired, first.ledger
    second = reconcile(first.desired, first.ledger, said, POLICY)
    assert second.desired == first.desired
    third = reconcile(second.desired, second.ledger, said, POLICY)
    assert third.ledger == second.ledger and third.desired is second.desired


@few
@given(asked)
def test_nothing_reserves_more_than_there_is(world: tuple[Snapshot, Ledger, Answers]) -> None:
    observed, ledger, said = world
    reconciled = reconcile(observed, ledger, said, POLICY)
    drained = reconcile(
        reconciled.desired, reconciled.ledger, Answers((), frozenset(MANAGERS)), POLICY
    )
    for desired in (reconciled.desired, drained.desired):
        for provider in desired.walk():
            for record in provider.inventory.values():
                assert 0 <= (record.reserved or 0) <= record.total


@few
@given(asked)
def test_the_desired_tree_is_a_tree(world: tuple[Snapshot, Ledger, Answers]) -> None:
    observed, ledger, said = world
    desired = reconcile(observed, ledger, said, POLICY).desired
    again = Snapshot.build(desired.walk())
    assert again == desired and len(again) == len(desired)


@few
@given(asked)
def test_the_order_of_answers_decides_nothing_but_exclusive_claims(
    world: tuple[Snapshot, Ledger, Answers],
) -> None:
    observed, ledger, said = world
    first = reconcile(observed, ledger, said, POLICY).desired
    turned = replace(said, in_order=said.in_order[::-1])
    other = reconcile(observed, ledger, turned, POLICY).desired
    for uuid in first.providers.keys() & other.providers.keys():
        one, two = first.providers[uuid], other.providers[uuid]
        assert one.traits == two.traits and one.aggregates == two.aggregates
        assert one.inventory.keys() == two.inventory.keys()


@few
@given(asked, st.sampled_from(["driver:one", "driver:two"]))
def test_who_is_silent_loses_nothing(world: tuple[Snapshot, Ledger, Answers], driver: str) -> None:
    observed, ledger, said = world
    others = tuple(one for one in said.in_order if driver_of(one.owner) != driver)
    said = replace(said, in_order=others, unanswered=said.unanswered | {driver})
    reconciled = reconcile(observed, ledger, said, POLICY)
    for uuid, holders in ledger.claims.items():
        for who, held in holders.items():
            there = observed.get(uuid)
            if driver_of(who) != driver or there is None:
                continue
            after = reconciled.desired.get(uuid)
            missing = held.within(there).without(held.within(after))
            assert missing == NONE
            left = reconciled.ledger.claims_of(uuid, who)
            assert held.without(left) == NONE


@few
@given(asked)
def test_who_is_silent_holds_nobody_up(world: tuple[Snapshot, Ledger, Answers]) -> None:
    """What one asserts of providers that only it speaks of comes true."""
    observed, ledger, said = world
    said = replace(said, in_order=said.in_order[:1], unanswered=said.unanswered | {"driver:two"})
    reconciled = reconcile(observed, ledger, said, POLICY)
    for answer in said.in_order:
        for uuid, one in answer.reported.items():
            after = reconciled.desired.get(uuid)
            ours = uuid == ROOT or ledger.owns(uuid)
            if after is not None and ours and uuid not in reconciled.ledger.leaving:
                assert one.claims.traits <= after.traits | {DISABLED}


@few
@given(asked, st.booleans())
def test_without_a_ledger_nothing_that_drivers_left_unsaid_goes(
    world: tuple[Snapshot, Ledger, Answers], takes_over: bool
) -> None:
    observed, _, said = world
    reconciled = reconcile(observed, Ledger(), said, replace(POLICY, takes_over=takes_over))
    spoken = frozenset[str]().union(*(one.sets_inventory for one in said.in_order))
    for uuid, before in observed.providers.items():
        after = reconciled.desired.get(uuid)
        assert after is not None
        assert before.traits <= after.traits and before.aggregates <= after.aggregates
        if not takes_over or uuid not in spoken:
            assert before.inventory.keys() <= after.inventory.keys()


@few
@given(snapshots(), snapshots())
def test_a_forest_with_changes_is_as_one_that_was_built(one: Snapshot, other: Snapshot) -> None:
    changes: dict[str, Provider | None] = dict.fromkeys(one.providers.keys() - other.providers)
    changes.update(other.providers)
    made, built = one.with_changes(changes), Snapshot.build(other.walk())
    assert made == built
    for uuid in (None, *built.providers):
        assert set(made.children(uuid)) == set(built.children(uuid))
    assert [made.named(name) for name in NAMES] == [built.named(name) for name in NAMES]
    assert {each.uuid for each in made.walk()} == set(built.providers)
    for uuid in one.providers.keys() | other.providers.keys():
        if one.get(uuid) != made.get(uuid):
            assert uuid in made.changed_since(one)
    assert one == Snapshot.build(one.walk())
