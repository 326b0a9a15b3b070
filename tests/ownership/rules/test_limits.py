"""What is never claimed, removed or taken over, and what the ledger keeps: each limit by itself."""

from dataclasses import replace

import pytest

from agent.ownership.answers import Answer, Answers, Reported
from agent.ownership.ledger import (
    AGENT,
    FILES,
    MOST_REMOVED,
    OWN_UUID,
    REPLACED,
    RESTORED,
    STATUS,
    Ledger,
    Removed,
)
from agent.ownership.policy import DISABLED, MANAGED_BY_NOVA, Policy
from agent.ownership.reconcile import Reconciled, reconcile
from agent.period.tracker import snapshot_for_driver
from agent.period.traits import AgentTraits, identifying_traits
from reportclient.model import Inventory, Provider
from reportclient.plan import Problem
from reportclient.provider_tree import NONE, Claims, own_uuid
from reportclient.snapshot import Snapshot
from reportclient.view import View
from tests.ownership.rules.small import (
    ATTACHED,
    DEVICE,
    ONE,
    OWN,
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

A, B = "CUSTOM_A", "CUSTOM_B"
POOLED, DELETED = (f"c0ffee00-0000-4000-8000-00000000000{number}" for number in (3, 4))
HOST = (ONE, ROOT, claim(provider=True))


def texts(reconciled: Reconciled) -> str:
    return " | ".join(one.text for one in reconciled.problems)


# -- another service's providers


def test_a_provider_that_another_service_made_is_not_changed() -> None:
    said = said_by(says(ONE, root(), device(8, A)))
    reconciled = reconcile(there(root(), device(4)), kept(HOST), said, OWN)
    assert reconciled.desired.providers[DEVICE] == device(4)
    assert not reconciled.ledger.claims_on(DEVICE)
    assert (
        f"not changed: created by another service (to take it over: computectl adopt {DEVICE}"
        in (texts(reconciled))
    )


def test_without_a_ledger_a_driver_may_report_what_is_there() -> None:
    """Who made it can't be known: a driver that reports it anew has its own again."""
    said = said_by(says(ONE, root(), device(8, A)))
    reconciled = reconcile(there(root(), device(4)), Ledger(), said, OWN)
    assert reconciled.desired.providers[DEVICE] == device(8, A)
    assert reconciled.ledger.owns(DEVICE) and not reconciled.problems


POOL = Provider(DEVICE, "pool", None, device(8).inventory)
BESIDE_POOL = replace(OWN, foreign=frozenset({DEVICE}))


def test_another_services_sharing_provider_is_not_changed() -> None:
    edited = replace(POOL, traits=names(A))
    reconciled = reconcile(
        there(root(), POOL), kept(HOST), said_by(says(ONE, root(), edited)), BESIDE_POOL
    )
    assert reconciled.desired.providers[DEVICE] == POOL
    assert "not changed: sharing provider of another service" in texts(reconciled)


def test_a_provider_that_became_another_services_is_not_removed() -> None:
    """The ledger may still name a driver that created it."""
    ours = kept(HOST, (ONE, DEVICE, claim("VCPU", provider=True)))
    reconciled = reconcile(there(root(), POOL), ours, said_by(says(ONE, root())), BESIDE_POOL)
    assert reconciled.desired.providers[DEVICE] == POOL


@pytest.mark.parametrize(
    ("policy", "traits", "made"),
    [
        (OWN, "MISC_SHARES_VIA_AGGREGATE", True),
        (OWN, "", False),
        (ATTACHED, "MISC_SHARES_VIA_AGGREGATE", False),
    ],
)
def test_a_second_root_has_to_share_and_is_not_made_beside_nova_compute(
    policy: Policy, traits: str, made: bool
) -> None:
    pool = replace(POOL, traits=names(traits), aggregates=frozenset({ROOT}))
    reconciled = reconcile(there(root()), kept(HOST), said_by(says(ONE, pool)), policy)
    assert (DEVICE in reconciled.desired) is made
    why = "allows no other root" if not policy.owns_root else "has to be a sharing provider"
    assert (why in texts(reconciled)) is not made


def test_a_root_that_is_there_and_shares_is_changed_by_who_reports_it() -> None:
    said = said_by(says(ONE, root(), replace(POOL, traits=names(A))))
    reconciled = reconcile(there(root(), POOL), kept(HOST), said, OWN)
    assert reconciled.desired.providers[DEVICE].traits == names(A)


@pytest.mark.parametrize(
    ("policy", "uuid", "ours", "may"),
    [
        (OWN, ROOT, False, True),
        (ATTACHED, ROOT, True, False),
        (OWN, DEVICE, True, True),
        (OWN, DEVICE, False, False),
        (BESIDE_POOL, DEVICE, True, False),
    ],
    ids=["own root", "attached root", "ours", "in no ledger", "foreign"],
)
def test_allocations_are_moved_between_our_own_providers_only(
    policy: Policy, uuid: str, ours: bool, may: bool
) -> None:
    ledger = kept((ONE, uuid, claim(provider=True))) if ours else kept()
    assert policy.may_move(uuid, ledger) is may


# -- the root of another service


def test_a_trait_that_the_owner_of_the_root_has_set_stays_its_own() -> None:
    """A driver that says the same does not hold it, and so never removes it."""
    said = said_by(says(ONE, root(0, f"{A} {B}"), places=False))
    reconciled = reconcile(there(root(0, A)), kept(), said, ATTACHED)
    assert reconciled.desired.providers[ROOT].traits == names(f"{A} {B}")
    assert reconciled.ledger.claims_of(ROOT, ONE).traits == names(B)


def test_inventory_and_aggregates_of_an_attached_root_are_its_owners() -> None:
    said = said_by(says(ONE, root(9, B), places=False))
    reconciled = reconcile(there(root(8)), kept(), said, ATTACHED)
    assert reconciled.desired.providers[ROOT].inventory == root(8).inventory
    assert "VCPU not reported: another service owns this root and its inventory" in texts(
        reconciled
    )


def test_what_a_driver_says_of_an_attached_root_as_it_is_needs_no_word() -> None:
    """A record without a ratio leaves the owner's."""
    shared = Inventory(8, allocation_ratio=4.0).with_defaults(None)
    observed = there(replace(root(0, A), inventory={"VCPU": shared}))
    said = says(ONE, replace(root(0, A), inventory={"VCPU": Inventory(8)}), places=False)
    reconciled = reconcile(observed, kept((ONE, ROOT, claim(traits=A))), said_by(said), ATTACHED)
    assert reconciled.desired is observed and not reconciled.problems
    assert reconciled.ledger.claims_of(ROOT, ONE) == claim(traits=A)


@pytest.mark.parametrize("known", [True, False])
def test_another_services_child_of_an_attached_root_is_not_changed(known: bool) -> None:
    observed, ledger = there(root(8), device(8)), Ledger(known=known)
    for said in (says(ONE, device(9)), says(ONE, device(8, A))):
        reconciled = reconcile(observed, ledger, said_by(said), ATTACHED)
        assert reconciled.desired is observed and not reconciled.ledger.claims
        assert texts(reconciled) == "not changed: created by another service"
    assert not reconcile(observed, ledger, said_by(says(ONE, device(8))), ATTACHED).problems


@pytest.mark.parametrize("policy", [OWN, ATTACHED])
def test_a_root_of_another_service_keeps_its_traits_when_all_is_released(policy: Policy) -> None:
    traits = "COMPUTE_NODE COMPUTE_STATUS_DISABLED"
    policy = replace(policy, released=True, keeps=False, agent_traits=names(traits))
    for ledger in (kept(), kept((ONE, ROOT, claim(traits=A)))):
        reconciled = reconcile(there(root(8, f"{A} {traits}")), ledger, Answers(), policy)
        if policy.owns_root:
            assert not reconciled.desired.providers[ROOT].inventory
        else:
            left = names(traits) | (names("") if ledger.claims else names(A))
            assert reconciled.desired.providers[ROOT] == root(8, " ".join(left))


def test_an_attached_root_gets_no_aggregates_and_no_traits_of_files() -> None:
    pool = Reported(Claims(aggregates=frozenset({A})), root())
    said = said_by(Answer(ONE, {ROOT: pool}), says(FILES, root(0, B), places=False))
    reconciled = reconcile(there(root()), kept(), said, ATTACHED)
    assert reconciled.desired.providers[ROOT] == root()
    assert [one.text for one in reconciled.problems] == [
        "aggregates not changed: another service owns this root",
        "not changed: created by another service",
    ]


# -- what is the agent's own


def test_no_driver_sets_the_disabled_status() -> None:
    reconciled = reconcile(
        there(root()), kept(HOST), said_by(says(ONE, root(0, f"{DISABLED} {A}"))), OWN
    )
    assert reconciled.desired.providers[ROOT].traits == names(A)
    assert reconciled.ledger.claims_of(ROOT, ONE).traits == names(A)
    text = f"{DISABLED} of driver one ignored: only the agent sets this trait"
    assert reconciled.problems == (Problem(ROOT, "host", text),)


def test_what_only_the_agent_sets_needs_no_word_where_it_is_set() -> None:
    said = said_by(says(ONE, root(0, DISABLED), device(0, DISABLED)))
    reconciled = reconcile(there(root(0, DISABLED)), kept(HOST), said, OWN)
    assert [one.uuid for one in reconciled.problems] == [DEVICE]


@pytest.mark.parametrize("policy", [OWN, ATTACHED])
def test_nova_s_mark_is_set_below_an_own_root_only(policy: Policy) -> None:
    said = said_by(says(ONE, device(0, MANAGED_BY_NOVA)))
    reconciled = reconcile(there(root()), kept(), said, policy)
    mark = set() if not policy.owns_root else {MANAGED_BY_NOVA}
    assert reconciled.desired.providers[DEVICE].traits == mark


def test_a_file_does_not_claim_a_trait_that_is_there() -> None:
    said = said_by(says(ONE, root(0, A)), says(FILES, root(0, f"{A} {B}"), places=False))
    ledger = reconcile(there(root(0, A)), kept(HOST), said, OWN).ledger
    assert ledger.claims_of(ROOT, FILES) == claim(traits=B)
    assert ledger.claims_of(ROOT, ONE) == claim(traits=A, provider=True)


def test_the_agent_sets_it() -> None:
    said = said_by(says(ONE, root()), says(AGENT, root(0, DISABLED), places=False))
    reconciled = reconcile(there(root()), kept(HOST), said, OWN)
    assert reconciled.desired.providers[ROOT].traits == names(DISABLED)


def test_the_hosts_own_root_never_goes() -> None:
    reconciled = reconcile(
        there(root(8)), kept(HOST), said_by(Answer(ONE, removed=frozenset({ROOT}))), OWN
    )
    assert ROOT in reconciled.desired


# -- removed by name


def removing(
    ledger: Ledger, policy: Policy = OWN, *others: Answer, unanswered: str = ""
) -> set[str]:
    """Traits that the device, or an attached root, keeps after driver one removed both."""
    uuid = ROOT if not policy.owns_root else DEVICE
    observed = there(root(0, f"{A} {B}"), device(0, f"{A} {B}"))
    absent = {uuid: Claims(traits=names(f"{A} {B}"))}
    first = replace(says(ONE, root(), device(), places=policy.owns_root), absent=absent)
    said = said_by(first, *others, unanswered=filter(None, [unanswered]))
    return set(reconcile(observed, ledger, said, policy).desired.providers[uuid].traits)


OURS = kept(HOST, (ONE, DEVICE, claim(provider=True)))


def test_a_trait_that_a_driver_removes_by_name_goes_whoever_set_it() -> None:
    assert removing(OURS) == removing(OURS, OWN, says(TWO)) == set()
    beside = OURS.adding(AGENT, ROOT, claim(traits=A))
    assert removing(beside, OWN, unanswered=AGENT) == set()


def test_the_agents_own_denial_counts_whatever_a_driver_denies_before_it() -> None:
    first = replace(says(ONE), absent={ROOT: Claims(traits=names(A))})
    agents = replace(says(AGENT, root()), absent={ROOT: Claims(traits=names(B))})
    observed = there(root(0, f"{A} {B}"))
    reconciled = reconcile(observed, kept(), said_by(first, agents), OWN)
    assert reconciled.desired.providers[ROOT].traits == {A}


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        (replace(OWN, agent_traits=names(A)), {A}),
        (replace(OWN, contested=frozenset({(DEVICE, B)})), {B}),
        (replace(OWN, foreign=frozenset({DEVICE})), {A, B}),
        (ATTACHED, {A, B}),
    ],
    ids=["the agent's", "contested", "foreign", "on an attached root"],
)
def test_a_trait_stays_that_a_driver_may_not_remove(policy: Policy, left: set[str]) -> None:
    ledger = kept(HOST) if policy.foreign or not policy.owns_root else OURS
    assert removing(ledger, policy) == left


