"""Histories: made from a seed, lived, shrunk to what matters, and told."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.world.centre_events import (
    BadMessage,
    BrokerAway,
    ClockSteps,
    HypervisorLost,
    PlacementRestored,
    RegistryAway,
    RegistryRestored,
    Switched,
    Twin,
)
from tests.world.disk import DISK_FAULTS
from tests.world.events import (
    BadDisk,
    Changed,
    Cut,
    Event,
    FilesSay,
    Guest,
    Killed,
    Lossy,
    NodeGone,
    Off,
    Silent,
    Stranger,
)
from tests.world.hypervisor import AGGREGATES, CLASSES, PARTS, TRAITS, Part
from tests.world.invariants import Violation
from tests.world.link import FAULTS
from tests.world.setup import Setup, setup_of
from tests.world.world import CHAOS, LONGEST_FAULT, world

MOMENTS, EVENTS = 5, 16
"""So many moments around which so many events happen, at most."""
STRANGERS = (
    "add_trait",
    "take_trait",
    "add_aggregate",
    "old_tool",
    "add_class",
    "total",
    "child",
    "deletes",
    "renames",
)


@dataclass(frozen=True)
class Failure:
    """What was found, and the events that it takes."""

    seed: int
    kept: tuple[int, ...]
    events: tuple[Event, ...]
    text: str

    @property
    def replay(self) -> str:
        kept = ",".join(map(str, self.kept))
        return f"python -m tests.world --seed {self.seed} --only {kept or 'none'}"

    def __str__(self) -> str:
        story = sorted(self.events, key=lambda one: one.at)
        return "\n".join(
            [
                f"{setup_of(self.seed)}.",
                *map(str, story),
                f"Then: {self.text}",
                f"Again: {self.replay}",
            ]
        )


# -- from a seed to events


def events_of(seed: int) -> list[Event]:
    dice = random.Random(f"{seed} events")
    setup = setup_of(seed)
    theme = (*THEMES[seed % len(THEMES)], *_more(setup))
    moments = [dice.uniform(0, CHAOS - 60) for _ in range(dice.randint(1, MOMENTS))]
    return [_event(dice, moments, setup.places, theme) for _ in range(dice.randint(2, EVENTS))]


def _event(
    dice: random.Random, moments: Sequence[float], places: int, theme: Sequence[str]
) -> Event:
    later = dice.choice((0.0, dice.uniform(0, 2), dice.uniform(0, 50)))
    at, machine = round(dice.choice(moments) + later, 2), dice.randrange(places)
    steps = dice.choice((0, dice.randint(1, 8), dice.randint(1, 60)))
    kind = dice.choices(theme, range(len(theme) + 2, 2, -1))[0]
    return MAKERS[kind](dice, at, machine, steps)


def _changed(dice: random.Random, at: float, machine: int, steps: int) -> Event:
    parts = {"": _part(dice, ())}
    for name in dice.sample(PARTS, dice.randint(0, len(PARTS))):
        parts[name] = _part(dice, tuple(parts))
    return Changed(at, machine, steps, parts, dice.random() < 0.3, dice.random() < 0.8)


def _part(dice: random.Random, parents: Sequence[str]) -> Part:
    return Part(
        dice.randint(4, 9),
        dice.choice(CLASSES),
        dice.choice(parents) if parents else "",
        frozenset(name for name in TRAITS if dice.random() < 0.4),
        frozenset(each for each in AGGREGATES if dice.random() < 0.3),
    )


def _seconds(dice: random.Random) -> float:
    return round(dice.choice((dice.uniform(0.1, 5), dice.uniform(5, LONGEST_FAULT))), 1)


def _where(dice: random.Random) -> str:
    return dice.choice(("", *PARTS))


MESSAGES = ("lost", "unanswered", "late", "doubled")
Maker = Callable[[random.Random, float, int, int], Event]
MAKERS: dict[str, Maker] = {
    "changed": _changed,
    "killed": lambda _, *where: Killed(*where),
    "off": lambda dice, *where: Off(*where, _seconds(dice)),
    "silent": lambda dice, *where: Silent(
        *where, round(dice.uniform(1, 120), 1), dice.choice(((0, 1), (0, 1), (0,), (1,)))
    ),
    "node": lambda dice, *where: NodeGone(*where, _seconds(dice), dice.random() < 0.5),
    "files": lambda dice, *where: FilesSay(
        *where, _where(dice), dice.randint(2, 5), dice.random() < 0.3
    ),
    "lossy": lambda dice, *where: Lossy(
        *where, dice.choice(FAULTS), _seconds(dice), dice.random() < 0.7
    ),
    "cut": lambda dice, *where: Cut(*where, _seconds(dice)),
    "disk": lambda dice, *where: BadDisk(*where, dice.choice(sorted(DISK_FAULTS)), _seconds(dice)),
    "stranger": lambda dice, *where: Stranger(
        *where, dice.choice(STRANGERS), _where(dice), dice.randrange(4)
    ),
    "switched": lambda dice, *where: Switched(*where, dice.random() < 0.6, dice.random() < 0.6),
    "lost": lambda dice, *where: HypervisorLost(*where, _seconds(dice)),
    "clock": lambda dice, *where: ClockSteps(
        *where, dice.choice((-3600.0, -30.0, 30.0, 3600.0)), dice.random() < 0.5
    ),
    "broker": lambda dice, *where: BrokerAway(*where, _seconds(dice), dice.random() < 0.7),
    "message": lambda dice, *where: BadMessage(
        *where, dice.choice(MESSAGES), _seconds(dice), dice.random() < 0.6
    ),
    "registry": lambda dice, *where: RegistryAway(*where, _seconds(dice), dice.random() < 0.5),
    "records": lambda dice, *where: RegistryRestored(*where, _seconds(dice)),
    "placement": lambda dice, *where: PlacementRestored(*where, _seconds(dice)),
    "twin": lambda dice, *where: Twin(*where, 3 * _seconds(dice), dice.random() < 0.5),
    "guest": lambda dice, *where: Guest(*where, _where(dice), dice.random() < 0.7),
}
THEMES = (
    ("changed", "silent", "killed", "lossy", "stranger", "guest", "cut", "off"),
    ("changed", "killed", "lossy", "disk", "off"),
    ("switched", "message", "killed", "off", "registry", "broker", "clock", "cut"),
    ("switched", "lost", "records", "registry", "killed", "message"),
    ("changed", "stranger", "guest", "placement", "killed", "lossy"),
    ("changed", "twin", "killed", "registry", "switched"),
    tuple(kind for kind in MAKERS if kind not in ("node", "files")),
)
"""A history is about few things, which meet more often so; what comes first is drawn more."""


def _more(setup: Setup) -> list[str]:
    """What happens only to those who are configured so."""
    found = {"node": setup.nodes > 1, "files": setup.files, "silent": setup.two_drivers}
    return [kind for kind, true in found.items() if true]


# -- from events to what became of them


def violation(seed: int, events: Sequence[Event], *, log: bool = False) -> str | None:
    """What did not hold; ``None``: all is well."""
    with world(seed, setup_of(seed), log=log) as made:
        try:
            made.live(events)
        except Violation as err:
            return str(err)
        except Exception as err:  # of an actor's, or the world's own
            return f"{type(err).__name__}: {err}, at {traceback.extract_tb(err.__traceback__)[-1]}"
    return None


def failure(seed: int, only: Sequence[int] | None = None, *, log: bool = False) -> Failure | None:
    """Of the history with this seed, or of some of its events."""
    drawn = events_of(seed)
    kept = tuple(range(len(drawn))) if only is None else tuple(only)
    events = tuple(drawn[number] for number in kept)
    text = violation(seed, events, log=log)
    return None if text is None else Failure(seed, kept, events, text)


def shortest(found: Failure) -> Failure:
    """With as few events as still lead to a violation; ddmin, of Zeller and Hildebrandt."""
    pieces = 2
    while len(found.kept) > 1:
        smaller = next(_smaller(found, pieces), None)
        if smaller is not None:
            found, pieces = smaller, max(2, pieces - 1)
        elif pieces >= len(found.kept):
            break
        else:
            pieces = min(len(found.kept), 2 * pieces)
    return failure(found.seed, ()) or found


def _smaller(found: Failure, pieces: int):  # type: ignore[no-untyped-def]
    kept = found.kept
    size = -(-len(kept) // pieces)
    for start in range(0, len(kept), size):
        smaller = failure(found.seed, kept[:start] + kept[start + size :])
        if smaller is not None:
            yield smaller
