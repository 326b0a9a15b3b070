"""Draw siblings of the same shape as one, such as 64 virtual functions.  Pure.

Two providers have the same shape if they and the providers below them differ only in name, UUID
and usage.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from reportclient.model import Provider
from reportclient.plain_text import in_natural_order, natural_key
from reportclient.snapshot import Snapshot

FOLD_FROM = 3
"""Least number of siblings of the same shape that are drawn as one."""

Alike = Callable[[Provider], object]


@dataclass(frozen=True, slots=True)
class Fold:
    """Providers that are drawn as one, in the order of their names; often only one.

    ``parent``: index of the fold above in the list of folds, smaller than its own index.
    """

    members: tuple[Provider, ...]
    parent: int | None


def folds(
    snapshot: Snapshot, *, apart: frozenset[str] = frozenset(), alike: Alike | None = None
) -> list[Fold]:
    """Return the folds of all trees, parents first.

    ``apart``: UUIDs of providers that are never folded with others.  ``alike``: returns a key;
    providers with an equal key, and equal keys below them, count as the same shape.
    """
    shapes = _shapes(snapshot, apart, alike)
    ordered: list[Fold] = []
    waiting = [*reversed(list(_groups(snapshot, snapshot.children(None), shapes, 1, None)))]
    while waiting:
        fold = waiting.pop()
        ordered.append(fold)
        below = [child for provider in fold.members for child in snapshot.children(provider.uuid)]
        own = list(_groups(snapshot, below, shapes, len(fold.members), len(ordered) - 1))
        waiting += reversed(own)
    return ordered


def _shapes(snapshot: Snapshot, apart: frozenset[str], alike: Alike | None) -> dict[str, int]:
    """Return a number for each provider's shape, by UUID."""
    numbers: dict[object, int] = {}
    shapes: dict[str, int] = {}
    for provider in reversed(list(snapshot.walk())):
        below = Counter(shapes[child] for child in snapshot.children(provider.uuid))
        marked = provider.uuid if provider.uuid in apart else None
        own: object = (
            frozenset(provider.inventory.items()),
            provider.traits,
            provider.aggregates,
            frozenset(below.items()),
            marked,
        )
        if alike is not None:
            own = (alike(provider), frozenset(below), marked)
        shapes[provider.uuid] = numbers.setdefault(own, len(numbers))
    return shapes


def _groups(
    snapshot: Snapshot, uuids: Iterable[str], shapes: dict[str, int], above: int, parent: int | None
) -> Iterator[Fold]:
    """Yield the folds of siblings; below a fold of several providers every shape is one fold."""
    groups: dict[int, list[Provider]] = {}
    for provider in in_natural_order(snapshot.providers[uuid] for uuid in uuids):
        groups.setdefault(shapes[provider.uuid], []).append(provider)
    parts: list[tuple[Provider, ...]] = []
    for group in groups.values():
        whole = above > 1 or len(group) >= FOLD_FROM
        parts += [tuple(group)] if whole else [(provider,) for provider in group]
    for members in sorted(parts, key=lambda part: natural_key(part[0].name)):
        yield Fold(members, parent)
