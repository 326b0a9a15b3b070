"""Resource requests as values: request groups, and the request that has them.

The words are those of Placement's parameters.  Nothing is checked here; see ``checks``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reportclient.query.terms import (
    AnyOf,
    BadQuery,
    read_aggregates,
    read_traits,
    read_uuid,
)

UNSUFFIXED = ""


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """Resources, and what the provider that gives them has to be.

    ``required_traits`` are choices: of each, one trait is enough, so a single trait is a
    choice of one.  ``member_of`` likewise, of aggregates.  ``in_tree`` is the UUID of any
    provider of a tree.
    """

    resources: Mapping[str, int] = field(default_factory=dict)
    required_traits: AnyOf = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    member_of: AnyOf = frozenset()
    forbidden_aggregates: frozenset[str] = frozenset()
    in_tree: str | None = None

    @classmethod
    def from_values(
        cls,
        resources: Mapping[str, int] | None = None,
        required: Iterable[str] = (),
        member_of: Iterable[str] = (),
        in_tree: str | None = None,
        *,
        suffix: str = UNSUFFIXED,
    ) -> "RequestGroup":
        """From values as they stand in a query: ``required=["A,!B", "in:C,D"]``.

        ``suffix`` is for the error: which group it is.

        :raises BadQuery: Placement could not read it.
        """
        parameter = f"required{suffix}"
        traits = read_traits(_several(required), parameter)
        aggregates = read_aggregates(_several(member_of), f"member_of{suffix}")
        tree = None if in_tree is None else read_uuid(in_tree, f"in_tree{suffix}")
        return cls(dict(resources or {}), *traits, *aggregates, tree)

    def __bool__(self) -> bool:
        """Whether it asks for anything."""
        return self != RequestGroup()


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """A request for allocation candidates.

    ``groups`` are those with a suffix: each is met by one provider, where the resources of
    ``unsuffixed`` may come from several of a tree.  ``same_subtree`` has a set of suffixes
    for each time it is given.  ``group_policy`` is ``none`` or ``isolate``.
    """

    unsuffixed: RequestGroup = field(default_factory=RequestGroup)
    groups: Mapping[str, RequestGroup] = field(default_factory=dict)
    group_policy: str | None = None
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtree: frozenset[frozenset[str]] = frozenset()
    limit: int | None = None

    def by_suffix(self) -> dict[str, RequestGroup]:
        """All groups, the unsuffixed one first if it asks for anything; ``1`` before ``10``."""
        groups = {UNSUFFIXED: self.unsuffixed} if self.unsuffixed else {}
        return groups | {suffix: self.groups[suffix] for suffix in sorted(self.groups, key=_rank)}


@dataclass(frozen=True, slots=True)
class ProviderQuery:
    """A query for resource providers.  ``where`` is what each of them has to be and have."""

    name: str | None = None
    uuid: str | None = None
    where: RequestGroup = field(default_factory=RequestGroup)


def group_title(suffix: str) -> str:
    """The name of a group in messages.

    >>> group_title("_ACCEL"), group_title("")
    ('group _ACCEL', 'the unsuffixed group')
    """
    return f"group {suffix}" if suffix else "the unsuffixed group"


def _rank(suffix: str) -> tuple[int, int, str]:
    number = suffix.isascii() and suffix.isdecimal()
    return (0, int(suffix), suffix) if number else (1, 0, suffix)


def _several(values: Iterable[str]) -> list[str]:
    """A text is an iterable too, of letters: nobody means that."""
    if isinstance(values, str):
        raise BadQuery(f"a list of values is needed, not the text {values!r}")
    return list(values)
