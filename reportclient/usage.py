"""Usage of providers: allocated amounts, consumers, generations, capacity.  Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NEARLY_FULL = 0.9
"""The part of the capacity above which usage is shown as a warning."""
Usages = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a snapshot's providers, by UUID.

    ``usages``: allocated amounts by resource class, ``None`` if they were not read;
    ``consumers``: the number of consumers; ``marked``: the UUID of the provider to highlight.
    """

    usages: Usages | None = None
    consumers: Mapping[str, int] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    marked: str | None = None


def amounts_of(allocations: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return the allocated amounts of all consumers, by resource class."""
    amounts: Counter[str] = Counter()
    for allocation in allocations.values():
        amounts.update(allocation["resources"])
    return dict(amounts)
