"""Which driver speaks for what in one tree.  Pure.

A claim is one thing that a driver said: that a provider is there, or that a provider
has a resource class, a trait, an aggregate.  A provider and a class of it belong to one
driver; a trait or an aggregate to each that said it, and it stays while one of them does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from reportclient.model import Provider
from reportclient.snapshot import Snapshot

Kind = Literal["provider", "class", "trait", "aggregate"]
KINDS: frozenset[str] = frozenset({"provider", "class", "trait", "aggregate"})


class Claim(NamedTuple):
    """``name`` is empty for the provider itself."""

    kind: Kind
    uuid: str
    name: str = ""

    @property
    def exclusive(self) -> bool:
        """Whether only one driver can have it."""
        return self.kind in ("provider", "class")


Claims = frozenset[Claim]


@dataclass(frozen=True, slots=True)
class Parts:
    """``of`` has each driver's claims by its name.

    For a root that belongs to another service: ``added`` are the traits that this agent
    put there, and ``given_up`` those that somebody took away again since.
    """

    of: Mapping[str, Claims] = field(default_factory=dict)
    added: frozenset[str] = frozenset()
    given_up: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.of or self.added or self.given_up)

    def holders(self, claim: Claim, order: Iterable[str]) -> list[str]:
        """The drivers of ``order`` that have it, in that order."""
        return [name for name in order if claim in self.of.get(name, ())]

    def is_anybodys(self, claim: Claim) -> bool:
        """Whether any driver has it, be it configured still or not."""
        return any(claim in claims for claims in self.of.values())


def is_there(claim: Claim, snapshot: Snapshot) -> bool:
    """Whether a snapshot has what was claimed."""
    provider = snapshot.get(claim.uuid)
    return provider is not None and _has(provider, claim)


def _has(provider: Provider, claim: Claim) -> bool:
    match claim.kind:
        case "class":
            return claim.name in provider.inventory
        case "trait":
            return claim.name in provider.traits
        case "aggregate":
            return claim.name in provider.aggregates
        case _:
            return True


def as_json(parts: Parts) -> dict[str, Any]:
    """In lists, sorted, so that equal parts give equal text."""
    return {
        "drivers": {name: sorted(map(list, claims)) for name, claims in parts.of.items()},
        "added": sorted(parts.added),
        "given_up": sorted(parts.given_up),
    }


def from_json(found: Mapping[str, Any]) -> Parts:
    """:raises ValueError: (or LookupError, TypeError, AttributeError) it is something else."""
    of = {name: frozenset(map(_claim, claims)) for name, claims in found["drivers"].items()}
    return Parts(of, frozenset(found["added"]), frozenset(found["given_up"]))


def _claim(found: Any) -> Claim:
    kind, uuid, name = found
    if kind not in KINDS or not isinstance(uuid, str) or not isinstance(name, str):
        raise ValueError(f"{found!r} is no claim")
    return Claim(kind, uuid, name)