def test_a_trait_stays_that_another_driver_reports_or_holds() -> None:
    assert removing(OURS, OWN, says(TWO, device(0, A), places=False)) == {A}
    held = OURS.adding(TWO, DEVICE, claim(traits=B))
    assert removing(held, OWN, unanswered=TWO) == {B}


def test_a_contested_aggregate_stays_for_now() -> None:
    pool = frozenset({A})
    observed = there(root(), replace(device(), aggregates=pool))
    said = said_by(replace(says(ONE, root(), device()), absent={DEVICE: Claims(aggregates=pool)}))
    for contested, left in ((frozenset[tuple[str, str]](), frozenset()), ({(DEVICE, A)}, pool)):
        policy = replace(OWN, contested=frozenset(contested))
        assert reconcile(observed, OURS, said, policy).desired.providers[DEVICE].aggregates == left


def test_nothing_is_removed_by_name_while_a_drivers_claims_are_unknown() -> None:
    assert removing(OURS, OWN, unanswered=TWO) == {A, B}


def test_nothing_is_removed_by_name_from_a_provider_that_is_not_ours() -> None:
    absent = {DEVICE: Claims(traits=names(A))}
    said = said_by(replace(says(ONE, root()), absent=absent))
    for ledger in (kept(HOST), kept(HOST, (TWO, DEVICE, claim(traits=B)))):
        reconciled = reconcile(there(root(), device(0, f"{A} {B}")), ledger, said, OWN)
        assert A in reconciled.desired.providers[DEVICE].traits


