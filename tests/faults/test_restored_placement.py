"""A Placement that was restored from a backup or rebuilt, under the feet of a running agent."""

import time

import pytest

from tests.cost.trees import NODE, ROOT, VERIFY
from tests.faults.scenario import Scene, Wished, after, before, seen_in
from tests.servers.backup import back_up, restore

AUDIT = 36000.0


@pytest.fixture
def backup(fresh: Scene, tmp_path):
    """The first wish is in Placement and in the backup."""
    fresh.driver.say(before())
    agent = fresh.agent(audit_every=AUDIT)
    assert agent.period().ok
    assert agent.period(2 * VERIFY).ok
    back_up(fresh.placement, tmp_path / "backup.sqlite")
    return agent, tmp_path / "backup.sqlite"


@pytest.mark.parametrize("restarted", [False, True])
def test_an_older_state_is_noticed_read_again_and_brought_up_to_date(
    fresh, backup, restarted, caplog
):
    agent, file = backup
    fresh.disturb()
    back_up(fresh.placement, file)
    fresh.driver.say(after())
    assert agent.period(2 * VERIFY).ok
    restore(fresh.placement, file)

    agent = fresh.agent() if restarted else agent
    report = agent.period(2 * VERIFY)
    assert report.ok, report.texts()
    assert [r for r in caplog.messages if "has an older state" in r]
    fresh.expect_the_wish_and_all_of_the_strangers()
    assert not agent.period(2 * VERIFY).done


def coinciding(fresh, agent, file, *, verified=False):
    """One inventory changes; after the restore somebody writes the old one once more.

    Its generation is then what the agent knows, with another content under it.
    """
    fresh.driver.say({**before(), "changed": Wished(6, traits={"CUSTOM_FIRST"})})
    assert agent.period(60).ok
    if verified:
        assert not agent.period(2 * VERIFY).done
    generation = agent.tracker.view.generations
    time.sleep(1.1)  # times of Placement's writes are whole seconds
    restore(fresh.placement, file)
    (uuid,) = (u for u, p in agent.tracker.view.snapshot.providers.items() if p.name == "changed")
    stranger = fresh.placement.stranger
    stranger.set_inventory(uuid, stranger.inventory(uuid))
    assert stranger.provider(uuid)["generation"] == generation[uuid]
    assert stranger.inventory(uuid)["CUSTOM_LEAF"]["total"] == 4


@pytest.mark.parametrize("verified", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_equal_generations_by_chance_are_found_by_their_time_or_the_audit(
    fresh, backup, restarted, verified
):
    """By the time of this agent's last write, if a listing has shown it."""
    agent, file = backup
    coinciding(fresh, agent, file, verified=verified)
    agent = fresh.agent(audit_every=AUDIT) if restarted else agent
    report = agent.period(2 * VERIFY)
    assert report.ok and bool(report.done) is verified
    assert seen_in(fresh.placement)["changed"][1] == {"CUSTOM_LEAF": 6 if verified else 4}
    assert agent.period(2 * AUDIT).ok
    assert seen_in(fresh.placement)["changed"][1] == {"CUSTOM_LEAF": 6}
    assert not agent.period(2 * VERIFY).done


def test_what_moves_no_generation_moves_no_time(fresh, backup):
    """A guest that ends, traits that are the same, aggregates of an old tool: 1 GET as ever."""
    agent, _ = backup
    stranger, (uuid, *_) = fresh.placement.stranger, agent.tracker.view.generations
    guest = stranger.put_allocation({uuid: {"VCPU": 1}})
    agent.period(2 * VERIFY)
    calls = agent.period(2 * VERIFY).calls
    time.sleep(1.1)
    stranger.delete_allocation(guest)
    stranger.set_traits(uuid, stranger.traits(uuid))
    stranger.set_aggregates(uuid, sorted(stranger.aggregates(uuid)), old_microversion=True)
    assert agent.period(2 * VERIFY).calls == calls


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("lost", ["all", "one"])
def test_guests_without_allocations_are_named_until_they_have_them(
    fresh, tmp_path, lost, restarted
):
    stranger, file, guests = fresh.placement.stranger, tmp_path / "backup.sqlite", []
    fresh.driver.guests = lambda _: guests
    fresh.driver.say(before())
    agent = fresh.agent()
    assert agent.period().ok
    guests.append(stranger.put_allocation({ROOT: {"VCPU": 1}}))
    back_up(fresh.placement, file)
    guests.append(stranger.put_allocation({ROOT: {"VCPU": 1}}))
    assert agent.period(2 * VERIFY).ok, "no restore, no question"
    quiet = agent.period(2 * VERIFY).calls
    if lost == "all":
        fresh.placement.empty()
    else:
        restore(fresh.placement, file)
    missing = guests if lost == "all" else guests[1:]
    for number in range(3):
        report = agent.period(2 * VERIFY if number != 1 else 1)
        agent = fresh.agent() if restarted else agent
        text = "".join(each.sentence for each in report.conditions)
        assert [uuid for uuid in guests if uuid in text] == missing
        assert "heal_allocations" in text and not report.ok
    for uuid in missing:
        stranger.put_allocation({ROOT: {"VCPU": 1}}, uuid)
    assert agent.period(2 * VERIFY).ok
    assert agent.period(2 * VERIFY).calls == quiet


def test_an_audit_that_could_not_be_done_is_not_put_off_to_the_next_one(fresh, backup):
    agent, file = backup
    coinciding(fresh, agent, file)
    with_fault = fresh.proxy
    with_fault.refuse()
    assert not agent.period(2 * AUDIT).ok
    with_fault.heal()
    assert agent.period(60).ok
    assert seen_in(fresh.placement)["changed"][1] == {"CUSTOM_LEAF": 6}


def test_the_audit_finds_aggregates_that_an_old_tool_took_away(fresh, backup):
    agent, _ = backup
    fresh.placement.stranger.set_aggregates(ROOT, [], old_microversion=True)
    assert not agent.period(2 * VERIFY).done
    assert agent.period(2 * AUDIT).done
    assert seen_in(fresh.placement)[NODE][3] == before()[NODE].aggregates
