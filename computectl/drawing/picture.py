"""The boxes and edges of a picture of provider trees.  Pure.

A box is a provider, or several of the same shape; a hub is an aggregate that connects boxes.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from agent.ownership.policy import DISABLED
from computectl.drawing.fold import Alike, Fold, folds
from computectl.drawing.trait_groups import FAMILIES, by_family
from reportclient.model import Provider
from reportclient.plain_text import plain
from reportclient.snapshot import Snapshot
from reportclient.usage import Usage

MOST_BOXES = 60
"""Boxes above which a picture becomes an overview: providers that differ share a box."""
MOST_OF_A_FAMILY = 3
"""Traits of a family that are named; of more, the number is given."""
LOOSE_FAMILIES = ("COMPUTE_", "HW_")
"""Families of the traits that belong to no other family."""
SHORT = 8
"""Characters of a UUID by which aggregates are named."""

_CELLS = frozenset({"VCPU", "PCPU", "MEMORY_MB"})


class BoxKind(Enum):
    """Kinds of providers; the values are the texts of the legend."""

    ROOT = "root of a tree: a host, mostly"
    NUMA = "NUMA cell: CPUs or memory below a root"
    DEVICE = "device: a PF, a GPU, …"
    PLAIN = "no inventory, below a root"
    SHARING = "sharing provider"


@dataclass(frozen=True, slots=True)
class Box:
    """A box for ``count`` providers of the same shape; ``number`` identifies it.

    ``foreign``: this agent does not write it; ``marked``: it was named on the command line.
    """

    number: int
    kind: BoxKind
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
    """Boxes, ``edges`` from parent to child by the numbers of boxes, and hubs.

    ``overview``: the providers of a box may differ, since there are more than ``MOST_BOXES``.
    """

    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    hubs: tuple[Hub, ...] = ()
    overview: bool = False

    def legend(self) -> Iterator[tuple[str, str]]:
        """Yield the styles that occur, with their texts."""
        shown = {box.kind for box in self.boxes}
        yield from ((kind.name.lower(), kind.value) for kind in BoxKind if kind in shown)
        if any(box.count > 1 for box in self.boxes):
            yield "several", "double border: several of the same shape"
        if self.overview:
            yield "overview", "overview: those of a box differ; ask for one by its name to see it"
        if any(box.foreign for box in self.boxes):
            yield "foreign", "dashed border: foreign, not written by this agent"
        if any(box.disabled for box in self.boxes):
            yield "disabled", "red border: disabled, takes no new guests"
        if any(box.marked for box in self.boxes):
            yield "marked", "thick border: the provider asked for"
        if self.hubs:
            yield "aggregate", "dashed line: member of an aggregate"


def picture(
    snapshot: Snapshot,
    usage: Usage | None = None,
    *,
    owner: frozenset[str] = frozenset(),
    terse: bool = False,
) -> Picture:
    """Return the picture of all trees of a snapshot, sharing providers included.

    ``owner``: owner traits, of which a root that is not foreign has one; empty: unknown.
    ``terse``: omit traits, and aggregates that do not connect boxes.
    """
    boxes = _Boxes(snapshot, usage or Usage(), owner, terse)
    all_folds = boxes.folds()
    overview = len(all_folds) > MOST_BOXES
    if overview:
        all_folds = boxes.folds(boxes.classes)
    if len(all_folds) > MOST_BOXES:
        all_folds = boxes.folds(boxes.kind)
    hubs = _hubs(all_folds)
    return Picture(
        tuple(boxes.box(number, fold, all_folds, hubs) for number, fold in enumerate(all_folds)),
        tuple((fold.parent, n) for n, fold in enumerate(all_folds) if fold.parent is not None),
        tuple(_together(hubs) if overview else (Hub(u[:SHORT], n) for u, n in hubs.items())),
        overview,
    )


def _together(hubs: Mapping[str, tuple[int, ...]]) -> Iterator[Hub]:
    """Yield the hubs; aggregates of the same boxes are one hub."""
    alike: dict[tuple[int, ...], list[str]] = {}
    for uuid, numbers in hubs.items():
        alike.setdefault(numbers, []).append(uuid[:SHORT])
    for numbers, names in alike.items():
        several = f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]
        yield Hub(several, numbers)


def _hubs(all_folds: list[Fold]) -> dict[str, tuple[int, ...]]:
    """Return the numbers of boxes by aggregate with several providers, in order of UUID."""
    members: dict[str, list[int]] = {}
    providers: dict[str, int] = {}
    for number, fold in enumerate(all_folds):
        counts = Counter(each for provider in fold.members for each in provider.aggregates)
        for aggregate, count in counts.items():
            members.setdefault(aggregate, []).append(number)
            providers[aggregate] = providers.get(aggregate, 0) + count
    return {uuid: tuple(members[uuid]) for uuid in sorted(members) if providers[uuid] > 1}


@dataclass(frozen=True, slots=True)
class _Boxes:
    snapshot: Snapshot
    usage: Usage
    owner: frozenset[str]
    terse: bool

    def folds(self, alike: Alike | None = None) -> list[Fold]:
        """Return all folds; the marked provider is alone."""
        marked = self.usage.marked
        return folds(self.snapshot, apart=frozenset([marked] if marked else ()), alike=alike)

    def kind(self, provider: Provider) -> tuple[object, ...]:
        """Return what providers of a box share even in the coarsest overview."""
        return _kind(provider), DISABLED in provider.traits, self.is_foreign(provider)

    def classes(self, provider: Provider) -> tuple[object, ...]:
        """Return what providers of a box share in an overview: kind and resource classes."""
        return *self.kind(provider), frozenset(provider.inventory)

    def is_foreign(self, provider: Provider) -> bool:
        """Whether the root of a provider has none of the owner traits."""
        root = self.snapshot.providers[self.snapshot.root_of(provider.uuid)]
        return bool(self.owner) and not self.owner & root.traits

    def box(self, number: int, fold: Fold, all_folds: list[Fold], hubs: Container[str]) -> Box:
        """Return the box of a fold, with kind and marks of its first provider, which all share."""
        first = fold.members[0]
        above = len(all_folds[fold.parent].members) if fold.parent is not None else 1
        common = frozenset.intersection(*(provider.traits for provider in fold.members))
        return Box(
            number,
            _kind(first),
            _title([self._name(provider) for provider in fold.members], above),
            len(fold.members),
            tuple(self._amounts(fold.members)),
            () if self.terse else tuple(short_traits(common - {DISABLED})),
            tuple(self._notes(fold.members, hubs)),
            self.is_foreign(first),
            DISABLED in first.traits,
            first.uuid == self.usage.marked,
        )

    def _name(self, provider: Provider) -> str:
        """Return the name; below a host without the domain of the host's name."""
        root = self.snapshot.providers[self.snapshot.root_of(provider.uuid)]
        host, dot, _ = root.name.partition(".")
        if root is provider or not dot or not provider.name.startswith(root.name):
            return plain(provider.name)
        return plain(host + provider.name.removeprefix(root.name))

    def _amounts(self, members: tuple[Provider, ...]) -> Iterator[str]:
        usages = self.usage.usages
        for name in sorted({name for provider in members for name in provider.inventory}):
            having = [provider for provider in members if name in provider.inventory]
            wholes = [provider.inventory[name].capacity for provider in having]
            totals = _span(provider.inventory[name].total for provider in having)
            each = " each" if len(members) > 1 else ""
            some = f" on {len(having)}" if len(having) < len(members) else ""
            gives = f", capacity {_span(wholes)}" if _span(wholes) != totals else ""
            use = ""
            if usages is not None:
                used = sum(usages.get(provider.uuid, {}).get(name, 0) for provider in having)
                use = f", used {used}{f' of {sum(wholes)}' if len(having) > 1 else ''}"
            yield f"{name} {totals}{each}{some}{gives}{use}"

    def _notes(self, members: tuple[Provider, ...], hubs: Container[str]) -> Iterator[str]:
        consumers = sum(self.usage.consumers.get(provider.uuid, 0) for provider in members)
        if consumers:
            yield f"{consumers} consumer{'s' if consumers > 1 else ''}"
        if self.terse:
            return
        varied = len({provider.traits for provider in members})
        if varied > 1:
            yield f"{varied} different sets of traits"
        every = frozenset().union(*(provider.aggregates for provider in members))
        lone = [aggregate for aggregate in sorted(every) if aggregate not in hubs]
        if len(lone) > MOST_OF_A_FAMILY:
            yield f"{len(lone)} aggregates"
            return
        for aggregate in lone:
            yield f"aggregate {aggregate[:SHORT]}"