# -- providers of which a driver asserts what Placement has, as in almost all periods


CURRENT = there(root(), device(0, A))
ON_DEVICE = claim(provider=True)


def current(held: Claims, **more: object) -> Answer:
    """What driver one asserts of providers as they were observed: the same objects."""
    device = Reported(held, CURRENT.providers[DEVICE])
    said = {ROOT: Reported(ON_DEVICE, CURRENT.providers[ROOT]), DEVICE: device}
    return Answer(ONE, said, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "said", "goes"),
    [
        ({ONE: ON_DEVICE}, said_by(current(ON_DEVICE)), False),
        ({ONE: claim(traits=A, provider=True)}, said_by(current(ON_DEVICE)), True),
        ({ONE: ON_DEVICE, TWO: claim(traits=A)}, said_by(current(ON_DEVICE), says(TWO)), True),
        (
            {ONE: ON_DEVICE},
            said_by(current(ON_DEVICE, absent={DEVICE: Claims(traits=names(A))})),
            True,
        ),
    ],
    ids=["nobody's", "released", "released by another", "removed by name"],
)
def test_a_trait_may_go_from_a_provider_that_is_asserted_as_it_is(
    row: dict[str, Claims], said: Answers, goes: bool
) -> None:
    ledger = Ledger({ROOT: {ONE: ON_DEVICE}, DEVICE: row}, known=True)
    reconciled = reconcile(CURRENT, ledger, said, OWN)
    assert (A not in reconciled.desired.providers[DEVICE].traits) is goes
    absent = {(DEVICE, A): "driver one reports it absent"} if said.in_order[0].absent else {}
    assert dict(reconciled.absences) == absent


