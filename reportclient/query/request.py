"""Resource requests and provider queries as values.

The fields have the names of Placement's parameters.  ``query.checks`` checks them.
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
    """A request group: amounts by resource class, and conditions on the provider.

    ``required_traits`` are sets of alternatives: the provider needs at least one trait of each
    set.  ``member_of`` are such sets of aggregate UUIDs.  ``in_tree`` is the UUID of any
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
        """Return a group of values as in a query string: ``required=["A,!B", "in:C,D"]``.

        ``suffix`` is the group's, for the error.

        :raises BadQuery: a value has the wrong format.
        """
        parameter = f"required{suffix}"
        traits = read_traits(_as_list(required), parameter)
        aggregates = read_aggregates(_as_list(member_of), f"member_of{suffix}")
        tree = None if in_tree is None else read_uuid(in_tree, f"in_tree{suffix}")
        return cls(dict(resources or {}), *traits, *aggregates, tree)

    def __bool__(self) -> bool:
        """Return whether the group has any resource or condition."""
        return self != RequestGroup()


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """A request for allocation candidates.

    ``groups`` has the groups with a suffix, by suffix: one provider meets each.  Resources of
    the group ``unsuffixed`` may come from several providers of a tree.  ``same_subtree`` is a
    set of sets of suffixes.  ``group_policy`` is ``none`` or ``isolate``.
    """

    unsuffixed: RequestGroup = field(default_factory=RequestGroup)
    groups: Mapping[str, RequestGroup] = field(default_factory=dict)
    group_policy: str | None = None
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtree: frozenset[frozenset[str]] = frozenset()
    limit: int | None = None

    def by_suffix(self) -> dict[str, RequestGroup]:
        """Return all groups by suffix; the unsuffixed one is first, or left out if empty."""
        groups = {UNSUFFIXED: self.unsuffixed} if self.unsuffixed else {}
        return groups | {suffix: self.groups[suffix] for suffix in sorted(self.groups, key=_rank)}


@dataclass(frozen=True, slots=True)
class ProviderQuery:
    """A query for resource providers; ``where`` has the conditions on each provider."""

    name: str | None = None
    uuid: str | None = None
    where: RequestGroup = field(default_factory=RequestGroup)


def group_title(suffix: str) -> str:
    """Return the name of a group for messages.

    >>> group_title("_ACCEL"), group_title("")
    ('group _ACCEL', 'the unsuffixed group')
    """
    return f"group {suffix}" if suffix else "the unsuffixed group"


def _rank(suffix: str) -> tuple[int, int, str]:
    number = suffix.isascii() and suffix.isdecimal()
    return (0, int(suffix), suffix) if number else (1, 0, suffix)


def _as_list(values: Iterable[str]) -> list[str]:
    """Return the values as a list; a single text is an error, not a list of its letters."""
    if isinstance(values, str):
        raise BadQuery(f"a list of values is needed, not the text {values!r}")
    return list(values)
