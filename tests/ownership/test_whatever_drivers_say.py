"""Three drivers, a stranger, guests and refusals in any order, against a model in a page.

Drivers answer, fail, are refused, leave the configuration and come back.  In the end of
each round Placement has what each of them said last, the first of them where two say one
class, and all that nobody of them ever said; a second period finds nothing to do.
"""

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from drivers.api import DriverNotReady
from reportclient import errors
from tests.ownership.world import NODE, ROOT, Host
from tests.profiles import examples
from tests.stranger import FakePlacement

DRIVERS = ("a", "b", "c")
CLASSES = ("VCPU", "FPGA", "PGPU")
TRAITS = ("CUSTOM_X", "CUSTOM_Y")
RACKS = tuple(f"aaaaaaaa-0000-4000-8000-00000000000{n}" for n in range(2))
STRANGE, THEIRS = "CUSTOM_STRANGE", "bbbbbbbb-0000-4000-8000-000000000001"


@dataclass(frozen=True)
class Wish:
    """What one driver says in one round, and how it goes about it.

    ``mode``: it answers, ``fails`` halfway, is ``refused`` since it renames the root, or
    is ``gone`` from the configuration.  ``bullies`` are drivers whose devices it removes;
    with ``wipes`` it sets all traits and aggregates of the root instead of its own.
    """

    totals: Mapping[str, int] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    racks: frozenset[str] = frozenset()
    devices: Mapping[int, int] = field(default_factory=dict)
    mode: str = "answers"
    bullies: frozenset[str] = frozenset()
    wipes: bool = False

    def say(self, name: str, tree: Any) -> None:
        tree.update_inventory(NODE, {key: {"total": n} for key, n in self.totals.items()})
        if self.wipes:
            tree.update_traits(NODE, self.traits)
            tree.update_aggregates(NODE, self.racks)
        else:
            tree.remove_traits(NODE, *TRAITS)
            tree.remove_aggregates(NODE, *RACKS)
        tree.add_traits(NODE, *self.traits)
        tree.add_aggregates(NODE, *self.racks)
        for one in {name, *self.bullies}:
            for number in range(2):
                device = f"{one}{number}"
                if (one != name or number not in self.devices) and tree.exists(device):
                    tree.remove(device)
        for number, total in self.devices.items():
            if not tree.exists(f"{name}{number}"):
                tree.new_child(f"{name}{number}", NODE)
            tree.update_inventory(f"{name}{number}", {"CUSTOM_SLOT": {"total": total}})
        if self.mode == "fails":
            raise DriverNotReady("not now")
        if self.mode == "refused":
            tree.rename(NODE, "mine")


SILENT = Wish()
wishes = st.builds(
    Wish,
    totals=st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 3)),
    traits=st.frozensets(st.sampled_from(TRAITS)),
    racks=st.frozensets(st.sampled_from(RACKS)),
    devices=st.dictionaries(st.integers(0, 1), st.integers(1, 3)),
    mode=st.sampled_from(["answers", "answers", "answers", "fails", "refused", "gone"]),
    bullies=st.frozensets(st.sampled_from(DRIVERS)),
    wipes=st.booleans(),
)
# Those of traits and aggregates are among the expected failures.
REFUSALS = (
    ("PUT", "/inventories$", lambda: errors.Forbidden("made up")),
    ("POST", "/resource_providers$", lambda: errors.Forbidden("made up")),
    ("DELETE", "", lambda: errors.InUse("made up")),
    ("DELETE", "", lambda: errors.Forbidden("made up")),
)


@dataclass(frozen=True)
class Round:
    """``guests`` are devices that somebody begins to use before it; others leave then."""

    said: Mapping[str, Wish]
    guests: frozenset[str]
    refusals: tuple[int, ...]


rounds = st.builds(
    Round,
    st.fixed_dictionaries(dict.fromkeys(DRIVERS, wishes)),
    st.frozensets(st.sampled_from([f"{name}{n}" for name in DRIVERS for n in range(2)])),
    st.lists(st.integers(0, len(REFUSALS) - 1), max_size=2).map(tuple),
)