# -- without a ledger, or with one that can't be written


def test_while_no_ledger_can_be_written_only_what_it_has_counts() -> None:
    ledger = kept(HOST, (ONE, DEVICE, claim("VCPU", provider=True)))
    more = Provider(DEVICE, "device", ROOT, {**device(6).inventory, **fpga(2)}, names(A))
    said = said_by(says(ONE, root(), more))
    reconciled = reconcile(there(root(), device(8)), ledger, said, replace(OWN, repeats_only=True))
    assert reconciled.desired.providers[DEVICE] == device(6), "a change of what is held counts"
    assert reconciled.ledger.claims_of(DEVICE, ONE) == claim("VCPU", provider=True)


def test_without_a_writable_ledger_the_agent_sets_traits_where_it_is_owner() -> None:
    said = said_by(says(AGENT, root(0, A), places=False))
    policy = replace(OWN, repeats_only=True)
    assert reconcile(there(root()), kept(HOST), said, policy).desired.providers[ROOT].traits == {A}
    assert not reconcile(there(root()), kept(), said, policy).desired.providers[ROOT].traits


def fpga(total: int) -> dict[str, Inventory]:
    return {"FPGA": Inventory(total).with_defaults(None)}


def test_a_ledger_begins_with_a_drivers_first_answer() -> None:
    """Before that a takeover from nova-compute is still to come."""
    files = says(FILES, root(0, A), places=False)
    assert not reconcile(there(root()), Ledger(), said_by(files), OWN).ledger.known
    assert reconcile(there(root()), Ledger(), said_by(says(ONE, root())), OWN).ledger.known


@pytest.mark.parametrize("takes_over", [True, False])
@pytest.mark.parametrize("begun", [True, False])
def test_a_takeover_replaces_the_classes_of_nova_compute_once(
    takes_over: bool, begun: bool
) -> None:
    """A class that the driver leaves out goes then, and otherwise is another service's."""
    observed = there(Provider(ROOT, "host", None, {**root(8).inventory, **fpga(2)}))
    policy = replace(OWN, takes_over=takes_over)
    reconciled = reconcile(observed, Ledger(known=begun), said_by(says(ONE, root(8))), policy)
    left = {"VCPU"} if takes_over and not begun else {"VCPU", "FPGA"}
    assert reconciled.desired.providers[ROOT].inventory.keys() == left


def test_a_takeover_keeps_what_the_agent_and_the_files_hold() -> None:
    held = {owner: claim(traits=A) for owner in (AGENT, STATUS, FILES)}
    policy = replace(OWN, takes_over=True)
    said = said_by(says(ONE, root(8)))
    before = reconcile(there(root(8, A)), Ledger({ROOT: held}), said, policy).before
    assert before.claims == {ROOT: {**held, REPLACED: claim("VCPU")}}


@pytest.mark.parametrize("held_before", [NONE, claim(traits=B)])
@pytest.mark.parametrize("owner", ["", TWO])
def test_a_driver_adopts_only_what_is_surely_another_services(
    owner: str, held_before: Claims
) -> None:
    rows = [(ONE, DEVICE, held_before), (owner, DEVICE, claim(provider=True))]
    ledger = kept(HOST, *(row for row in rows if row[0] and row[2] != NONE))
    said = said_by(replace(says(ONE, root()), adopted=frozenset({DEVICE})), unanswered=[TWO])
    theirs = "COMPUTE_MANAGED_PCI_DEVICE"
    before = reconcile(there(root(), device(8, f"{A} {theirs}")), ledger, said, OWN).before
    everything = claim("VCPU", theirs, provider=True).joined(held_before)
    held = held_before if owner else everything
    assert before.claims_of(DEVICE, ONE) == held


