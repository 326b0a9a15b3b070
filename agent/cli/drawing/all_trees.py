"""Several trees as text, and below them the aggregates that connect them."""

from collections.abc import Iterator

from agent.cli.drawing.fold import in_natural_order
from agent.cli.drawing.text_tree import draw_trees
from agent.cli.reading.trees import Trees
from agent.cli.shared.screen import Screen, counted
from reportclient.model import Provider
from reportclient.plain_text import plain
from reportclient.snapshot import Snapshot

NAMED = 3
"""Of more members than these, only the first and the last are named."""


def draw_fleet(trees: Trees, screen: Screen) -> str:
    """How much there is, hosts by name, what shares alone after them, the aggregates last."""
    snapshot, beside = trees.together()
    roots = [root.uuid for root in _roots(snapshot)]
    drawn = draw_trees(snapshot, roots, beside, screen)
    return "\n".join([heading(trees), "", drawn, *_aggregates(snapshot, screen)])


def heading(trees: Trees) -> str:
    """How many trees and providers are shown, and how many calls that took."""
    snapshot, _ = trees.together()
    roots = sum(1 for _ in snapshot.children(None))
    calls = trees.fleet.calls if trees.fleet is not None else 0
    return (
        f"{counted(roots, 'tree')}, {counted(len(snapshot), 'provider')}, {counted(calls, 'call')}"
    )


def _roots(snapshot: Snapshot) -> list[Provider]:
    roots = in_natural_order(snapshot.providers[uuid] for uuid in snapshot.children(None))
    return sorted(roots, key=lambda root: root.shares)


def _aggregates(snapshot: Snapshot, screen: Screen) -> Iterator[str]:
    """Those with more than one provider."""
    members: dict[str, list[Provider]] = {}
    for provider in snapshot.walk():
        for aggregate in provider.aggregates:
            members.setdefault(aggregate, []).append(provider)
    for aggregate, found in sorted(members.items()):
        if len(found) > 1:
            yield ""
            yield screen.paint(f"aggregate {aggregate}", "bold")
            shares = [one for one in found if one.shares]
            others = [one for one in found if not one.shares]
            yield from (f"   shared: {_names(shares)}" for _ in shares[:1])
            yield from (f"   {'with' if shares else 'of'}: {_names(others)}" for _ in others[:1])


def _names(providers: list[Provider]) -> str:
    names = [plain(one.name) for one in in_natural_order(providers)]
    if len(names) <= NAMED:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)})"
