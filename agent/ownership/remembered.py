"""What was settled last: a quiet period asks the same again, any other one almost the same.

Each of these is a function of what it is given, and takes what it led to last only to find
out sooner what it leads to now.
"""

from dataclasses import dataclass, field

from agent.ownership.hearing import Drained
from agent.ownership.ledger import Ledger
from agent.ownership.policy import Policy
from agent.ownership.settle import Settled, settle
from agent.ownership.showing import Shown, shown_to
from agent.ownership.statement import Round, Spoken, statements_of
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot


@dataclass(slots=True)
class Remembered:
    """What each driver was shown and answered last, and what was settled, of one root."""

    spoken: dict[str, Spoken] = field(default_factory=dict)
    shown: dict[str, Shown] = field(default_factory=dict)
    settled: dict[int, Settled] = field(default_factory=dict)
    """By the number of statements: it is asked once more after each driver."""

    def shown_to(self, driver: str, whole: Snapshot, ledger: Ledger, drained: Drained) -> Snapshot:
        """See :func:`agent.ownership.showing.shown_to`."""
        last = self.shown.get(driver)
        self.shown[driver] = shown = shown_to(driver, whole, ledger, drained, last)
        return shown.part

    def statements_of(self, driver: str, tree: ProviderTree, ledger: Ledger) -> Spoken:
        """See :func:`agent.ownership.statement.statements_of`."""
        last = self.spoken.get(driver)
        self.spoken[driver] = spoken = statements_of(driver, tree, ledger, last)
        return spoken

    def settle(
        self, observed: Snapshot, ledger: Ledger, answers: Round, policy: Policy, drained: Drained
    ) -> Settled:
        """See :func:`agent.ownership.settle.settle`."""
        step = len(answers.statements)
        last = self.settled.get(step)
        self.settled[step] = now = settle(observed, ledger, answers, policy, drained, last=last)
        return now
