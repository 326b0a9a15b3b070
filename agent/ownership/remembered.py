"""What was settled last: a quiet period asks the same again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.ownership.ledger import Ledger
from agent.ownership.policy import Policy
from agent.ownership.recording import Recording, RecordingTree
from agent.ownership.settle import Settled, settle
from agent.ownership.showing import Drained, shown_to
from agent.ownership.statement import Round, Statement, statements_of
from reportclient.model import Provider
from reportclient.snapshot import Snapshot

Answer = tuple[tuple[Statement, ...], frozenset[str]]


@dataclass(frozen=True, slots=True)
class _Spoken:
    base: Snapshot
    ledger: Ledger
    changed: Mapping[str, Provider | None]
    removed: list[str]
    recordings: Mapping[str, Recording]
    silent: frozenset[str]
    answer: Answer


@dataclass(frozen=True, slots=True)
class _Shown:
    whole: Snapshot
    ledger: Ledger
    drained: Drained
    shown: Snapshot


@dataclass(frozen=True, slots=True)
class _Asked:
    observed: Snapshot
    ledger: Ledger
    answers: Round
    policy: Policy
    drained: Drained
    settled: Settled


@dataclass(slots=True)
class Remembered:
    """What each driver was shown and answered last, and what was settled, of one root.

    All are pure functions: the same input, by identity where it is large, has the same result.
    """

    spoken: dict[str, _Spoken] = field(default_factory=dict)
    shown: dict[str, _Shown] = field(default_factory=dict)
    asked: dict[int, _Asked] = field(default_factory=dict)
    """By the number of statements: it is asked once more after each driver."""

    def shown_to(self, driver: str, whole: Snapshot, ledger: Ledger, drained: Drained) -> Snapshot:
        """See :func:`agent.ownership.showing.shown_to`."""
        last = self.shown.get(driver)
        if (
            last is None
            or last.whole is not whole
            or last.ledger is not ledger
            or last.drained != drained
        ):
            shown = shown_to(driver, whole, ledger, drained)
            last = self.shown[driver] = _Shown(whole, ledger, drained, shown)
        return last.shown

    def statements_of(self, driver: str, tree: RecordingTree, ledger: Ledger) -> Answer:
        """See :func:`agent.ownership.statement.statements_of`."""
        last = self.spoken.get(driver)
        changed, removed = tree.edits(), tree.removed_by_name()
        silent = frozenset(tree.silent_sources)
        if (
            last is not None
            and last.base is tree.base
            and last.ledger is ledger
            and last.silent == silent
            and last.changed == changed
            and last.removed == removed
            and last.recordings == tree.recordings
        ):
            return last.answer
        answer = statements_of(driver, tree, ledger)
        recordings = {source: one.copied() for source, one in tree.recordings.items()}
        said = _Spoken(tree.base, ledger, changed, removed, recordings, silent, answer)
        self.spoken[driver] = said
        return answer

    def settle(
        self, observed: Snapshot, ledger: Ledger, answers: Round, policy: Policy, drained: Drained
    ) -> Settled:
        """See :func:`agent.ownership.settle.settle`."""
        last = self.asked.get(len(answers.statements))
        if (
            last is not None
            and last.observed is observed
            and last.ledger is ledger
            and last.policy == policy
            and last.drained == drained
            and last.answers == answers
        ):
            return last.settled
        settled = settle(observed, ledger, answers, policy, drained)
        asked = _Asked(observed, ledger, answers, policy, drained, settled)
        self.asked[len(answers.statements)] = asked
        return settled
