"""Histories: generated from a seed, run, and reduced to the events that cause a failure."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.world.centre_events import (
    BadMessage,
    BrokerAway,
    ClockSteps,
    HostSwitched,
    HypervisorLost,
    PlacementRestored,
    RegistryAway,
    RegistryRestored,
    Twin,
)
from tests.world.disk import DISK_FAULTS
from tests.world.events import (
    STRANGERS,
    BadDisk,
    DriverSilent,
    Event,
    ForeignWrite,
    Guest,
    HostChanged,
    HostOff,
    Killed,
    NodeGone,
    PlacementUnreachable,
    ProviderFileChanged,
    RequestFault,
)
from tests.world.hypervisor import AGGREGATES, CLASSES, PARTS, TRAITS, Part
from tests.world.invariants import Violation
from tests.world.link import FAULTS
from tests.world.setup import Setup, setup_of
from tests.world.world import CHAOS, LONGEST_FAULT, world

MOMENTS, EVENTS = 5, 16
"""The largest numbers of moments in a history, and of events, which happen around these moments."""


@dataclass(frozen=True)
class Failure:
    """A violated rule, and the events that lead to it."""

    seed: int
    numbers: tuple[int, ...]
    events: tuple[Event, ...]
    text: str

    @property
    def replay(self) -> str:
        numbers = ",".join(map(str, self.numbers))
        return f"python -m tests.world --seed {self.seed} --only {numbers or 'none'}"

    def __str__(self) -> str:
        story = sorted(self.events, key=lambda event: event.at)
        return "\n".join(
            [
                f"{setup_of(self.seed)}.",
                *map(str, story),
                f"Then: {self.text}",
                f"Replay: {self.replay}",
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
    return HostChanged(at, machine, steps, parts, dice.random() < 0.3, dice.random() < 0.8)


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
    "off": lambda dice, *where: HostOff(*where, _seconds(dice)),
    "silent": lambda dice, *where: DriverSilent(
        *where, round(dice.uniform(1, 120), 1), dice.choice(((0, 1), (0, 1), (0,), (1,)))
    ),
    "node": lambda dice, *where: NodeGone(*where, _seconds(dice), dice.random() < 0.5),
    "files": lambda dice, *where: ProviderFileChanged(
        *where, _where(dice), dice.randint(2, 5), dice.random() < 0.3
    ),
    "lossy": lambda dice, *where: RequestFault(
        *where, dice.choice(FAULTS), _seconds(dice), dice.random() < 0.7
    ),
    "cut": lambda dice, *where: PlacementUnreachable(*where, _seconds(dice)),
    "disk": lambda dice, *where: BadDisk(*where, dice.choice(sorted(DISK_FAULTS)), _seconds(dice)),
    "stranger": lambda dice, *where: ForeignWrite(
        *where, dice.choice(tuple(STRANGERS)), _where(dice), dice.randrange(4)
    ),
    "switched": lambda dice, *where: HostSwitched(*where, dice.random() < 0.6, dice.random() < 0.6),
    "lost": lambda dice, *where: HypervisorLost(*where, _seconds(dice)),
    "clock": lambda dice, *where: ClockSteps(*where, dice.choice((-3600.0, -30.0, 30.0, 3600.0))),
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
"""Each history has few kinds of events, so that they meet more often; the first kinds are likelier."""


def _more(setup: Setup) -> list[str]:
    """Return the kinds of events that need this configuration."""
    needed = {"node": setup.nodes > 1, "files": setup.files, "silent": setup.two_drivers}
    return [kind for kind, true in needed.items() if true]


# -- from events to a result


def violation(seed: int, events: Sequence[Event], *, log: bool = False) -> str | None:
    """Run a history and return the rule that it violates; ``None`` if there is none."""
    with world(seed, setup_of(seed), log=log) as simulation:
        try:
            simulation.run_events(events)
        except Violation as err:
            return str(err)
        except Exception as err:  # of an actor, or of the simulation
            return f"{type(err).__name__}: {err}, at {traceback.extract_tb(err.__traceback__)[-1]}"
    return None


def failure(seed: int, only: Sequence[int] | None = None, *, log: bool = False) -> Failure | None:
    """Run a history, or only some of its events, and return its failure."""
    drawn = events_of(seed)
    numbers = tuple(range(len(drawn))) if only is None else tuple(only)
    events = tuple(drawn[number] for number in numbers)
    text = violation(seed, events, log=log)
    return None if text is None else Failure(seed, numbers, events, text)


def reduced(smallest: Failure) -> Failure:
    """Remove events as long as the history still fails: ddmin, by Zeller and Hildebrandt."""
    pieces = 2
    while len(smallest.numbers) > 1:
        smaller = next(_smaller(smallest, pieces), None)
        if smaller is not None:
            smallest, pieces = smaller, max(2, pieces - 1)
        elif pieces >= len(smallest.numbers):
            break
        else:
            pieces = min(len(smallest.numbers), 2 * pieces)
    return failure(smallest.seed, ()) or smallest


def _smaller(smallest: Failure, pieces: int):  # type: ignore[no-untyped-def]
    numbers = smallest.numbers
    size = -(-len(numbers) // pieces)
    for start in range(0, len(numbers), size):
        smaller = failure(smallest.seed, numbers[:start] + numbers[start + size :])
        if smaller is not None:
            yield smaller
