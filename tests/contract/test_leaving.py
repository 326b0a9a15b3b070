"""A device that is missing for a while: what others have put there stays."""

from typing import Any

import pytest

from agent.reporting.condition import Severity
from reportclient.provider_tree import own_uuid
from tests.agents import NODE, ROOT, Agent, Body, Small

CARD, RACK = own_uuid(ROOT, "card0"), "CUSTOM_RACK"
AGGREGATE = "aaaaaaaa-0000-4000-8000-000000000001"


def listed(*cards: str) -> Body:
    def body(tree: Any) -> None:
        tree.set_own_children(dict.fromkeys(cards, NODE))
        for card in cards:
            tree.update_inventory(card, {"FPGA": {"total": 1}})

    return body


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("explicit", [False, True])
def test_a_device_that_comes_back_has_what_others_had_set(any_placement, attached, explicit):
    """The trait is set when the agent has read last long ago: a DELETE takes no generation."""
    stranger = any_placement.stranger
    if attached:
        stranger.create_provider(NODE, ROOT)
    driver = Small(listed("card0", "card1"), [NODE])
    agent = Agent(any_placement, driver, attached=attached, verify_every=1e6).settle()
    stranger.add_trait(CARD, RACK), stranger.set_aggregates(CARD, [AGGREGATE])
    removal = lambda tree: tree.exists(CARD) and tree.remove(CARD)
    driver.body = removal if explicit else listed("card1")
    for _ in range(30):
        (report,) = agent.periods(60.0)
    (kept,) = report.texts(Severity.WARNING)
    assert report.ok and f"set trait {RACK} and aggregate {AGGREGATE}; to remove it" in kept
    assert stranger.inventory(CARD) == {} and agent.calls_of(lambda: agent.periods(60.0)) == []
    driver.body = listed("card0", "card1")
    agent.periods(60.0)
    assert stranger.inventory(CARD)["FPGA"]["total"] == 1
    assert stranger.provider(CARD)["name"] == "card0"
    assert stranger.traits(CARD) >= {RACK} and stranger.aggregates(CARD) >= {AGGREGATE}