class World:
    """The host, and the model of what it should come to."""

    def __init__(self, state: Path, *, strangers: bool) -> None:
        self.placement, self.strangers = FakePlacement(), strangers
        self.had = dict.fromkeys(DRIVERS, SILENT)
        self.claims: dict[str, set[str]] = {}
        """Whose a class is; an unanswered driver's claim stays beside that of who took it over."""
        self.totals: dict[str, int] = {}
        self.slots: dict[str, int] = {}
        """The total of each device that has to be there, also while it is only drained."""
        self.guests: dict[str, str] = {}
        self.host = Host(self.placement, {"a": lambda tree: None}, state)
        self.host.settled()
        if strangers:
            self.host.stranger.add_trait(ROOT, STRANGE)
            self.host.stranger.set_aggregates(ROOT, [THEIRS])

    def play(self, one: Round) -> None:
        said = self._within_what_holds_today(one.said)
        self._guests_come_and_go(one.guests)
        self._configure(said)
        for number in one.refusals:
            method, path, error = REFUSALS[number]
            self.placement.fail_next(method, path, error())
        self.host.period()
        self.placement.failures.clear()
        self.host.period()
        last = self.host.period()
        self._expect(said)
        assert not last.done, "the second that has nothing in its way finds nothing to do"

    def _within_what_holds_today(self, drawn: Mapping[str, Wish]) -> dict[str, Wish]:
        """Two drivers that leave at once: the second one fails instead."""
        said = {name: drawn[name] for name in DRIVERS}
        for name in DRIVERS:  # nothing is remembered of one that was alone
            if sum(wish.mode == "gone" for wish in said.values()) > 1 and said[name].mode == "gone":
                said[name] = replace(said[name], mode="fails")
        gone = {name for name, wish in said.items() if wish.mode == "gone"}
        return {
            name: replace(w, bullies=w.bullies - gone, wipes=w.wipes and not self.strangers)
            for name, w in said.items()
        }

    def _configure(self, said: Mapping[str, Wish]) -> None:
        bodies = {n: partial(wish.say, n) for n, wish in said.items() if wish.mode != "gone"}
        self.host.restart(**bodies)

    def _guests_come_and_go(self, wanted: frozenset[str]) -> None:
        for device in [one for one in self.guests if one not in wanted]:
            self.host.stranger.delete_allocation(self.guests.pop(device))
        free = {d for d, w in self._wished().items() if w and d not in self.guests}
        for device in sorted(wanted & free):
            uses = {self.host.uuid(device): {"CUSTOM_SLOT": 1}}
            self.guests[device] = self.host.stranger.put_allocation(uses)

    def _wished(self) -> dict[str, int]:
        """Devices that somebody asserts, and how many slots each has."""
        return {
            f"{name}{number}": total
            for name, wish in self.had.items()
            for number, total in wish.devices.items()
        }

    # -- the model

    def _expect(self, said: Mapping[str, Wish]) -> None:
        ok = {name for name, wish in said.items() if wish.mode == "answers"}
        gone = {name for name, wish in said.items() if wish.mode == "gone"}
        spoke = ok | gone if ok | gone == set(DRIVERS) else ok
        self._expect_classes(said, ok, gone, everybody=spoke == set(DRIVERS))
        for name in spoke:
            self.had[name] = said[name] if name in ok else SILENT
        self._expect_devices(spoke)
        strange = {STRANGE, THEIRS} if self.strangers else set()
        there = self.host.custom() | self.host.aggregates()
        asserted = {name: wish.traits | wish.racks for name, wish in self.had.items()}
        # What one that left set may go as soon as somebody takes it away, or once all spoke.
        assert there <= strange.union(*asserted.values())
        assert there >= strange.union(*(asserted[name] for name in DRIVERS if name not in gone))

    def _expect_classes(
        self, said: Mapping[str, Wish], ok: set[str], gone: set[str], *, everybody: bool
    ) -> None:
        totals, holders = {}, {}
        for key in CLASSES:
            unanswered = self.claims.get(key, set()) - ok - (gone if everybody else set())
            holders[key] = unanswered
            for name in DRIVERS:
                if name in ok and key in said[name].totals:
                    totals[key], holders[key] = said[name].totals[key], unanswered | {name}
                elif name in unanswered - gone:
                    totals[key] = self.totals[key]
                else:
                    continue
                break
            if key not in totals and unanswered:
                totals[key] = self.totals[key]
        assert self.host.totals() == totals
        self.totals, self.claims = totals, holders

    def _expect_devices(self, spoke: set[str]) -> None:
        wished = self._wished()
        left = {d: n for d, n in self.slots.items() if d in self.guests or d[0] not in spoke}
        self.slots = {**left, **wished}
        assert self.host.names() == {NODE, *self.slots}
        for device, total in self.slots.items():
            reserved = self.host.reserved(device)["CUSTOM_SLOT"]
            if reserved and device in wished and spoke != set(DRIVERS):
                continue  # what was drained and is wanted again waits until all speak: see there
            assert self.host.totals(device) == {"CUSTOM_SLOT": total}, device
            assert reserved == (0 if device in wished else total), device


@pytest.fixture(autouse=True)
def quietly():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("strangers", [True, False], ids=["strangers", "drivers that set all"])
@settings(
    deadline=None,
    max_examples=examples(40),
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(script=st.lists(rounds, min_size=1, max_size=4))
def test_each_has_its_part_whatever_the_others_do(strangers: bool, script: list[Round]) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as state:
        world = World(Path(state), strangers=strangers)
        for one in script:
            world.play(one)
