"""Traits and use of a whole tree in one call, where Placement can be brought to tell them.

There is no bulk read of either, but an answer to a candidate query has the traits, and the
use of every class, of all providers of the trees that its candidates are in.  So one unit
of what nearly every host has left is asked for, from this tree.  A host that is full has no
candidate, and is read provider by provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reportclient.errors import PlacementError
from reportclient.http import API

SUMMARY_FROM = 3
"""Providers of a tree from which on this may cost fewer calls than reading each."""
TRIED = ("VCPU", "PCPU")
"""One unit of the first, or else of the next; Placement knows these classes always."""
NEEDS = "1.31"
"""``in_tree``; that all providers of a tree are summarised is older."""


@dataclass(frozen=True, slots=True)
class Summed:
    """What such an answer tells of one provider; ``used`` by resource class."""

    traits: frozenset[str]
    used: Mapping[str, int]


Summary = Mapping[str, Summed]


def summary_of(root: str, api: API) -> Summary:
    """By UUID, for all providers of the tree of ``root``; empty if Placement does not tell."""
    for resource_class in TRIED:
        path = f"/allocation_candidates?resources={resource_class}:1&in_tree={root}&limit=1"
        try:
            found = api.request("GET", path, needs=NEEDS)["provider_summaries"]
            if found:
                return {uuid: _summed(one) for uuid, one in found.items()}
        except (PlacementError, KeyError, TypeError):
            return {}  # an older one, or one that does not let us: there is another way
    return {}


def _summed(one: Mapping[str, Any]) -> Summed:
    used = {name: int(amounts["used"]) for name, amounts in one["resources"].items()}
    return Summed(frozenset(one["traits"]), used)
