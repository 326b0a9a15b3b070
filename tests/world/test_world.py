"""Histories of a few minutes each: whatever happens, what has to hold does.

``docs/world.rst`` says how to run more of them, and one of them again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.ownership.one_provider import OneProvider
from agent.state.kept_root import KeptRoot
from agent.switching import machine
from reportclient import apply as apply_module
from reportclient.plan import SetAggregates, SetTraits
from reportclient.root import Root
from tests.world.story import events_of, failure, hosts_of, shortest
from tests.world.world import world

HERE = Path(__file__).resolve().parents[2]
HISTORIES = 600
"""Twenty seconds of one processor."""


@pytest.mark.timeout(1200)
def test_whatever_happens_what_has_to_hold_does() -> None:
    command = [sys.executable, "-m", "tests.world", "--seeds", f"1..{HISTORIES}"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _trace(seed: int) -> str:
    with world(seed, hosts=hosts_of(seed)) as made:
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


def _does_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a conflict, or a lost reply."""
    refresh = Root.refresh

    def certain(self, *args, **named):
        if self.view.generations:
            self.view = replace(self.view, certain=True)
        return refresh(self, *args, **named)

    monkeypatch.setattr(Root, "refresh", certain)


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

    monkeypatch.setattr(KeptRoot, "keep", keep)


def _believes_any_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one from a backup, which enables the host."""
    monkeypatch.setattr(machine, "VERDICTS", machine.VERDICTS[1:])


def _thinks_that_classes_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts its inventory in the place of all that is there."""
    inventory = OneProvider._inventory

    def own(self, before):
        said = {name for _, one in self.sayings for name in one.holding.classes}
        after = inventory(self, before)
        return {name: record for name, record in after.items() if name in said or not said}

    monkeypatch.setattr(OneProvider, "_inventory", own)


DEFECTS: tuple[tuple[Callable[[pytest.MonkeyPatch], None], int], ...] = (
    (_forgets_a_trait, 4),
    (_does_not_read_again, 15),
    (_takes_what_is_a_strangers, 84),
    (_believes_any_record, 38),
    (_thinks_that_classes_are_its_own, 7),
    (_keeps_its_ledger_too_late, 217),
)
"""And a history that saw each, of 1 to 800 the first that did; it may be a later one by now."""
LATER = 60


@pytest.mark.parametrize(("plant", "first"), DEFECTS, ids=lambda one: getattr(one, "__name__", ""))
def test_the_world_sees(plant, first, monkeypatch) -> None:
    plant(monkeypatch)
    found = next(filter(None, map(failure, range(first, first + LATER))), None)
    assert found is not None, f"not seen in {LATER} histories"


def test_a_failure_is_told_by_its_shortest_story(monkeypatch) -> None:
    _does_not_read_again(monkeypatch)
    found = next(filter(None, map(failure, range(15, 15 + LATER))), None)
    assert found is not None
    short = shortest(found)
    assert len(short.events) < len(found.events)
    assert failure(short.seed, short.kept) == short, "it can be told again"
    assert str(short).splitlines()[-1] == f"Again: {short.replay}"
