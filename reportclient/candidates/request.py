"""Resource requests as values, and the values of their parameters.  Pure.

The fields have the names of Placement's parameters.

Values of traits: ``A,!B`` or ``in:A,B``.  Aggregates: ``UUID``, ``in:UUID,UUID``, ``!UUID`` or
``!in:UUID,UUID``.  Resources: ``CLASS:AMOUNT,CLASS:AMOUNT``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from reportclient.model import canonical_uuid

UNSUFFIXED = ""
ANY_OF = "in:"
FORBIDDEN = "!"

AnyOf: TypeAlias = frozenset[frozenset[str]]
"""A set of sets of alternatives: at least one of each set is needed."""


class BadQuery(ValueError):
    """The query is invalid; the text names the group and the parameter."""


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
        try:
            name = f"in_tree{suffix}={in_tree}"
            tree = None if in_tree is None else canonical_uuid(in_tree.strip(), name)
        except ValueError as err:
            raise BadQuery(str(err)) from None
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


def _rank(suffix: str) -> tuple[int, int, str]:
    number = suffix.isascii() and suffix.isdecimal()
    return (0, int(suffix), suffix) if number else (1, 0, suffix)


def _as_list(values: Iterable[str]) -> list[str]:
    """Return the values as a list; a single text is an error, not a list of its letters."""
    if isinstance(values, str):
        raise BadQuery(f"a list of values is needed, not the text {values!r}")
    return list(values)


def read_traits(values: Iterable[str], parameter: str) -> tuple[AnyOf, frozenset[str]]:
    """Return the required and the forbidden traits of all values of ``parameter``.

    :raises BadQuery: alternatives and a forbidden trait in one value, or an empty name.
    """
    required: set[frozenset[str]] = set()
    forbidden: set[str] = set()
    for value in values:
        terms = [term.strip() for term in value.removeprefix(ANY_OF).split(",")]
        if not all(terms) or FORBIDDEN in terms:
            raise BadQuery(f"{parameter}={value}: a name is missing")
        if value.startswith(ANY_OF):
            for mixed in (term for term in terms if term.startswith(FORBIDDEN)):
                raise BadQuery(
                    f"{parameter}={value}: alternatives can't be mixed with a forbidden trait; "
                    f"give {parameter} once more, with {mixed} alone"
                )
            required.add(frozenset(terms))
            continue
        forbidden |= {term[1:] for term in terms if term.startswith(FORBIDDEN)}
        required |= {frozenset([term]) for term in terms if not term.startswith(FORBIDDEN)}
    return frozenset(required), frozenset(forbidden)


def traits_values(required: AnyOf, forbidden: Iterable[str]) -> list[str]:
    """Return the values of required and forbidden traits: one for all single traits, one for each
    set of alternatives.
    """
    single = sorted(name for names in required if len(names) == 1 for name in names)
    plain = [*single, *(FORBIDDEN + name for name in sorted(forbidden))]
    choices = sorted(ANY_OF + ",".join(sorted(names)) for names in required if len(names) != 1)
    return [",".join(plain), *choices] if plain else choices


def read_aggregates(values: Iterable[str], parameter: str) -> tuple[AnyOf, frozenset[str]]:
    """Return the required and the forbidden aggregates of all values of ``parameter``.

    :raises BadQuery: a value is not a UUID, or several have no ``in:``.
    """
    required: set[frozenset[str]] = set()
    forbidden: set[str] = set()
    for value in values:
        positive = value.removeprefix(FORBIDDEN)
        uuids = [text.strip() for text in positive.removeprefix(ANY_OF).split(",")]
        if len(uuids) > 1 and not positive.startswith(ANY_OF):
            sign = FORBIDDEN if value.startswith(FORBIDDEN) else ""
            raise BadQuery(
                f"{parameter}={value}: several aggregates need {ANY_OF} before them; "
                f"is {sign}{ANY_OF}{','.join(uuids)} meant (one of them)?"
            )
        try:
            aggregates = frozenset(canonical_uuid(uuid, f"{parameter}={value}") for uuid in uuids)
        except ValueError as err:
            raise BadQuery(str(err)) from None
        if value.startswith(FORBIDDEN):
            forbidden |= aggregates
        else:
            required.add(aggregates)
    return frozenset(required), frozenset(forbidden)


def aggregates_values(required: AnyOf, forbidden: Iterable[str]) -> list[str]:
    """Return the values of aggregates: one for each set of alternatives, one for all forbidden."""
    values = sorted(_listed(uuids) for uuids in required)
    return [*values, *([FORBIDDEN + _listed(forbidden)] if forbidden else [])]


def _listed(uuids: Iterable[str]) -> str:
    ordered = sorted(uuids)
    return ordered[0] if len(ordered) == 1 else ANY_OF + ",".join(ordered)


def read_resources(value: str, parameter: str) -> dict[str, int]:
    """Parse ``CLASS:AMOUNT,CLASS:AMOUNT`` into amounts by resource class.

    :raises BadQuery: the format is wrong, or a class is given twice (Placement would silently
        take the last).
    """
    amounts: dict[str, int] = {}
    for term in value.split(","):
        name, separator, amount = (part.strip() for part in term.partition(":"))
        if not name or not separator:
            raise BadQuery(f"{parameter}={value}: {term!r} is not CLASS:AMOUNT, such as VCPU:2")
        if name in amounts:
            raise BadQuery(f"{parameter}={value}: {name} is given twice")
        amounts[name] = _amount(amount, name, f"{parameter}={value}")
    return amounts


def _amount(text: str, name: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadQuery(f"{where}: the amount of {name} is {text!r}, not a whole number") from None


def resources_value(resources: Mapping[str, int]) -> str:
    """Return amounts as ``CLASS:AMOUNT,CLASS:AMOUNT``, sorted by class."""
    return ",".join(f"{name}:{amount}" for name, amount in sorted(resources.items()))
