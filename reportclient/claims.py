"""Claims that a driver, or one of its sources, makes by editing a tree.  Pure.

An edit that sets what Placement already has changes nothing, but is a claim too: it records which
driver or source asserts the value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

Names = frozenset[str]


@dataclass(slots=True)
class SourceClaims:
    """Claims of one source, by provider UUID.

    ``placed``: providers that it created, renamed or moved.  ``adopted``: providers that it took
    over.  ``classes``: its resource classes, complete.  ``traits``, ``aggregates``: those that it
    added now; its earlier claims of traits and aggregates stay, except on the providers in
    ``all_traits`` and ``all_aggregates``, on which those added now are complete.
    ``absent_traits``, ``absent_aggregates``: those that it removed by name.  ``missing``: providers
    that it removed since it does not find them now.
    """

    placed: dict[str, None] = field(default_factory=dict)
    classes: dict[str, Names] = field(default_factory=dict)
    traits: dict[str, Names] = field(default_factory=dict)
    aggregates: dict[str, Names] = field(default_factory=dict)
    all_traits: dict[str, None] = field(default_factory=dict)
    all_aggregates: dict[str, None] = field(default_factory=dict)
    adopted: dict[str, None] = field(default_factory=dict)
    absent_traits: dict[str, Names] = field(default_factory=dict)
    absent_aggregates: dict[str, Names] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    silent: bool = False
    """Whether the source could not answer, so that its earlier claims stay."""

    def copy(self) -> "SourceClaims":
        """Return an independent copy."""
        return SourceClaims(
            **{kind: dict(claimed) for kind, claimed in self._kinds()},
            silent=self.silent,
        )

    def claimed_uuids(self) -> dict[str, None]:
        """Return the UUIDs of the providers with any claim, as an ordered set."""
        return dict.fromkeys(uuid for _, claimed in self._kinds() for uuid in claimed)

    def changed_since(self, old: "SourceClaims") -> dict[str, None]:
        """Return the UUIDs of the providers whose claims differ from ``old``, as an ordered set."""
        pairs = ((claimed, getattr(old, kind)) for kind, claimed in self._kinds())
        return dict.fromkeys(uuid for now, then in pairs for uuid in _differing(now, then))

    def _kinds(self) -> Iterator[tuple[str, Any]]:
        return ((each.name, getattr(self, each.name)) for each in fields(self)[:-1])


def any_sets(claims: Mapping[str, SourceClaims], uuid: str, resource_class: str) -> bool:
    """Return whether a source has set this class of a provider (UUID), be it as it was."""
    return any(resource_class in each.classes.get(uuid, ()) for each in claims.values())


def _differing(now: Mapping[str, object], then: Mapping[str, object]) -> list[str]:
    if now == then:
        return []
    changed = [uuid for uuid, new in now.items() if uuid not in then or then[uuid] != new]
    return changed + [uuid for uuid in then if uuid not in now]


def note(claimed: dict[str, Names], uuid: str, before: Names, now: Names) -> None:
    """Record added names as claims, and drop the claims of removed ones."""
    names = (claimed.get(uuid, frozenset()) & now) | (now - before)
    if names or uuid in claimed:
        claimed[uuid] = names


def deny(absent: dict[str, Names], uuid: str, names: Names) -> None:
    """Add names to ``absent``, since they were removed by name."""
    if names:
        absent[uuid] = absent.get(uuid, frozenset()) | names


def allow(absent: dict[str, Names], uuid: str, names: Names) -> None:
    """Remove names from ``absent``, since they are asserted now."""
    left = absent.pop(uuid, frozenset()) - names
    if left:
        absent[uuid] = left
