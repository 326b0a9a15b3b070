"""What one settlement is about: what counts of what was said, and who is silent.  Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from agent.ownership.ledger import AGENT, FILES, NOTHING, STATUS, Ledger, driver_of
from agent.ownership.policy import Policy
from agent.ownership.statement import Round, Said
from reportclient.model import Provider
from reportclient.plan import Problem
from reportclient.snapshot import Snapshot, changed_keys

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

    def hear(self, among: Collection[str] | None) -> list[str]:
        """Find out what counts of the answers; of which providers more is said than what was
        said before and is there.

        ``among`` are those that it is about: of all others somebody has heard before that they
        merely repeat what there is.  ``None``: all.
        """
        for statement in self.answers.statements:
            for uuid in _of(statement.said, among):
                said = statement.said[uuid]
                counts, told = self.policy.allowed(
                    statement.manager, said, self.observed, self.ledger
                )
                for text in told:
                    self.problem(self.observed.get(uuid) or said.provider, text)
                if counts is not None:
                    self.said.setdefault(uuid, []).append((statement.manager, counts))
        denied = NOTHING.union(*(one.denied for one in self.answers.statements))
        everybody = dict.fromkeys([*_of(self.ledger.holders, among), *self.said])
        return [uuid for uuid in everybody if uuid in denied or not self._repeats(uuid)]

    def follows(self, last: "Hearing") -> bool:
        """Whether what was found out then holds for all providers that are as they were."""
        now, then = self.ledger, last.ledger
        return (
            self.policy == last.policy
            and (now.begun, now.lost, now.seen) == (then.begun, then.lost, then.seen)
            and replace(self.answers, statements=()) == replace(last.answers, statements=())
            and [one.manager for one in self.answers.statements]
            == [one.manager for one in last.answers.statements]
        )

    def changed_since(self, last: "Hearing") -> Iterator[str]:
        """UUIDs of the providers of which something is otherwise than it was then."""
        yield from self.observed.changed_since(last.observed)
        yield from self.ledger.changed_since(last.ledger)
        yield from (*self.drained, *last.drained)
        for now, then in zip(self.answers.statements, last.answers.statements, strict=True):
            yield from changed_keys(now.said, then.said)
            yield from (*now.denied, *then.denied)

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

    def _repeats(self, uuid: str) -> bool:
        """Whether its one holder says again what it held, and that is what is there.

        So it is with almost all providers in almost all periods.
        """
        sayings, holders = self.said.get(uuid, ()), self.ledger.of(uuid)
        if len(sayings) != 1 or len(holders) != 1:
            return False
        ((who, said),) = sayings
        return (
            said.provider is self.observed.get(uuid)
            and said.holding == holders.get(who)
            and who not in self.quiet
            and uuid not in self.drained
        )


def _of(uuids: Collection[str], among: Collection[str] | None) -> Iterable[str]:
    return uuids if among is None else [uuid for uuid in among if uuid in uuids]
