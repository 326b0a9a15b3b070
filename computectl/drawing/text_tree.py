"""Draw provider trees as text.  Pure, except that stdout is the default ``Screen``.

Each provider has a line with its name, a line for each resource class with its amounts in columns
common to the whole tree, then traits and aggregates.  Sharing providers follow the tree that they
are associated with.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agent.ownership.policy import DISABLED
from agent.reporting.trait_groups import folded
from compute_registry.observed_placement import (
    NEARLY_FULL,
    SharingProviders,
    Usage,
    children_by_name,
    sharing_providers,
)
from computectl.reading.trees import Trees
from computectl.shared.screen import Line, Screen, StyledText, counted, in_columns, in_lines
from reportclient.model import Provider
from reportclient.plain_text import in_natural_order, plain
from reportclient.snapshot import Snapshot

CHILD, LAST, LINE, NONE = "├─ ", "└─ ", "│  ", "   "
"""The branches of a tree: before a child, before the last one, and before what is below each."""


def draw_tree(
    snapshot: Snapshot, root: str, *, usage: Usage | None = None, screen: Screen | None = None
) -> str:
    """Draw the tree of ``root`` and the sharing providers associated with it.

    Without ``usage`` the columns of usage are omitted.  A terse drawing shows no trait except
    COMPUTE_STATUS_DISABLED.
    """
    screen = screen or Screen.for_stream(sys.stdout)
    drawing = _Drawing(snapshot, usage or Usage(), screen)
    return drawing.text([root], sharing_providers(snapshot, root))


class _Place(NamedTuple):
    """A provider with the branches before its name (``here``) and before its lines (``inside``).

    ``tight``: without an empty line above.
    """

    provider: Provider
    here: str
    inside: str
    tight: bool


@dataclass(frozen=True, slots=True)
class _Drawing:
    snapshot: Snapshot
    usage: Usage
    screen: Screen

    def text(self, roots: Sequence[str], shared: SharingProviders) -> str:
        """Draw several trees, then sharing providers, all with common columns."""
        places = [place for root in roots for place in self._places(root)]
        sharing = (
            _Place(provider, "", "", tight=True)
            for providers in shared.values()
            for provider in providers
        )
        headings = (
            Line(place.here, self._heading(place.provider, one_line=True))
            for place in (*places, *sharing)
        )
        one_line = all(len(heading.label) <= self.screen.width for heading in headings)
        lines: list[Line] = []
        for place in places:
            between = [Line("")] if lines and place.provider.parent_uuid is None else []
            lines += [*between, *self._provider(place, one_line=one_line)]
        for aggregates, providers in shared.items():
            lines += self._sharing(aggregates, providers, one_line=one_line)
        titles: tuple[str, ...] = ("total", "reserved", "ratio", "capacity")
        if self.usage.usages is not None:
            titles += ("used", "free")
        return "\n".join(in_columns(lines, titles, self.screen))

    def _places(self, root: str) -> Iterator[_Place]:
        """Yield the places of a tree; iterates, since a tree may be deeper than Python's stack."""
        yield _Place(self.snapshot.providers[root], "", "", tight=True)
        stack = [*reversed(list(self._children(root, "")))]
        while stack:
            place = stack.pop()
            yield place
            stack += reversed(list(self._children(place.provider.uuid, place.inside)))

    def _children(self, uuid: str, before: str) -> Iterator[_Place]:
        children = children_by_name(self.snapshot, uuid)
        leaves = not any(self._has_children(child.uuid) for child in children)
        for child in children:
            last, tight = child is children[-1], leaves and child is not children[0]
            here, inside = (LAST, NONE) if last else (CHILD, LINE)
            yield _Place(child, before + here, before + inside, tight)

    def _has_children(self, uuid: str) -> bool:
        return any(True for _ in self.snapshot.children(uuid))

    def _sharing(
        self, aggregates: tuple[str, ...], providers: list[Provider], *, one_line: bool
    ) -> Iterator[Line]:
        yield Line("")
        for aggregate in aggregates:
            start = "shared through aggregate" if aggregate == aggregates[0] else " " * 20 + "and"
            yield Line("", ((f"{start} {aggregate}", None),))
        for provider in providers:
            yield from self._provider(_Place(provider, "", "", tight=False), one_line=one_line)

    def _provider(self, place: _Place, *, one_line: bool) -> Iterator[Line]:
        provider = place.provider
        inside = place.inside + (LINE if self._has_children(provider.uuid) else NONE)
        if not place.tight:
            yield Line(place.here[: -len(CHILD)] + LINE if place.here else "")
        yield Line(place.here, self._heading(provider, one_line=one_line))
        if not one_line:
            yield Line(inside, self._facts(provider))
        for resource_class in sorted(provider.inventory):
            yield self._row(provider, resource_class, inside)
        yield from self._traits(provider, inside)

    def _heading(self, provider: Provider, *, one_line: bool) -> tuple[StyledText, ...]:
        name: tuple[StyledText, ...] = ((plain(provider.name), "bold"),)
        facts = self._facts(provider) if one_line else ()
        marked = provider.uuid == self.usage.marked
        return (*name, *facts, *([("◀", "yellow")] if marked else []))

    def _facts(self, provider: Provider) -> tuple[StyledText, ...]:
        facts = [provider.uuid]
        generation = self.usage.generations.get(provider.uuid)
        if generation is not None:
            facts.append(f"generation {generation}")
        consumers = self.usage.consumers.get(provider.uuid)
        if consumers:
            facts.append(counted(consumers, "consumer"))
        return tuple((fact, None) for fact in facts)

    def _row(self, provider: Provider, resource_class: str, inside: str) -> Line:
        record = provider.inventory[resource_class]
        full, whole, style = record.with_defaults(None), record.capacity, None
        cells = [str(full.total), str(full.reserved), f"{full.allocation_ratio:g}", str(whole)]
        if self.usage.usages is not None:
            used = self.usage.usages.get(provider.uuid, {}).get(resource_class, 0)
            cells += [str(used), str(whole - used)]
            style = "yellow" if used > whole * NEARLY_FULL else None
        return Line(inside, ((resource_class, None),), tuple(cells), style)

    def _traits(self, provider: Provider, inside: str) -> Iterator[Line]:
        shown = provider.traits & {DISABLED} if self.screen.terse else provider.traits
        for traits in in_lines(folded(shown), max(self.screen.width - len(inside), 1)):
            red = ((word, "red" if word == DISABLED else None) for word in traits)
            yield Line(inside, tuple(red))
        for aggregate in () if self.screen.terse else sorted(provider.aggregates):
            yield Line(inside, ((f"aggregate {aggregate}", None),))


