"""Runs simulated histories and checks their rules; ``docs/world.rst`` describes them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.ownership import settle as settle_module
from agent.ownership.ledger import NOTHING
from agent.ownership.policy import Policy
from agent.ownership.statement import Statement, Statements
from agent.period import ask as ask_module
from agent.period import tracker as tracker_module
from agent.period.rules import Rules
from agent.provider_config.files import ProviderFiles
from agent.registry.record import ServiceRecord
from agent.state.saved_root import SavedRoot
from agent.switching import heartbeat
from agent.switching.machine import ServiceStatus, Verdict
from reportclient import apply as apply_module
from reportclient import root as root_module
from reportclient.plan import SetAggregates, SetTraits
from tests.world.setup import Setup, setup_of
from tests.world.story import Failure, events_of, failure, reduced
from tests.world.world import many_histories, world

Plant = Callable[[pytest.MonkeyPatch], None]
HERE = Path(__file__).resolve().parents[2]
HISTORIES = 400
"""Number of histories that CI runs: twenty seconds of one processor."""


@pytest.mark.parametrize("seed", range(1, 13))
def test_a_history_violates_no_rule(seed: int) -> None:
    with many_histories():
        assert failure(seed) is None


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_history_violates_a_rule() -> None:
    command = [sys.executable, "-m", "tests.world", "--seeds", f"1..{HISTORIES}"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _trace(seed: int) -> str:
    with world(seed, setup_of(seed)) as simulation:
        simulation.run_events(events_of(seed))
        return simulation.placement.trace.hexdigest()


@pytest.mark.slow
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


# -- the rules detect defects: agents with a defect each


def _forgets_a_trait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent assumes that a write of these traits is done and does not send it."""
    send = apply_module.send

    def some(operation, generations, api):
        if isinstance(operation, SetTraits) and "HW_CPU_X86_AVX2" in operation.traits:
            generation = generations[operation.uuid]
            return {"resource_provider_generation": generation, "traits": [*operation.traits]}
        return send(operation, generations, api)

    monkeypatch.setattr(apply_module, "send", some)


def _removes_foreign_traits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent removes foreign traits and aggregates."""
    send = apply_module.send

    def only_ours(operation, generations, api):
        if isinstance(operation, SetTraits):
            traits = operation.traits - {"CUSTOM_STRANGE", "HW_CPU_X86_SSE"}
            operation = replace(operation, traits=traits)
        if isinstance(operation, SetAggregates):
            aggregates = frozenset(a for a in operation.aggregates if not a.startswith("b"))
            operation = replace(operation, aggregates=aggregates)
        return send(operation, generations, api)

    monkeypatch.setattr(apply_module, "send", only_ours)


def _saves_the_ledger_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent saves the ledger after Placement was written, together with the view."""

    def keep(self, ledger):
        self.ledger = ledger
        return True

    monkeypatch.setattr(SavedRoot, "save_ledger", keep)


def _believes_any_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent accepts any record, also an older one from a backup that enables the host."""
    decide = heartbeat.verdict

    def verdict(ours: ServiceStatus, record: ServiceRecord) -> Verdict:
        decided = decide(ours, record)
        return Verdict.RECORD if decided is Verdict.OURS_IS_LATER else decided

    monkeypatch.setattr(heartbeat, "verdict", verdict)


def _removes_foreign_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent removes foreign inventory."""
    settle_provider = settle_module.settle_provider

    def own(inputs, uuid):
        settled = settle_provider(inputs, uuid)
        asserted = [
            one.assertions[uuid] for one in inputs.answers.statements if uuid in one.assertions
        ]
        names = {name for one in asserted for name in one.holding.classes}
        if settled.after is None or not names:
            return settled
        records = settled.after.inventory.items()
        inventory = {name: record for name, record in records if name in names}
        return settled._replace(after=replace(settled.after, inventory=inventory))

    monkeypatch.setattr(settle_module, "settle_provider", own)


def _writes_to_novas_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent writes to nova-compute's root as if it were its own."""

    def own(root, attached, **more):
        return Policy(root, attached=False, **more)

    monkeypatch.setattr(tracker_module, "Policy", own)


def _forgets_a_lost_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent forgets a child that it took out of the tree if the reply was lost."""
    refresh = root_module.refresh

    def inside(*args, **named):
        return refresh(*args, **{**named, "ours": frozenset()})

    monkeypatch.setattr(root_module, "refresh", inside)


def _forgets_a_vanished_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rules, "node_wait", None)


def _reports_nothing_for_a_failing_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent treats a driver that cannot answer as one that reports nothing."""

    with_answer = Statements.with_answer

    def nothing(self, statements=(), silent=NOTHING):
        if statements:
            return with_answer(self, statements, silent)
        return with_answer(self, tuple(map(Statement, silent)))

    monkeypatch.setattr(Statements, "with_answer", nothing)


def _does_not_read_files_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = ProviderFiles.read
    monkeypatch.setattr(ProviderFiles, "read", lambda self: self.entries or read(self))


def _loses_a_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reshape loses the allocations of a consumer."""
    moved = ask_module.moved_allocations

    def fewer(*args):
        bodies = moved(*args)
        return {key: {**body, "allocations": {}} for key, body in bodies.items()}

    monkeypatch.setattr(ask_module, "moved_allocations", fewer)


def _any(_: Setup) -> bool:
    return True


DEFECTS: tuple[tuple[Plant, int, Callable[[Setup], bool]], ...] = (
    (_forgets_a_trait, 5, _any),
    (_removes_foreign_traits, 697, _any),
    (_believes_any_record, 24, _any),
    (_removes_foreign_inventory, 77, _any),
    (_saves_the_ledger_too_late, 117, _any),
    (_writes_to_novas_root, 10, lambda one: one.attached),
    (_forgets_a_lost_child, 2682, lambda one: one.attached),
    (_forgets_a_vanished_node, 27, lambda one: one.nodes > 1),
    (_reports_nothing_for_a_failing_driver, 14, _any),
    (_does_not_read_files_again, 1, lambda one: one.files),
    (_loses_a_consumer, 109, _any),
)
"""Each defect with the first seed that detected it, and the configurations that can.  A change of the
agent's steps changes all histories, so that another seed may detect it now: LATER histories from the
first one on are run.
"""
LATER = 600


def _first_failure(first: int, configured: Callable[[Setup], bool]) -> Failure | None:
    """Return the first failure of LATER histories."""
    seeds = (seed for seed in itertools.count(first) if configured(setup_of(seed)))
    with many_histories():
        return next(filter(None, map(failure, itertools.islice(seeds, LATER))), None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "first", "configured"), DEFECTS, ids=lambda one: getattr(one, "__name__", "")
)
def test_the_rules_detect_a_defect(plant, first, configured, monkeypatch) -> None:
    plant(monkeypatch)
    assert _first_failure(first, configured) is not None, f"not detected in {LATER} histories"


@pytest.mark.slow
def test_a_failure_is_reduced_to_fewer_events(monkeypatch) -> None:
    _removes_foreign_inventory(monkeypatch)
    first = _first_failure(77, _any)
    assert first is not None
    short = reduced(first)
    assert len(short.events) < len(first.events)
    assert failure(short.seed, short.numbers) == short, "it can be replayed"
    assert str(short).splitlines()[-1] == f"Replay: {short.replay}"