def test_beside_another_owner_nothing_is_adopted() -> None:
    said = said_by(replace(says(ONE), adopted=frozenset({DEVICE})))
    assert not reconcile(there(root(), device(8)), kept(), said, ATTACHED).before.claims


@pytest.mark.parametrize("reported", [True, False])
def test_classes_of_an_own_provider_in_no_ledger_belong_to_their_reporter(reported: bool) -> None:
    """A pool before it in order has another root, and is nobody's here."""
    uuid = own_uuid(ROOT, "card", "one")
    card = Provider(uuid, "card", ROOT, fpga(2))
    pool = Provider(own_uuid(ROOT, "pool", "one"), "pool", None, fpga(2))
    said = says(ONE, root(), *([replace(card, inventory={})] if reported else []))
    before = reconcile(there(pool, root(), card), Ledger(known=True), said_by(said), OWN).before
    classes = "" if reported else "FPGA"
    assert before.claims == {uuid: {OWN_UUID: claim(classes, provider=True)}}


def test_a_class_of_a_silent_source_is_not_taken_by_another_source() -> None:
    one, other = f"{ONE}/pci", f"{ONE}/mdev"
    more = {**fpga(2), **dict.fromkeys(("VGPU", "PGPU", "CUSTOM_C"), Inventory(1))}
    both = replace(device(5), inventory={**device(5).inventory, **more})
    ledger = kept(HOST, (one, DEVICE, claim("VCPU", provider=True)))
    said = said_by(says(ONE, root()), says(other, both, places=False), unanswered=[one])
    inventory = (
        reconcile(there(root(), device(8)), ledger, said, OWN).desired.providers[DEVICE].inventory
    )
    assert inventory["VCPU"] == device(8).inventory["VCPU"]
    assert inventory.keys() == both.inventory.keys()


def test_a_class_that_a_driver_reports_is_nova_computes_no_more() -> None:
    """Or it would go once the driver leaves it out for another one to report."""
    ledger = kept(HOST, (REPLACED, ROOT, claim("VCPU FPGA")))
    observed = there(Provider(ROOT, "host", None, {**root(8).inventory, **fpga(2)}))
    answer = Answer(ONE, {ROOT: Reported(claim("VCPU", provider=True), root(8))})
    reconciled = reconcile(observed, ledger, said_by(answer, unanswered=[TWO]), OWN)
    assert reconciled.ledger.claims_of(ROOT, REPLACED) == claim("FPGA")


@pytest.mark.parametrize(("driver", "ours"), [("", True), ("one", True), ("three", False)])
def test_a_provider_with_a_generated_uuid_is_ours_without_a_ledger(driver: str, ours: bool) -> None:
    uuid = own_uuid(ROOT, "card", driver)
    observed = there(root(), Provider(uuid, "card", ROOT, fpga(2)))
    said = said_by(replace(says(ONE, root()), removed=frozenset({uuid})))
    reconciled = reconcile(observed, Ledger(known=True), said, OWN)
    assert (uuid not in reconciled.desired) is ours
    assert ("created by another service" in texts(reconciled)) is not ours


def test_removal_of_an_own_or_a_missing_provider_is_no_problem() -> None:
    third = "c0ffee00-0000-4000-8000-000000000009"
    gone = frozenset({DEVICE, third})
    said = said_by(replace(says(ONE, root()), removed=gone))
    reconciled = reconcile(there(root(), device()), OURS, said, OWN)
    assert DEVICE not in reconciled.desired and not reconciled.problems


def test_claims_of_a_departed_driver_go_though_the_agent_is_silent() -> None:
    ledger = kept((TWO, DEVICE, claim("VCPU", provider=True)))
    said = said_by(says(ONE), unanswered=[AGENT, STATUS])
    assert DEVICE not in reconcile(there(root(), device(8)), ledger, said, ATTACHED).desired


# -- what the ledger keeps


def test_claims_of_a_silent_source_stay_though_its_driver_answered() -> None:
    source = f"{ONE}/pci"
    ledger = kept(HOST, (source, DEVICE, claim("VCPU", A, provider=True)))
    full = there(root(), device(8, A))
    assert (
        DEVICE
        in reconcile(full, ledger, said_by(says(ONE, root()), unanswered=[source]), OWN).desired
    )
    assert (
        DEVICE not in reconcile(full, ledger, said_by(says(ONE, root()), says(source)), OWN).desired
    )


def test_a_claim_on_a_provider_that_is_to_be_made_again_stays() -> None:
    """It may only have been missed: somebody deleted it, and another driver still reports it."""
    ledger = kept(HOST, (ONE, DEVICE, claim(provider=True)), (TWO, DEVICE, claim("FPGA", A)))
    said = said_by(says(ONE, root(), device()), says(TWO))
    reconciled = reconcile(there(root()), ledger, said, OWN)
    assert reconciled.ledger.claims_of(DEVICE, TWO) == claim("FPGA", A)


