"""Each way in which a call can fail, at each kind of call of a busy period.

Whatever happens, the period ends with a report, costs a bounded number of calls, and
once the fault is gone Placement equals the driver's wish with nothing of a stranger's
lost; so it does for an agent that starts again from what was saved in between.
"""

import os
import shutil

import pytest

from tests import tiers
from tests.cost.trees import ROOT, VERIFY
from tests.faults.scenario import TIMEOUT, Scene
from tests.servers import fault_proxy as proxies
from tests.servers.fault_proxy import REQUEST_ID, html, in_placements_words

pytestmark = pytest.mark.faults(always=True)
LONGER = 4 * TIMEOUT
CALLS = {
    "GET in_tree": ("GET", r"\?in_tree="),
    "GET sharing": ("GET", r"\?member_of="),
    "GET inventories": ("GET", rf"/{ROOT}/inventories$"),
    "GET traits": ("GET", rf"/{ROOT}/traits$"),
    "GET aggregates": ("GET", rf"/{ROOT}/aggregates$"),
    "PUT trait name": ("PUT", r"^/traits/CUSTOM_SECOND$"),
    "PUT class name": ("PUT", r"^/resource_classes/CUSTOM_NEW_LEAF$"),
    "POST provider": ("POST", r"^/resource_providers$"),
    "DELETE provider": ("DELETE", r"^/resource_providers/"),
    "PUT traits": ("PUT", rf"/{ROOT}/traits$"),
    "PUT aggregates": ("PUT", r"/resource_providers/.*/aggregates$"),
    "PUT inventories": ("PUT", rf"/{ROOT}/inventories$"),
}

SILENT = {
    "reset before": proxies.reset_before,
    "lost reply": proxies.lost_reply,
    "reset mid-reply": proxies.reset_mid_reply,
    "gone away": proxies.gone_away,
    "time-out": proxies.held(LONGER),
    "done, then time-out": proxies.held(LONGER, done=True),
    "truncated JSON": proxies.done_and_answered(lambda body: body[: len(body) // 2] or b"{"),
    "HTML page for an answer": proxies.answered(html(200)),
    "done, but an HTML page": proxies.done_and_answered(lambda body: b"<html></html>"),
    "empty body for an answer": proxies.answered(proxies.Reply(200)),
    "done, but an empty body": proxies.done_and_answered(lambda body: b""),
    "empty object for an answer": proxies.answered(proxies.Reply(200, b"{}")),
    "a gateway's JSON": proxies.answered(proxies.Reply(404, b'{"message": "no route"}')),
    "an answer of something else": proxies.answered(proxies.Reply(200, b'{"status": "ok"}')),
    "401": proxies.answered(proxies.unauthorized()),
    "429": proxies.answered(in_placements_words(429, **{"Retry-After": "7"})),
    "503": proxies.answered(in_placements_words(503, **{"Retry-After": "7"})),
    "503 page": proxies.answered(html(503, **{"Retry-After": "7"})),
    "502 page": proxies.answered(html(502)),
}
"""No word of Placement's that could be relied on: nothing is known until it is read."""

SPOKEN = {
    "403": proxies.answered(in_placements_words(403)),
    "404": proxies.answered(in_placements_words(404)),
    "500": proxies.answered(in_placements_words(500)),
    **{
        f"409 {code}": proxies.answered(in_placements_words(409, f"placement.{code}"))
        for code in (
            "concurrent_update",
            "inventory.inuse",
            "resource_provider.inuse",
            "duplicate_name",
            "resource_provider.cannot_delete_parent",
            "undefined_code",
        )
    },
}
"""Placement's own errors, for no reason."""

ANY = {**SILENT, **SPOKEN}


def pairs(faults, every: int):
    """Each fault at some calls and each call with some faults; with ``--faults`` them all."""
    every = 1 if tiers.FAULTS else every
    found = [
        pytest.param(call, fault, id=f"{fault} at {call}")
        for row, fault in enumerate(faults)
        for column, call in enumerate(CALLS)
        if (row + column) % every == 0
    ]
    return pytest.mark.parametrize(("call", "fault"), found)


MOST_CALLS = 5 * 30
"""Five tries of a period that needs some 20 calls when all goes well."""


@pairs([*SILENT, *SPOKEN], 12)
def test_a_fault_costs_at_most_a_period_and_an_error_of_placement_two(
    scene: Scene, call, fault, tmp_path
):
    agent = scene.agent()
    harm = scene.proxy.harm(*CALLS[call], ANY[fault])

    report = agent.period(2 * VERIFY)
    assert harm.times == 0, "the fault was not met"
    assert report.calls <= MOST_CALLS
    if not report.ok:
        assert report.error is not None if fault in SILENT else REQUEST_ID in str(report.texts())
    saved = shutil.copytree(scene.state, tmp_path / "saved", copy_function=os.link)

    scene.proxy.heal()
    last = agent.period()
    if fault in SPOKEN:  # over at the next verification
        last = agent.period(2 * VERIFY)
    assert last.ok, last.texts()
    scene.expect_the_wish_and_all_of_the_strangers()
    expect_quiet(agent)
    expect_quiet(scene.agent(saved))


@pairs([*(fault for fault in SILENT if "time-out" not in fault), *SPOKEN], 14)
def test_a_fault_that_lasts_is_no_storm(scene: Scene, call, fault):
    agent = scene.agent()
    scene.proxy.harm(*CALLS[call], ANY[fault], times=10**6)

    for _ in range(3):
        assert agent.period(2 * VERIFY).calls <= MOST_CALLS
    assert len(scene.proxy.seen) <= 3 * MOST_CALLS

    scene.proxy.heal()
    agent.period()
    last = agent.period(2 * VERIFY)
    assert last.ok, last.texts()
    scene.expect_the_wish_and_all_of_the_strangers()
    expect_quiet(agent)


def expect_quiet(agent) -> None:
    """Nothing is left to do, neither by what the agent knows nor by what Placement has."""
    report = agent.period(2 * VERIFY)
    assert report.ok, report.texts()
    assert not report.done
