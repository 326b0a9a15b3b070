"""Answers: what each owner claims in one period.  Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent.ownership.ledger import FILES, Ledger, driver_of
from reportclient.model import Provider
from reportclient.provider_tree import NONE, NOTHING, Claims, ProviderTree, SourceClaims
from reportclient.snapshot import Snapshot
from reportclient.view import Drained


class Reported(NamedTuple):
    """Claims of an owner on one provider, which has their values, such as inventory records."""

    claims: Claims
    provider: Provider


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one owner: its claims by provider UUID, and what it removes.

    ``removed`` are the providers that the owner removed, with all below them; ``adopted`` those
    that it takes over from another service.  ``absent`` are traits and aggregates that it reports
    absent, by provider: see :mod:`agent.ownership.reconcile`.
    ``places`` has the file and line of each claim of a provider file, by provider and name.
    """

    owner: str
    reported: Mapping[str, Reported] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    sets_inventory: frozenset[str] = frozenset()
    """Providers whose inventory the owner set, be it to none."""
    adopted: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    """Providers that the owner removed since it does not find them now."""
    absent: Mapping[str, Claims] = field(default_factory=dict)
    places: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one period in order of precedence, and the owners without one."""

    in_order: tuple[Answer, ...] = ()
    unanswered: frozenset[str] = frozenset()
    """Drivers and sources of drivers that failed: their claims stay as they are."""
    order: tuple[str, ...] = ()
    """All drivers, in the order of compute_driver."""
    waiting: frozenset[str] = frozenset()
    """Drivers that were not called yet; their claims stay, but keep no provider."""

    def with_answer(
        self, answers: tuple[Answer, ...] = (), unanswered: frozenset[str] = NOTHING
    ) -> "Answers":
        """Return the answers after another owner has answered or failed.

        What an owner in ``unanswered`` leaves out of its answer is not removed.
        """
        in_order, unanswered = (*self.in_order, *answers), self.unanswered | unanswered
        return replace(self, in_order=in_order, unanswered=unanswered)

    def on(self, uuid: str) -> list[tuple[str, Reported]]:
        """Return the owners that claim something of a provider, each with it."""
        return [(it.owner, it.reported[uuid]) for it in self.in_order if uuid in it.reported]

    def takes_precedence(self, owner: str, other: str) -> bool:
        """Return whether an owner gets an exclusive claim that another, unanswered one has."""
        names = (*self.order, FILES)
        driver, others = driver_of(owner), driver_of(other)
        return others not in names or names.index(driver) < names.index(others)

    def is_unanswered(self, owner: str) -> bool:
        """Return whether an owner's claims stay as they are: it has not answered.

        A driver's own claims also stay while one of its sources has not: they may be that source's,
        recorded before the driver named its sources.
        """
        unanswered = self.unanswered | self.waiting
        if owner in unanswered:
            return True
        if owner == driver_of(owner):
            return any(driver_of(each) == owner for each in unanswered)
        has_answered = any(each.owner == owner for each in self.in_order)
        return driver_of(owner) in unanswered and not has_answered

    def answered(self) -> frozenset[str]:
        """Return the drivers and other owners with an answer."""
        return frozenset(driver_of(answer.owner) for answer in self.in_order)


def owner_of(driver: str, source: str) -> str:
    """Return the owner of what a source of a driver claims; ``""`` is the driver itself."""
    return f"{driver}/{source}" if source else driver


class DriverAnswer(NamedTuple):
    """The answers of a driver, one per source, after what they follow from: its edited tree."""

    base: Snapshot
    ledger: Ledger
    edits: Mapping[str, Provider | None]
    claims: Mapping[str, SourceClaims]
    drained: Drained
    answers: tuple[Answer, ...] = ()
    unanswered: frozenset[str] = NOTHING
    """Sources that failed."""


def driver_answer(
    driver: str,
    tree: ProviderTree,
    ledger: Ledger,
    last: DriverAnswer | None = None,
    drained: Drained | None = None,
) -> DriverAnswer:
    """Return a driver's answers, from its edited tree, which is closed; ``last`` if they are those.

    What the driver claimed last and left in the tree counts as claimed again, but a drained class,
    and a provider that leaves, is claimed only if the driver set it.
    """
    drained = drained or {}
    now = DriverAnswer(tree.base, ledger, tree.edits(), tree.claims, drained)
    if last is not None and now == last._replace(answers=(), unanswered=NOTHING):
        return last
    removed = frozenset(uuid for uuid, provider in now.edits.items() if provider is None)
    answers, unanswered = list[Answer](), set[str]()
    for source, edited in tree.claims.items():
        owner = owner_of(driver, source)
        if source and edited.unanswered:
            unanswered.add(owner)
            continue
        reported = dict[str, Reported]()
        for uuid in {**edited.claims, **edited.last}:
            provider, claims = tree.provider(uuid), edited.on(uuid)
            if uuid in ledger.leaving and uuid not in edited.placed | edited.sets_inventory:
                claims = claims._replace(provider=False)
            if uuid in drained and uuid not in edited.sets_inventory:
                claims = claims._replace(classes=claims.classes - drained[uuid].keys())
            if provider is not None and (claims := claims.within(provider)) != NONE:
                reported[uuid] = Reported(claims, provider)
        answers.append(
            Answer(
                owner,
                reported,
                removed=NOTHING if source else removed,
                sets_inventory=frozenset(edited.sets_inventory),
                adopted=frozenset(edited.adopted),
                missing=frozenset(edited.missing),
                absent=dict(edited.absent),
            )
        )
    return now._replace(answers=tuple(answers), unanswered=frozenset(unanswered))


def without_moved_classes(answer: Answer, ledger: Ledger) -> Answer:
    """Return an answer without the classes that a pending reshape would move.

    They would be offered in both places otherwise.  Answers of sources are returned as they
    are: a source that was done before the driver asked for the reshape moves nothing.
    """
    driver = driver_of(answer.owner)
    if answer.owner != driver:
        return answer
    where: dict[str, set[str]] = {}
    for uuid, rows in ledger.claims.items():
        for owner, recorded in rows.items():
            for name in recorded.classes if driver_of(owner) == driver else ():
                where.setdefault(name, set()).add(uuid)
    staying = dict(answer.reported)
    for uuid, (claims, provider) in answer.reported.items():
        classes = frozenset(it for it in claims.classes if uuid in where.get(it, {uuid}))
        if classes != claims.classes:
            staying[uuid] = Reported(claims._replace(classes=classes), provider)
        if claims.classes and not classes and uuid not in ledger.claims:
            del staying[uuid]
    return replace(answer, reported=staying)


def with_moved_classes(ledger: Ledger, observed: Snapshot, answers: Answers) -> Ledger:
    """Return a lost ledger after a reshape, with the classes that the drivers have moved away.

    A class that a driver leaves out of an inventory, and adds to that of another provider, was its
    own; otherwise it would be offered in both places.  What it leaves out only may be another
    service's.
    """
    before = {uuid: provider.inventory.keys() for uuid, provider in observed.providers.items()}
    now = dict[str, frozenset[str]]()
    for answer in answers.in_order:
        for uuid, (claims, _) in answer.reported.items():
            now[uuid] = now.get(uuid, NOTHING) | claims.classes
    added = NOTHING.union(*(classes - before.get(uuid, NOTHING) for uuid, classes in now.items()))
    for answer in answers.in_order:
        for uuid in answer.sets_inventory & before.keys():
            if moved := added.intersection(before[uuid] - now.get(uuid, NOTHING)):
                ledger = ledger.adding(answer.owner, uuid, Claims(classes=moved))
    return ledger
