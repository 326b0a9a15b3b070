"""Draw provider trees in the DOT language of Graphviz.

A box is a provider with its inventory and traits; an edge leads to a child, a dashed one from a
sharing provider to a member of its aggregates.
"""

from collections.abc import Iterator

from agent.ownership.policy import DISABLED
from agent.reporting.trait_groups import folded
from compute_registry.observed_placement import Usage
from computectl.shared.screen import in_lines
from reportclient.model import Provider
from reportclient.plain_text import plain
from reportclient.snapshot import Snapshot

TRAITS_WIDTH = 60
"""Letters in a line of traits."""


def draw_dot(snapshot: Snapshot, usage: Usage, *, terse: bool = False) -> Iterator[str]:
    """Yield the lines of a digraph of all trees; ``terse``: of traits only the one if disabled."""
    yield "digraph providers {"
    yield "  node [shape=box, fontname=monospace, fontsize=10]"
    for provider in snapshot.walk():
        lines = [*_inventory(provider, usage), *_traits(provider, terse=terse)]
        label = "".join(_escaped(line) + r"\l" for line in lines)
        yield f'  "{provider.uuid}" [label="{_escaped(provider.name)}\\n{label}"]'
        if provider.parent_uuid is not None:
            yield f'  "{provider.parent_uuid}" -> "{provider.uuid}"'
    for sharing, member in _shared(snapshot):
        yield f'  "{sharing}" -> "{member}" [style=dashed, dir=none]'
    yield "}"


def _inventory(provider: Provider, usage: Usage) -> Iterator[str]:
    used = (usage.usages or {}).get(provider.uuid, {})
    for name, record in sorted(provider.inventory.items()):
        capacity = "" if record.capacity == record.total else f", capacity {record.capacity}"
        in_use = f", used {used[name]}" if used.get(name) else ""
        yield f"{name} {record.total}{capacity}{in_use}"


def _traits(provider: Provider, *, terse: bool) -> Iterator[str]:
    shown = provider.traits & {DISABLED} if terse else provider.traits
    return (" ".join(words) for words in in_lines(folded(shown), TRAITS_WIDTH))


def _shared(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield each sharing provider with each provider that it is associated with."""
    sharing = [provider for provider in snapshot.walk() if provider.shares]
    for provider in snapshot.walk():
        for other in sharing:
            if not provider.shares and provider.aggregates & other.aggregates:
                yield other.uuid, provider.uuid


def _escaped(text: str) -> str:
    return plain(text).replace("\\", r"\\").replace('"', r"\"")