def test_what_was_released_is_held_until_placement_is_seen_without_it() -> None:
    ledger = kept(HOST, (ONE, DEVICE, claim("VCPU", A, provider=True)))
    said = said_by(says(ONE, root(), device()))
    first = reconcile(there(root(), device(8, A)), ledger, said, OWN)
    assert first.ledger.claims_of(DEVICE, ONE) == claim("VCPU", A, provider=True)
    then = reconcile(there(root(), device(8)), first.ledger, said, OWN)
    assert then.ledger.claims_of(DEVICE, ONE) == claim("VCPU", provider=True)
    last = reconcile(there(root(), device()), then.ledger, said, OWN)
    assert last.ledger.claims_of(DEVICE, ONE) == claim(provider=True)


def test_of_two_that_report_a_provider_the_first_holds_it() -> None:
    said = said_by(says(ONE, root(), device()), says(TWO, device(0, A)))
    reconciled = reconcile(there(root()), kept(HOST), said, OWN)
    assert reconciled.ledger.claims_of(DEVICE, ONE) == claim(provider=True)
    assert reconciled.ledger.claims_of(DEVICE, TWO) == claim(traits=A)


def test_a_provider_of_a_silent_driver_keeps_its_name() -> None:
    ledger = kept(HOST, (ONE, DEVICE, claim(provider=True)), (TWO, DEVICE, claim(traits=A)))
    said = said_by(says(TWO, device(0, A, name="renamed")), unanswered=[ONE])
    assert reconcile(there(root(), device(0, A)), ledger, said, OWN).desired.named("device")


def test_a_provider_is_renamed_though_a_silent_driver_has_a_trait_of_it() -> None:
    ledger = kept((TWO, DEVICE, claim(traits=A)), HOST, (ONE, DEVICE, claim(provider=True)))
    said = said_by(says(ONE, root(), device(name="renamed")), unanswered=[TWO])
    assert reconcile(there(root(), device(0, A)), ledger, said, OWN).desired.named("renamed")


@pytest.mark.parametrize(("holder", "other", "total"), [(TWO, ONE, 5), (ONE, TWO, 8)])
def test_a_class_of_a_silent_driver_is_taken_by_one_before_it_in_order(
    holder: str, other: str, total: int
) -> None:
    ledger = kept(
        (AGENT, ROOT, claim(provider=True)), (holder, DEVICE, claim("VCPU", provider=True))
    )
    said = said_by(says(other, device(5), places=False), unanswered=[holder])
    reconciled = reconcile(there(root(), device(8)), ledger, said, OWN)
    assert reconciled.desired.providers[DEVICE] == device(total)


def test_what_nova_compute_had_stays_where_no_driver_sets_the_inventory() -> None:
    ledger = kept(HOST, (REPLACED, ROOT, claim("VCPU")))
    said = said_by(Answer(ONE, {ROOT: Reported(claim(provider=True), root())}))
    assert reconcile(there(root(8)), ledger, said, OWN).desired.providers[ROOT] == root(8)


@pytest.mark.parametrize("policy", [ATTACHED, replace(OWN, foreign=frozenset({ROOT}))])
def test_classes_of_another_services_root_stay_though_they_are_released(policy: Policy) -> None:
    ledger = kept((ONE, ROOT, claim("VCPU", provider=True)))
    reconciled = reconcile(there(root(8)), ledger, said_by(says(ONE)), policy)
    assert reconciled.desired.providers[ROOT] == root(8)


def test_what_a_file_adds_to_a_device_of_a_lost_ledger_stays() -> None:
    card = Provider(own_uuid(ROOT, "card"), "card", ROOT, device(4).inventory)
    more = replace(card, inventory=fpga(1), traits=names(A))
    files = Answer(FILES, {card.uuid: Reported(claim("FPGA", A), more)})
    observed, ledger, said = there(root(), card), Ledger(), said_by(says(ONE, root()), files)
    for _ in range(3):
        reconciled = reconcile(observed, ledger, said, OWN)
        observed, ledger = reconciled.desired, reconciled.ledger
        now = observed.providers[card.uuid]
        assert (now.inventory, now.traits) == ({**card.inventory, **fpga(1)}, names(A))
        assert not reconciled.problems


