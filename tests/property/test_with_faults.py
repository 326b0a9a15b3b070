"""Wishes, strangers, failures and restarts in any order: in the end Placement equals the wish.

The invariants are in ``rough_world``: the view is true where it is certain, only our
own is written, no storm; and once all is quiet the tree is as wished, a second run is
empty and costs one or two GETs, and the stranger's things are all there.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from reportclient import errors
from reportclient.testing.fake_placement import FakePlacement
from tests.profiles import NAME as PROFILE
from tests.profiles import examples
from tests.property.rough_world import (
    AGGREGATES,
    CLASSES,
    NAMES,
    TRAITS,
    VERIFY,
    Wished,
    World,
)

CALLS = (
    ("GET", r"\?in_tree="),
    ("GET", r"/inventories$"),
    ("GET", r"/aggregates$"),
    ("GET", r"\?member_of="),
    ("GET", r"/allocations$"),
    ("GET", r"\?name="),
    ("POST", r"/resource_providers"),
    ("POST", r"/reshaper"),
    ("DELETE", r""),
    ("PUT", r"^/traits/"),
    ("PUT", r"^/resource_classes/"),
    ("PUT", r"/resource_providers/[^/]*$"),
    ("PUT", r"/[^/]*/traits$"),
    ("PUT", r"/[^/]*/aggregates$"),
    ("PUT", r"/inventories$"),
)
FAULTS = (
    lambda: errors.Conflict("made up"),
    lambda: errors.Unreachable("made up"),
    lambda: errors.ServerFault("made up"),
    lambda: errors.NotFound("made up"),
    lambda: errors.Forbidden("made up"),
    lambda: errors.InUse("made up"),
    lambda: errors.NameTaken("made up"),
    lambda: errors.AlreadyThere("made up"),
    lambda: errors.Rejected("made up"),
    lambda: errors.AuthenticationFailed("made up"),
    lambda: errors.UnknownNames("made up", names=frozenset({"CUSTOM_ONE", "HW_CPU_X86_AVX"})),
    lambda: errors.UnknownNames("made up", names=frozenset({"CUSTOM_THING"})),
)
AFTER = (1, 2)
"""Faults that may also happen to a request that was carried out."""
RACES = (
    ("GET", r"/inventories$"),
    ("GET", r"/aggregates$"),
    ("POST", r"^/resource_providers$"),
    ("POST", r"/reshaper"),
    ("DELETE", r""),
    ("PUT", r"/resource_providers/[^/]*$"),
    ("PUT", r"/[^/]*/traits$"),
    ("PUT", r"/inventories$"),
)
"""Before which somebody else gets in."""
ACTS = (
    "add_trait",
    "take_our_trait",
    "add_aggregate",
    "set_inventory",
    "delete_ours",
    "allocate",
    "squat",
    "rename_ours",
    "move_ours",
    "create_child",
    "delete_child",
    "old_tool",
    "leave",
    "release",
)

numbers = st.integers
providers = st.tuples(numbers(0, 4), numbers(1, 3), numbers(0, 1), numbers(0, 7), numbers(0, 3))
wishes = st.tuples(
    st.just("wish"), st.lists(providers, min_size=1, max_size=len(NAMES)), st.booleans()
)
acts = st.tuples(st.just("act"), st.sampled_from(ACTS), st.sampled_from(NAMES), numbers(0, 5))
meddlings = st.tuples(
    st.sampled_from(("meddle", "race")),
    st.sampled_from(RACES),
    st.sampled_from(ACTS[:9]),
    st.sampled_from(NAMES),
    numbers(0, 5),
)
fails = st.tuples(
    st.just("fail"),
    st.sampled_from(CALLS),
    numbers(0, len(FAULTS) - 1),
    st.sampled_from(("before", "after", "lasting")),
)
troubles = st.tuples(
    st.just("trouble"),
    st.sampled_from(CALLS),
    numbers(0, len(FAULTS) - 1),
    st.lists(providers, min_size=1, max_size=len(NAMES)),
)
"""Placement has the wish but for the class of each, and then a call fails for good."""
periods = st.tuples(st.just("period"), st.sampled_from((60.0, 2 * VERIFY)))
restarts = st.tuples(st.just("restart"), st.sampled_from(("saved", "older", "ledger lost", "lost")))
steps = st.lists(
    st.one_of(wishes, acts, meddlings, meddlings, fails, troubles, periods, periods, restarts),
    max_size=16,
)


def wish_of(drawn):
    """Each provider below an earlier one; 0 as a parent leaves it out, but for the root."""
    wish = {}
    for index, (parent, total, kind, traits, aggregates) in enumerate(drawn):
        name, earlier = NAMES[index], list(wish)
        if index and not parent:
            continue
        wish[name] = Wished(
            None if index == 0 else earlier[(parent - 1) % len(earlier)],
            total,
            CLASSES[kind],
            frozenset(trait for bit, trait in enumerate(TRAITS) if traits >> bit & 1),
            frozenset(agg for bit, agg in enumerate(AGGREGATES) if aggregates >> bit & 1),
        )
    return wish


def play(world: World, drawn) -> None:
    world.wish(wish_of([(0, 1, 0, 0, 0)]))
    for step in drawn:
        match step:
            case "wish", providers, moves:
                world.wish(wish_of(providers), moves=moves)
            case "act", kind, name, number:
                world.act(kind, name, number)
            case "meddle", (method, path), kind, name, number:
                world.meddle(method, path, kind, name, number)
            case "race", (method, path), kind, name, number:
                world.act(
                    "set_inventory", name, number + 1
                )  # so that it has to be read and written
                world.meddle(method, path, kind, name, number)
                world.period(2 * VERIFY)
            case "fail", (method, path), fault, when:
                after = when == "after" and fault in AFTER
                world.fail(method, path, FAULTS[fault](), after, when == "lasting")
            case "trouble", (method, path), fault, providers:
                world.period(2 * VERIFY)
                world.wish(wish_of(providers), moves=True)
                world.fail(method, path, FAULTS[fault](), False, lasting=True)
                for _ in range(3):
                    world.period(60)
            case "period", seconds:
                world.period(seconds)
            case "restart", how:
                world.restart(how)
    world.settle()


@pytest.fixture(autouse=True)
def quietly():
    """What is logged about made-up faults is not kept."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


LENIENT = settings(
    deadline=None,
    derandomize=PROFILE == "ci",
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(LENIENT, max_examples=examples(200))
@given(steps, st.sampled_from(((1, 0), (1, 3))))
def test_whatever_happens_the_wish_comes_true(drawn, how):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as state:
        world = World(FakePlacement().answer, Path(state), *how)
        play(world, drawn)


@pytest.mark.timeout(600)
@settings(LENIENT, max_examples=examples(10), phases=[Phase.generate])
@given(steps)
def test_and_so_it_does_in_a_real_placement(placement, drawn):
    placement.empty()
    with tempfile.TemporaryDirectory() as state:
        play(World(placement.request, Path(state)), drawn)
