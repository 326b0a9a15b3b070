"""What holds of settle(), whatever Placement has, the ledger says and drivers answer."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.ownership.ledger import NONE, Holding, Ledger, driver_of
from agent.ownership.policy import DISABLED, Policy
from agent.ownership.settle import settle
from agent.ownership.statement import Assertion, Statement, Statements
from reportclient.model import Provider
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

holdings = st.builds(
    Holding,
    st.booleans(),
    st.frozensets(st.sampled_from(CLASSES)),
    some_traits,
    st.frozensets(st.sampled_from(AGGREGATES)),
)
ledgers = st.builds(
    lambda rows: Ledger({uuid: row for uuid, row in rows.items() if row}, begun=True),
    st.dictionaries(
        st.sampled_from(UUIDS),
        st.dictionaries(st.sampled_from(MANAGERS), holdings.filter(NONE.__ne__), max_size=2),
    ),
)
worlds = snapshots(one_tree=True)


@st.composite
def statements(draw: st.DrawFn, manager: str, observed: Snapshot) -> Statement:
    """Of a driver that repeats some of what is there, changes some, and adds some."""
    said = {}
    for uuid in draw(st.lists(st.sampled_from(UUIDS), unique=True, max_size=4)):
        before = observed.get(uuid)
        if before is None:
            before = Provider(uuid, draw(st.sampled_from(NAMES)), ROOT)
        values = replace(before, inventory=draw(inventories), traits=draw(some_traits))
        values = before if draw(st.booleans()) else values
        held = Holding(draw(st.booleans()), frozenset(values.inventory), values.traits)
        if held != NONE:
            said[uuid] = Assertion(held, values)
    return Statement(manager, said, inventoried=frozenset(said))


@st.composite
def rounds(draw: st.DrawFn, observed: Snapshot) -> Statements:
    silent = draw(st.frozensets(st.sampled_from(MANAGERS)))
    found = [draw(statements(one, observed)) for one in MANAGERS if one not in silent]
    return Statements(tuple(found), silent, ("driver:one", "driver:two"))


asked = worlds.flatmap(lambda observed: st.tuples(st.just(observed), ledgers, rounds(observed)))


def unclaimed(observed: Snapshot, ledger: Ledger, said: Statements) -> set[str]:
    spoken = {uuid for one in said.statements for uuid in one.assertions}
    return set(observed.providers) - ledger.holders.keys() - spoken


@few
@given(asked)
def test_nothing_foreign_ever_changes(world: tuple[Snapshot, Ledger, Statements]) -> None:
    observed, ledger, said = world
    settled = settle(observed, ledger, said, POLICY)
    for uuid in unclaimed(observed, ledger, said):
        assert settled.desired.get(uuid) == observed.get(uuid)
    claimed = {
        (uuid, name)
        for uuid, holders in ledger.holders.items()
        for held in holders.values()
        for name in (*held.classes, *held.traits, *held.aggregates)
    }
    for uuid, provider in observed.providers.items():
        after = settled.desired.get(uuid)
        if after is None:
            assert ledger.is_ours(uuid)
            continue
        for before, now in (
            (provider.inventory.keys(), after.inventory.keys()),
            (provider.traits, after.traits),
            (provider.aggregates, after.aggregates),
        ):
            assert all((uuid, name) in claimed for name in before - now)


@few
@given(asked)
def test_settling_again_changes_nothing(world: tuple[Snapshot, Ledger, Statements]) -> None:
    """Once what leaves and is kept has lost its inventory and then the rest."""
    observed, ledger, said = world
    for _ in range(2):
        first = settle(observed, ledger, said, POLICY)
        observed, ledger = first.desired, first.ledger
    second = settle(first.desired, first.ledger, said, POLICY)
    assert second.desired == first.desired
    third = settle(second.desired, second.ledger, said, POLICY)
    assert third.ledger == second.ledger and third.desired is second.desired


@few
@given(asked)
def test_nothing_reserves_more_than_there_is(world: tuple[Snapshot, Ledger, Statements]) -> None:
    observed, ledger, said = world
    settled = settle(observed, ledger, said, POLICY)
    drained = settle(settled.desired, settled.ledger, Statements((), frozenset(MANAGERS)), POLICY)
    for desired in (settled.desired, drained.desired):
        for provider in desired.walk():
            for record in provider.inventory.values():
                assert 0 <= (record.reserved or 0) <= record.total


@few
@given(asked)
def test_the_desired_tree_is_a_tree(world: tuple[Snapshot, Ledger, Statements]) -> None:
    observed, ledger, said = world
    desired = settle(observed, ledger, said, POLICY).desired
    again = Snapshot.build(desired.walk())
    assert again == desired and len(again) == len(desired)


@few
@given(asked)
def test_the_order_of_answers_decides_nothing_but_exclusive_claims(
    world: tuple[Snapshot, Ledger, Statements],
) -> None:
    observed, ledger, said = world
    first = settle(observed, ledger, said, POLICY).desired
    turned = replace(said, statements=said.statements[::-1])
    other = settle(observed, ledger, turned, POLICY).desired
    for uuid in first.providers.keys() & other.providers.keys():
        one, two = first.providers[uuid], other.providers[uuid]
        assert one.traits == two.traits and one.aggregates == two.aggregates
        assert one.inventory.keys() == two.inventory.keys()


@few
@given(asked, st.sampled_from(["driver:one", "driver:two"]))
def test_who_is_silent_loses_nothing(
    world: tuple[Snapshot, Ledger, Statements], driver: str
) -> None:
    observed, ledger, said = world
    others = tuple(one for one in said.statements if driver_of(one.manager) != driver)
    said = replace(said, statements=others, silent=said.silent | {driver})
    settled = settle(observed, ledger, said, POLICY)
    for uuid, holders in ledger.holders.items():
        for who, held in holders.items():
            there = observed.get(uuid)
            if driver_of(who) != driver or there is None:
                continue
            after = settled.desired.get(uuid)
            missing = held.within(there).without(held.within(after))
            assert missing == NONE
            left = settled.ledger.holding_of(uuid, who)
            assert held.without(left) == NONE


@few
@given(asked)
def test_who_is_silent_holds_nobody_up(world: tuple[Snapshot, Ledger, Statements]) -> None:
    """What one asserts of providers that only it speaks of comes true."""
    observed, ledger, said = world
    said = replace(said, statements=said.statements[:1], silent=said.silent | {"driver:two"})
    settled = settle(observed, ledger, said, POLICY)
    for statement in said.statements:
        for uuid, one in statement.assertions.items():
            after = settled.desired.get(uuid)
            ours = uuid == ROOT or ledger.is_ours(uuid)
            if after is not None and ours and uuid not in settled.ledger.leaving:
                assert one.holding.traits <= after.traits | {DISABLED}


@few
@given(asked, st.booleans())
def test_without_a_ledger_nothing_that_drivers_left_unsaid_goes(
    world: tuple[Snapshot, Ledger, Statements], takes_over: bool
) -> None:
    observed, _, said = world
    settled = settle(observed, Ledger(), said, replace(POLICY, takes_over=takes_over))
    spoken = frozenset[str]().union(*(one.inventoried for one in said.statements))
    for uuid, before in observed.providers.items():
        after = settled.desired.get(uuid)
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
