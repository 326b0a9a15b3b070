"""Histories of a few minutes each: whatever happens, what has to hold does.

``docs/world.rst`` says how to run more of them, and one of them again.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.nodes.departures import Departures
from agent.ownership.policy import Policy
from agent.ownership.provider_settlement import ProviderSettlement
from agent.ownership.statement import Statement, Statements
from agent.period import decide as decide_module
from agent.provider_config.files import ProviderFiles
from agent.state.saved_root import SavedRoot
from agent.switching import machine
from reportclient import apply as apply_module
from reportclient import root as root_module
from reportclient.plan import SetAggregates, SetTraits
from tests.world.setup import Setup, setup_of
from tests.world.story import Failure, events_of, failure, shortest
from tests.world.world import many, world

pytestmark = pytest.mark.slow

Plant = Callable[[pytest.MonkeyPatch], None]
HERE = Path(__file__).resolve().parents[2]
HISTORIES = 400
"""Twenty seconds of one processor."""


@pytest.mark.timeout(1200)
def test_whatever_happens_what_has_to_hold_does() -> None:
    command = [sys.executable, "-m", "tests.world", "--seeds", f"1..{HISTORIES}"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _trace(seed: int) -> str:
    with world(seed, setup_of(seed)) as made:
        made.live(events_of(seed))
        return made.placement.trace.hexdigest()


def test_a_seed_is_a_history() -> None:
    code = "from tests.world.test_world import _trace; print(_trace(3))"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=HERE,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == _trace(3) == _trace(3) != _trace(5)


# -- the world sees: agents with a defect each


def _forgets_a_trait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes a write of these traits for done, and does not send it."""
    send = apply_module.send

    def some(operation, generations, api):
        if isinstance(operation, SetTraits) and "HW_CPU_X86_AVX2" in operation.traits:
            generation = generations[operation.uuid]
            return {"resource_provider_generation": generation, "traits": [*operation.traits]}
        return send(operation, generations, api)

    monkeypatch.setattr(apply_module, "send", some)


def _takes_what_is_a_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes the traits and aggregates that are its own, and no others."""
    send = apply_module.send

    def only_ours(operation, generations, api):
        if isinstance(operation, SetTraits):
            kept = operation.traits - {"CUSTOM_STRANGE", "HW_CPU_X86_SSE"}
            operation = replace(operation, traits=kept)
        if isinstance(operation, SetAggregates):
            kept = frozenset(one for one in operation.aggregates if not one.startswith("b"))
            operation = replace(operation, aggregates=kept)
        return send(operation, generations, api)

    monkeypatch.setattr(apply_module, "send", only_ours)


def _keeps_its_ledger_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """After Placement was written, together with the view."""

    def keep(self, ledger):
        self.ledger = ledger
        return True

    monkeypatch.setattr(SavedRoot, "save_ledger", keep)


def _believes_any_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one from a backup, which enables the host."""
    monkeypatch.setattr(machine, "VERDICTS", machine.VERDICTS[1:])


def _thinks_that_classes_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts its inventory in the place of all that is there."""
    after = ProviderSettlement.after

    def own(self):
        said = {name for _, one in self.sayings for name in one.holding.classes}
        found = after(self)
        if found is None or not said:
            return found
        records = found.inventory.items()
        return replace(found, inventory={name: one for name, one in records if name in said})

    monkeypatch.setattr(ProviderSettlement, "after", own)


def _takes_the_owners_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asserts on Nova's root what it does on its own."""

    def own(root, attached, **more):
        return Policy(root, attached=False, **more)

    monkeypatch.setattr(decide_module, "Policy", own)


def _looks_for_nothing_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that was taken out of the tree, and nobody heard of it, is forgotten."""
    refresh = root_module.refresh

    def inside(*args, **named):
        return refresh(*args, **{**named, "ours": frozenset()})

    monkeypatch.setattr(root_module, "refresh", inside)


def _forgets_who_vanished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Departures, "begin", lambda *_: None)


def _takes_silence_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that can't be asked has nothing."""

    def nothing(self, manager):
        return self.with_answer((Statement(manager),), frozenset())

    monkeypatch.setattr(Statements, "with_failed", nothing)


def _does_not_read_files_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = ProviderFiles.read
    monkeypatch.setattr(ProviderFiles, "read", lambda self: self.entries or read(self))


def _loses_a_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a reshape."""
    moved = decide_module.moved_allocations

    def fewer(*args):
        found = moved(*args)
        return {key: {**body, "allocations": {}} for key, body in found.items()}

    monkeypatch.setattr(decide_module, "moved_allocations", fewer)


def _any(_: Setup) -> bool:
    return True


DEFECTS: tuple[tuple[Plant, int, Callable[[Setup], bool]], ...] = (
    (_forgets_a_trait, 4, _any),
    (_takes_what_is_a_strangers, 529, _any),
    (_believes_any_record, 38, _any),
    (_thinks_that_classes_are_its_own, 35, _any),
    (_keeps_its_ledger_too_late, 202, _any),
    (_takes_the_owners_root, 10, lambda one: one.attached),
    (_looks_for_nothing_outside, 78, lambda one: one.attached),
    (_forgets_who_vanished, 27, lambda one: one.nodes > 1),
    (_takes_silence_for_an_answer, 14, _any),
    (_does_not_read_files_again, 1, lambda one: one.files),
    (_loses_a_consumer, 301, _any),
)
"""And the history that saw each first when it was written. A change of the agent's steps changes
all histories: it may be a later one by now, so many are searched, of those that are configured so.
"""
LATER = 600


def _seen(first: int, configured: Callable[[Setup], bool]) -> Failure | None:
    """The first failure of so many histories."""
    seeds = (seed for seed in itertools.count(first) if configured(setup_of(seed)))
    with many():
        return next(filter(None, map(failure, itertools.islice(seeds, LATER))), None)


@pytest.mark.parametrize(
    ("plant", "first", "configured"), DEFECTS, ids=lambda one: getattr(one, "__name__", "")
)
def test_the_world_sees(plant, first, configured, monkeypatch) -> None:
    plant(monkeypatch)
    assert _seen(first, configured) is not None, f"not seen in {LATER} histories"


def test_a_failure_is_told_by_its_shortest_story(monkeypatch) -> None:
    _thinks_that_classes_are_its_own(monkeypatch)
    found = _seen(35, _any)
    assert found is not None
    short = shortest(found)
    assert len(short.events) < len(found.events)
    assert failure(short.seed, short.kept) == short, "it can be told again"
    assert str(short).splitlines()[-1] == f"Again: {short.replay}"
