"""Features of queries, and the microversion that introduced each.  Pure.

An older Placement is not asked in another way: the error names what it lacks.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reportclient.candidates.request import (
    UNSUFFIXED,
    ProviderQuery,
    RequestGroup,
    ResourceRequest,
    group_title,
)
from reportclient.microversion import parse_microversion

PLAIN = "1.29"
"""The lowest microversion whose answers have parents and roots of all providers of a tree; an older
Placement is refused."""
IN_TREE = "1.31"
FORBIDDEN_AGGREGATES = "1.32"
STRING_SUFFIXES = "1.33"
MAPPINGS = "1.34"
ROOT_REQUIRED = "1.35"
SAME_SUBTREE = "1.36"
ANY_TRAITS = "1.39"


@dataclass(frozen=True, slots=True)
class Need:
    """A feature, the microversion that introduced it, and the group that uses it."""

    feature: str
    version: str
    where: str = ""

    def __str__(self) -> str:
        before = f"{self.where}: " if self.where else ""
        return f"{before}{self.feature} (microversion {self.version})"


def needs(request: ResourceRequest, *, mappings: bool = False) -> list[Need]:
    """Return the features of a request that an old Placement may lack.

    ``mappings``: whether the answer has to have mappings.
    """
    wanted = [
        need for suffix, group in request.by_suffix().items() for need in _of_group(group, suffix)
    ]
    if mappings:
        wanted.append(Need("mappings", MAPPINGS))
    if request.root_required or request.root_forbidden:
        wanted.append(Need("root_required", ROOT_REQUIRED))
    if request.same_subtree:
        wanted.append(Need("same_subtree", SAME_SUBTREE))
    return wanted


def provider_needs(query: ProviderQuery) -> list[Need]:
    """Return the features of a provider query that an old Placement may lack."""
    return list(_of_traits_and_aggregates(query.where, ""))


def lowest_microversion(wanted: Iterable[Need]) -> str:
    """Return the lowest microversion that has all these features."""
    return max((PLAIN, *(need.version for need in wanted)), key=parse_microversion)


def lacking(wanted: Iterable[Need], version: str) -> str:
    """Return the features that this microversion lacks, as text."""
    newest = parse_microversion(version)
    return "; ".join(
        dict.fromkeys(str(need) for need in wanted if parse_microversion(need.version) > newest)
    )


def _of_group(group: RequestGroup, suffix: str) -> Iterator[Need]:
    where = group_title(suffix)
    if suffix != UNSUFFIXED and not _is_numbered(suffix):
        yield Need("a suffix that is no number", STRING_SUFFIXES, where)
    if not group.resources:
        yield Need("a group without resources", SAME_SUBTREE, where)
    if group.in_tree is not None:
        yield Need("in_tree", IN_TREE, where)
    yield from _of_traits_and_aggregates(group, where)


def _of_traits_and_aggregates(group: RequestGroup, where: str) -> Iterator[Need]:
    if any(len(choice) > 1 for choice in group.required_traits):
        yield Need("any of several traits (in:)", ANY_TRAITS, where)
    if group.forbidden_aggregates:
        yield Need("forbidden aggregates", FORBIDDEN_AGGREGATES, where)


def _is_numbered(suffix: str) -> bool:
    return suffix.isascii() and suffix.isdecimal() and not suffix.startswith("0")