@pytest.mark.parametrize("silent", [[], [TWO]])
def test_what_files_say_of_a_provider_goes_once_no_driver_reports_it(silent: list[str]) -> None:
    """While an operator's trait keeps the provider nothing of it is offered."""
    now = replace(device(8, f"{A} {B}"), inventory={**device(8).inventory, **fpga(1)})
    ledger = kept(
        HOST, (ONE, DEVICE, claim("VCPU", provider=True)), (FILES, DEVICE, claim("FPGA", A))
    )
    files = Answer(FILES, {DEVICE: Reported(claim("FPGA", A), now)})
    said = said_by(says(ONE, root()), files, unanswered=silent)
    reconciled = reconcile(there(root(), now), ledger, said, OWN)
    assert not reconciled.desired.providers[DEVICE].inventory
    reconciled = reconcile(reconciled.desired, reconciled.ledger, said, OWN)
    assert reconciled.desired.providers[DEVICE] == device(0, B)


def test_what_files_say_stays_while_a_silent_driver_may_keep_the_provider() -> None:
    now = Provider(DEVICE, "device", ROOT, fpga(1), names(A))
    ledger = kept(HOST, (ONE, DEVICE, claim(provider=True)), (TWO, DEVICE, claim(traits=A)))
    files = Answer(FILES, {DEVICE: Reported(claim("FPGA"), now)})
    ledger = ledger.adding(FILES, DEVICE, claim("FPGA"))
    said = said_by(says(ONE, root()), files, unanswered=[TWO])
    assert reconcile(there(root(), now), ledger, said, OWN).desired.providers[DEVICE] == now


def test_a_provider_file_takes_no_class_that_somebody_else_has_set() -> None:
    both = replace(root(5), inventory={**root(5).inventory, **fpga(1)})
    said = said_by(says(ONE, root()), says(FILES, both, places=False))
    reconciled = reconcile(there(root(8)), kept(HOST), said, OWN)
    for _ in range(2):
        inventory = reconciled.desired.providers[ROOT].inventory
        assert inventory == {**root(8).inventory, **fpga(1)}
        assert reconciled.ledger.claims_of(ROOT, FILES) == claim("FPGA")
        ignored = "VCPU of the file ignored: the provider has it without the file"
        assert ignored in texts(reconciled)
        reconciled = reconcile(reconciled.desired, reconciled.ledger, said, OWN)


# -- what a driver is shown


def test_a_driver_is_shown_what_is_its_own_or_nobodys() -> None:
    full = device(8, f"{A} {B}")
    ledger = kept(
        (ONE, DEVICE, claim(traits=A, provider=True)), (TWO, DEVICE, claim("VCPU", f"{A} {B}"))
    )
    whole = there(root(4), full)
    assert snapshot_for_driver(ONE, whole, ledger, frozenset()).providers == {
        ROOT: root(4),
        DEVICE: device(0, A),
    }
    assert snapshot_for_driver(TWO, whole, ledger, frozenset()).providers == {
        ROOT: root(4),
        DEVICE: full,
    }


# -- what was removed, and a restored Placement has again


def view(snapshot: Snapshot, generation: int) -> View:
    return View(snapshot, {ROOT: 7, DEVICE: generation})


REMOVED = Ledger(known=True, removed={DEVICE: Removed(5, claim(traits=A))})


@pytest.mark.parametrize(("generation", "goes"), [(4, True), (5, True), (6, False)])
def test_what_was_removed_goes_once_more_unless_its_generation_has_grown(
    generation: int, goes: bool
) -> None:
    """Under a later one somebody else has set it since; each write of a trait gives a new one."""
    ledger = REMOVED.with_restored(view(there(root(), device(0, A)), generation), ROOT)
    assert (ledger.claims_of(DEVICE, RESTORED) == claim(traits=A)) is goes


@pytest.mark.parametrize(("generation", "goes"), [(4, True), (5, False)])
def test_an_aggregate_may_be_another_services_under_the_same_generation(
    generation: int, goes: bool
) -> None:
    """Before microversion 1.19 aggregates are set without a new generation."""
    removed = Ledger(known=True, removed={DEVICE: Removed(5, Claims(aggregates=frozenset({A})))})
    observed = there(root(), replace(device(0), aggregates=frozenset({A})))
    ledger = removed.with_restored(view(observed, generation), ROOT)
    assert (ledger.claims_of(DEVICE, RESTORED) == Claims(aggregates=frozenset({A}))) is goes


def test_a_generation_that_is_not_known_counts_as_the_lowest() -> None:
    removed = Ledger(known=True, removed={DEVICE: Removed(0, claim(traits=A))})
    ledger = removed.with_restored(View(there(root(), device(0, A))), ROOT)
    assert ledger.claims_of(DEVICE, RESTORED) == claim(traits=A)


def test_each_provider_with_removed_claims_counts_by_itself() -> None:
    """The first is deleted, the second is another service's root, both by another client."""
    removed = dict.fromkeys((DELETED, POOLED, DEVICE), Removed(5, claim(traits=A)))
    before = Ledger(known=True, removed=removed)
    now = view(there(root(), Provider(POOLED, "pool", None, {}, names(A)), device(0, A)), 5)
    assert before.with_restored(now, ROOT).claims == {DEVICE: {RESTORED: claim(traits=A)}}
    assert before.with_removed_since(before, now).removed.keys() == {POOLED, DEVICE}


