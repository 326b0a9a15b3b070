"""What one settlement is about: what counts of what was said, and who is silent.  Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, product

from agent.ownership.ledger import AGENT, FILES, NOTHING, STATUS, Ledger, driver_of
from agent.ownership.policy import Policy
from agent.ownership.statement import Round, Said, Statement
from reportclient.model import Provider
from reportclient.plan import Problem
from reportclient.snapshot import Snapshot

Drained = Mapping[str, Mapping[str, int]]
"""What was reserved of classes before they were drained, by provider."""
Sayings = list[tuple[str, Said]]
"""What is said of one provider, and by whom, in the order that decides."""


@dataclass(slots=True)
class Hearing:
    """``said`` is what counts of the answers, by the UUID of the provider."""

    observed: Snapshot
    ledger: Ledger
    answers: Round
    policy: Policy
    drained: Drained
    problems: dict[Problem, None] = field(default_factory=dict)
    said: dict[str, Sayings] = field(default_factory=dict)
    quiet: frozenset[str] = NOTHING
    """Managers whose claims stay as they are."""

    def __post_init__(self) -> None:
        complete = self.answers.silent | self.answers.waiting <= {AGENT, STATUS}
        answered = self.answers.answered()
        self.quiet = frozenset(
            one
            for one in self.ledger.managers()
            if self.answers.is_silent(one) or not (complete or driver_of(one) in answered)
        )

    def hear(self) -> list[str]:
        """Find out what counts of the answers; of which providers more is said than what was
        said before and is there.
        """
        statements = self.answers.statements
        everybody = dict.fromkeys(chain(self.ledger.holders, *(one.said for one in statements)))
        repeated = self._repeated()
        differ = [uuid for uuid in everybody if uuid not in repeated]
        for statement, uuid in product(statements, differ):
            if uuid in statement.said:
                self._weigh(statement, uuid)
        return differ

    def _weigh(self, statement: Statement, uuid: str) -> None:
        said, who = statement.said[uuid], statement.manager
        counts, told = self.policy.allowed(who, said, self.observed, self.ledger)
        for text in told:
            self.problem(self.observed.get(uuid) or said.provider, text)
        if counts is not None:
            self.said.setdefault(uuid, []).append((who, counts))

    def _repeated(self) -> set[str]:
        """Providers whose one holder says again what it held, and that is what is there, and
        nobody else says anything: almost all providers in almost all periods.
        """
        there, rows = self.observed.providers, self.ledger.holders
        repeated, others = set[str](), set(self.drained)
        for one in self.answers.statements:
            others.update(one.denied, one.said if one.manager in self.quiet else ())
            for uuid, (held, provider) in one.said.items():
                row = rows.get(uuid, {})
                same = provider is there.get(uuid) and row.get(one.manager) == held
                (repeated if same and len(row) == 1 else others).add(uuid)
        return repeated - others

    def problem(self, provider: Provider, text: str) -> None:
        """Tell it, once."""
        self.problems[Problem(provider.uuid, provider.name, text)] = None

    def is_spoken_of(self, uuid: str) -> bool:
        """By a driver: it says what the provider has, or took it away."""
        return any(uuid in one.gone or uuid in one.inventoried for one in self.answers.statements)

    def denied(self, uuid: str) -> frozenset[str]:
        """Traits of a provider that are to go, whoever set them."""
        return NOTHING.union(*(one.denied.get(uuid, ()) for one in self.answers.statements))

    def place_in_files(self, uuid: str, name: str) -> str:
        """File and line of what the files say."""
        places = (one.places.get((uuid, name)) for one in self.answers.statements)
        return next(filter(None, places), FILES)
