"""A picture of provider trees, before it is written in some language of pictures.  Pure.

Boxes are providers, or several of the same shape; hubs are aggregates that connect them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from agent.cli.beside import DISABLED, Beside, capacity
from agent.cli.drawing.fold import Fold, folds
from agent.cli.drawing.trait_groups import FAMILIES
from reportclient.model import Provider
from reportclient.plain_text import plain
from reportclient.snapshot import Snapshot

MOST_OF_A_FAMILY = 3
"""So many traits of a family are named; of more, only the number is told."""
LOOSE_FAMILIES = ("COMPUTE_", "HW_")
"""Families of what belongs to no other one."""
SHORT = 8
"""Characters of a UUID that tell aggregates of a picture apart."""

_CELLS = frozenset({"VCPU", "PCPU", "MEMORY_MB"})


class Kind(Enum):
    """What a provider is, by what it has; the values are what the legend says."""

    ROOT = "root of a tree: a host, mostly"
    NUMA = "NUMA cell: CPUs or memory below a root"
    DEVICE = "device: a PF, a GPU, …"
    PLAIN = "no inventory, below a root"
    SHARING = "sharing provider"


@dataclass(frozen=True, slots=True)
class Box:
    """``number`` tells boxes apart; ``count`` providers of the same shape are drawn as one.

    ``foreign``: this agent does not write it; ``marked``: it is the one asked for.
    """

    number: int
    kind: Kind
    title: str
    count: int
    amounts: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    foreign: bool = False
    disabled: bool = False
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Hub:
    """An aggregate, and the numbers of the boxes whose providers are in it."""

    title: str
    boxes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """``edges`` lead from parent to child, by number."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    hubs: tuple[Hub, ...] = ()

    def kinds(self) -> list[Kind]:
        """Those that the legend has to explain."""
        shown = {box.kind for box in self.boxes}
        return [kind for kind in Kind if kind in shown]

    def has(self, mark: str) -> bool:
        """Whether any box is ``foreign``, ``disabled`` or ``marked``."""
        return any(getattr(box, mark) for box in self.boxes)


@dataclass(frozen=True, slots=True)
class Known:
    """What the snapshot does not say.

    ``owner``: traits, of which roots that this agent writes have one; empty: nobody knows.
    ``aggregates``: names of aggregates, where there are better ones than the UUIDs.
    ``terse``: without traits, and with those aggregates only that connect boxes.
    """

    beside: Beside = field(default_factory=Beside)
    owner: frozenset[str] = frozenset()
    aggregates: Mapping[str, str] = field(default_factory=dict)
    terse: bool = False


def picture(snapshot: Snapshot, known: Known | None = None) -> Picture:
    """All trees of a snapshot; lone roots that share are among them."""
    known = known or Known()
    marked = known.beside.marked
    found = folds(snapshot, apart=frozenset([marked] if marked else ()))
    hubs = _hubs(found, known)
    boxes = _Boxes(snapshot, known, frozenset(hubs))
    return Picture(
        tuple(boxes.of(number, fold, found) for number, fold in enumerate(found)),
        tuple((fold.parent, n) for n, fold in enumerate(found) if fold.parent is not None),
        tuple(Hub(_aggregate(uuid, known), numbers) for uuid, numbers in hubs.items()),
    )


def _hubs(found: list[Fold], known: Known) -> dict[str, tuple[int, ...]]:
    """Aggregates with more than one provider, in the order of their names."""
    members: dict[str, list[int]] = {}
    providers: dict[str, int] = {}
    for number, fold in enumerate(found):
        for aggregate in fold.members[0].aggregates:
            members.setdefault(aggregate, []).append(number)
            providers[aggregate] = providers.get(aggregate, 0) + len(fold.members)
    names = sorted(members, key=lambda uuid: _aggregate(uuid, known))
    return {uuid: tuple(members[uuid]) for uuid in names if providers[uuid] > 1}


def _aggregate(uuid: str, known: Known) -> str:
    return known.aggregates.get(uuid, uuid[:SHORT])


@dataclass(frozen=True, slots=True)
class _Boxes:
    snapshot: Snapshot
    known: Known
    hubs: frozenset[str]

    def of(self, number: int, fold: Fold, found: list[Fold]) -> Box:
        """From the first of the fold; the others are as it is."""
        first = fold.members[0]
        above = len(found[fold.parent].members) if fold.parent is not None else 1
        root = self.snapshot.providers[self.snapshot.root_of(first.uuid)]
        return Box(
            number,
            _kind(first),
            _title(fold.members, above),
            len(fold.members),
            tuple(self._amounts(fold.members)),
            () if self.known.terse else tuple(short_traits(first.traits - {DISABLED})),
            tuple(self._notes(fold.members)),
            bool(self.known.owner) and not self.known.owner & root.traits,
            DISABLED in first.traits,
            first.uuid == self.known.beside.marked,
        )

    def _amounts(self, members: tuple[Provider, ...]) -> Iterator[str]:
        usages = self.known.beside.usages
        for name, record in sorted(members[0].inventory.items()):
            each = " each" if len(members) > 1 else ""
            whole = capacity(record)
            gives = f", capacity {whole}" if whole != record.total else ""
            if usages is None:
                yield f"{name} {record.total}{each}{gives}"
                continue
            used = sum(usages.get(one.uuid, {}).get(name, 0) for one in members)
            together = f" of {whole * len(members)}" if len(members) > 1 else ""
            yield f"{name} {record.total}{each}{gives}, used {used}{together}"

    def _notes(self, members: tuple[Provider, ...]) -> Iterator[str]:
        consumers = sum(self.known.beside.consumers.get(one.uuid, 0) for one in members)
        if consumers:
            yield f"{consumers} consumer{'s' if consumers > 1 else ''}"
        for aggregate in () if self.known.terse else sorted(members[0].aggregates - self.hubs):
            yield f"aggregate {_aggregate(aggregate, self.known)}"


def _kind(provider: Provider) -> Kind:
    if provider.shares:
        return Kind.SHARING
    if provider.parent_uuid is None:
        return Kind.ROOT
    if "HW_NUMA_ROOT" in provider.traits or _CELLS & provider.inventory.keys():
        return Kind.NUMA
    return Kind.DEVICE if provider.inventory else Kind.PLAIN


def _title(members: tuple[Provider, ...], above: int) -> str:
    first, last = plain(members[0].name), plain(members[-1].name)
    if len(members) == 1:
        return first
    in_each = len(members) // above
    each = f" ({in_each} in each)" if above > 1 and in_each > 1 else ""
    return f"{first} … {last}  ×{len(members)}{each}"  # noqa: RUF001


def short_traits(traits: Iterable[str]) -> list[str]:
    """Words for a box: of large families only how many there are.

    >>> short_traits(["HW_CPU_X86_AVX", "CUSTOM_FAST", *(f"COMPUTE_T{n}" for n in range(9))])
    ['CUSTOM_FAST', 'COMPUTE_* (9)', 'HW_CPU_X86_AVX']
    """
    families: dict[str, list[str]] = {}
    for trait in sorted(traits):
        families.setdefault(_family(trait), []).append(trait)
    custom = sorted(families, key=lambda family: (not family.startswith("CUSTOM_"), family))
    return [word for family in custom for word in _words(family, families[family])]


def _family(trait: str) -> str:
    found = (prefix for prefix in (*FAMILIES, *LOOSE_FAMILIES) if trait.startswith(prefix))
    return next(found, trait)


def _words(family: str, members: list[str]) -> list[str]:
    if len(members) <= MOST_OF_A_FAMILY:
        return members
    return [f"{family}* ({len(members)})"]
