"""Claims that a driver, or one of its sources, makes while it edits a tree.  Pure.

A driver that sets what Placement has already changes nothing; only here is it known that it did.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

Names = frozenset[str]


@dataclass(slots=True)
class SourceClaims:
    """Claims of one source, by UUID of the provider.

    ``classes`` are all resource classes of a provider by this source; ``traits`` and ``aggregates``
    are those that it named, beside which others may stay, but for the traits of ``renewed``
    providers. ``absent_traits`` and ``absent_aggregates`` were removed by name.
    """

    placed: dict[str, None] = field(default_factory=dict)
    classes: dict[str, Names] = field(default_factory=dict)
    traits: dict[str, Names] = field(default_factory=dict)
    aggregates: dict[str, Names] = field(default_factory=dict)
    renewed: dict[str, None] = field(default_factory=dict)
    adopted: dict[str, None] = field(default_factory=dict)
    absent_traits: dict[str, Names] = field(default_factory=dict)
    absent_aggregates: dict[str, Names] = field(default_factory=dict)
    silent: bool = False
    """It can't say all: what it said before stays."""

    def copy(self) -> "SourceClaims":
        """Return a copy that later edits leave alone."""
        return SourceClaims(
            **{kind: dict(said) for kind, said in self._kinds()}, silent=self.silent
        )

    def claimed_uuids(self) -> dict[str, None]:
        """UUIDs of the providers of which anything is said."""
        return dict.fromkeys(uuid for _, said in self._kinds() for uuid in said)

    def changed_since(self, old: "SourceClaims") -> dict[str, None]:
        """UUIDs of the providers of which something else is said."""
        pairs = ((said, getattr(old, kind)) for kind, said in self._kinds())
        return dict.fromkeys(uuid for now, then in pairs for uuid in _differing(now, then))

    def _kinds(self) -> Iterator[tuple[str, Any]]:
        return ((one.name, getattr(self, one.name)) for one in fields(self)[:-1])


class ClaimsBySource:
    """Claims of all sources on one tree."""

    def __init__(self) -> None:
        self.claims = {"": SourceClaims()}
        """What was said, by source."""
        self._source = ""

    @contextmanager
    def source(self, name: str) -> Iterator[None]:
        """Record edits inside as this source's claims; see :meth:`silent`.

        Inventory that other sources gave the same provider in this edit stays.  A source that
        fails takes only what it said before along, where the agent keeps who said what.
        """
        before, self._source = self._source, name
        claims = self.claims.setdefault(name, SourceClaims())
        try:
            yield
        except BaseException:
            claims.silent = True
            raise
        finally:
            self._source = before

    def silent(self, name: str) -> None:
        """This source of the driver can't say anything now: what it said before stays."""
        self.claims.setdefault(name, SourceClaims()).silent = True

    @property
    def _own(self) -> SourceClaims:
        return self.claims[self._source]


def _differing(now: Mapping[str, object], then: Mapping[str, object]) -> list[str]:
    if now == then:
        return []
    changed = [uuid for uuid, said in now.items() if uuid not in then or then[uuid] != said]
    return changed + [uuid for uuid in then if uuid not in now]