def test_a_removed_provider_goes_once_more_whatever_its_generation() -> None:
    removed = Ledger(known=True, removed={DEVICE: Removed(None, claim("VCPU", provider=True))})
    ledger = removed.with_restored(view(there(root(), device(8)), 99), ROOT)
    assert ledger.claims_of(DEVICE, RESTORED) == claim("VCPU", provider=True)


def test_what_a_manager_claims_again_is_not_removed_once_more() -> None:
    ledger = REMOVED.adding(ONE, DEVICE, claim(traits=A))
    assert ledger.with_restored(view(there(root(), device(0, A)), 4), ROOT) is ledger


def test_removed_claims_are_remembered_with_their_generation() -> None:
    before = kept(HOST, (ONE, DEVICE, claim("VCPU", f"{A} {B}", provider=True)))
    after = kept(HOST, (ONE, DEVICE, claim("VCPU", B, provider=True)))
    noted = after.with_removed_since(before, view(there(root(), device(8, B)), 5))
    assert noted.removed == {DEVICE: Removed(5, claim(traits=A))}
    assert noted.with_removed_since(noted, view(there(root(), device(8, B)), 6)) == noted


def test_names_in_placement_or_of_another_manager_are_not_removed_claims() -> None:
    before = kept(HOST, (ONE, DEVICE, claim(traits=f"{A} {B}")))
    after = kept(HOST, (TWO, DEVICE, claim(traits=A)))
    assert not after.with_removed_since(before, view(there(root(), device(0, B)), 5)).removed


def test_removed_claims_are_forgotten_after_a_later_generation() -> None:
    """A generation that went back is a restored Placement's, and holds from then on."""
    older = REMOVED.with_removed_since(REMOVED, view(there(root(), device()), 4))
    assert older.removed == {DEVICE: Removed(4, claim(traits=A))}
    both = Ledger(known=True, removed={DEVICE: Removed(5, claim(traits=f"{A} {B}"))})
    back = view(there(root(), device(0, B)), 4)
    assert both.with_removed_since(both, back).removed == older.removed
    same = view(there(root(), device(0, B)), 5)
    assert both.with_removed_since(both, same).removed == both.removed
    gone = REMOVED.with_removed_since(REMOVED, view(there(root()), 0))
    assert not gone.removed


def test_claims_are_added_to_those_of_the_same_manager() -> None:
    ledger = kept((ONE, DEVICE, claim(traits=A))).adding(ONE, DEVICE, claim(traits=B))
    assert ledger.claims_of(DEVICE, ONE) == claim(traits=f"{A} {B}")


def test_unclaimed_classes_of_a_provider_in_the_ledger_are_foreign() -> None:
    card = Provider(DEVICE, "device", ROOT, {**device(8).inventory, **fpga(2)})
    assert kept((ONE, DEVICE, claim("VCPU"))).foreign_classes(card) == {"FPGA"}
    assert not kept().foreign_classes(card)


def test_no_more_providers_are_remembered_than_fit() -> None:
    uuids = [f"00000000-0000-4000-8000-{number:012}" for number in range(MOST_REMOVED + 3)]
    before = kept(*((ONE, uuid, claim(provider=True)) for uuid in uuids))
    noted = Ledger(known=True).with_removed_since(before, view(there(root()), 0))
    assert list(noted.removed) == uuids[3:]


def test_a_round_without_statements_changes_nothing() -> None:
    full = there(root(8, A), device(8, B))
    ledger = kept(HOST, (ONE, DEVICE, claim("VCPU", B, provider=True)))
    reconciled = reconcile(full, ledger, Answers(unanswered=frozenset({ONE}), order=(ONE,)), OWN)
    assert reconciled.desired is full and reconciled.ledger is ledger


def test_an_owner_has_its_providers_and_a_root_with_its_classes() -> None:
    def own(*rows: tuple[str, str, Claims]) -> frozenset[str]:
        return of_one(there(root(), device(8)), kept(*rows)).get_own_uuids()

    on_device = (ONE, DEVICE, claim("VGPU", provider=True))
    assert own(on_device, (ONE, ROOT, claim("VCPU"))) == {ROOT, DEVICE}
    assert own(on_device, (ONE, ROOT, claim(traits=A))) == {DEVICE}
    assert own((ONE, DEVICE, claim("VGPU")), (TWO, ROOT, claim("VCPU"))) == frozenset()


def test_the_agent_denies_the_status_and_knows_its_roots_by_owner_traits() -> None:
    assert identifying_traits(["CUSTOM_X", "OWNER_NOVA"]) == {"CUSTOM_X"}
    assert identifying_traits(["OWNER_NOVA"]) == {"OWNER_NOVA"}
    traits = AgentTraits(host=root(), capabilities=[], disabled=False, owners=[])
    _, status = traits.added_to(said_by(), there(root())).in_order
    assert status.absent == {ROOT: claim(traits=DISABLED)}
    assert not status.reported