def _span(amounts: Iterable[int]) -> str:
    """Return amounts as ``8`` or ``4 to 16``."""
    ordered = sorted(amounts)
    return str(ordered[0]) if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"


def _kind(provider: Provider) -> BoxKind:
    if provider.shares:
        return BoxKind.SHARING
    if provider.parent_uuid is None:
        return BoxKind.ROOT
    if "HW_NUMA_ROOT" in provider.traits or _CELLS & provider.inventory.keys():
        return BoxKind.NUMA
    return BoxKind.DEVICE if provider.inventory else BoxKind.PLAIN


def _title(names: list[str], above: int) -> str:
    if len(names) == 1:
        return names[0]
    in_each = len(names) // above
    even = above > 1 and in_each > 1 and len(names) % above == 0
    each = f" ({in_each} in each)" if even else ""
    return f"{names[0]} … {names[-1]}  ×{len(names)}{each}"  # noqa: RUF001


def short_traits(traits: Iterable[str]) -> list[str]:
    """Return the traits to name in a box; of a large family its prefix and the number.

    >>> short_traits(["HW_CPU_X86_AVX", "CUSTOM_FAST", *(f"COMPUTE_T{n}" for n in range(9))])
    ['CUSTOM_FAST', 'COMPUTE_* (9)', 'HW_CPU_X86_AVX']
    """
    families = by_family(traits, (*FAMILIES, *LOOSE_FAMILIES))
    custom = sorted(families, key=lambda family: (not family.startswith("CUSTOM_"), family))
    words: list[str] = []
    for family in custom:
        traits_of_it = families[family]
        few = len(traits_of_it) <= MOST_OF_A_FAMILY
        words += traits_of_it if few else [f"{family}* ({len(traits_of_it)})"]
    return words