NAMED = 3
"""Members of an aggregate that are named; of more, the first and the last."""


def draw_fleet(trees: Trees, screen: Screen) -> str:
    """Draw all trees: a heading, hosts by name, sharing providers, then aggregates."""
    snapshot, usage = trees.together()
    in_order = in_natural_order(snapshot.providers[uuid] for uuid in snapshot.children(None))
    roots = [root.uuid for root in sorted(in_order, key=lambda root: root.shares)]
    drawn = _Drawing(snapshot, usage, screen).text(roots, {})
    return "\n".join([heading(trees), "", drawn, *_aggregates(snapshot, screen)])


def heading(trees: Trees) -> str:
    """Return the numbers of shown trees and providers, and of calls."""
    snapshot, _ = trees.together()
    roots = sum(1 for _ in snapshot.children(None))
    calls = trees.fleet.calls if trees.fleet is not None else 0
    return (
        f"{counted(roots, 'tree')}, {counted(len(snapshot), 'provider')}, {counted(calls, 'call')}"
    )


def _aggregates(snapshot: Snapshot, screen: Screen) -> Iterator[str]:
    """Yield the members of each aggregate with more than one provider."""
    members: dict[str, list[Provider]] = {}
    for provider in snapshot.walk():
        for aggregate in provider.aggregates:
            members.setdefault(aggregate, []).append(provider)
    for aggregate, providers in sorted(members.items()):
        if len(providers) > 1:
            yield ""
            yield screen.paint(f"aggregate {aggregate}", "bold")
            shares = [provider for provider in providers if provider.shares]
            others = [provider for provider in providers if not provider.shares]
            yield from (f"   shared: {_names(shares)}" for _ in shares[:1])
            yield from (f"   {'with' if shares else 'of'}: {_names(others)}" for _ in others[:1])


def _names(providers: list[Provider]) -> str:
    names = [plain(provider.name) for provider in in_natural_order(providers)]
    if len(names) <= NAMED:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)})"
