"""The microversion that each feature of a query needs.  Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reportclient.microversion import parse_microversion
from reportclient.query.request import (
    UNSUFFIXED,
    ProviderQuery,
    RequestGroup,
    ResourceRequest,
    group_title,
)

PLAIN = "1.29"
"""The lowest microversion whose answers have parents and roots of all providers of a tree."""
FORBIDDEN_TRAITS = "1.22"
REPEATED_MEMBER_OF = "1.24"
GRANULAR = "1.25"
IN_TREE = "1.31"
FORBIDDEN_AGGREGATES = "1.32"
STRING_SUFFIXES = "1.33"
MAPPINGS = "1.34"
ROOT_REQUIRED = "1.35"
SAME_SUBTREE = "1.36"
ANY_TRAITS = "1.39"

ANY, ROOT, SUFFIX = "any of several traits (in:)", "root_required", "a suffix that is no number"
"""Features for which ``query.older`` has a substitute."""

PROVIDERS_IN_TREE = "1.14"
PROVIDERS_REQUIRED = "1.18"


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
        wanted.append(Need(ROOT, ROOT_REQUIRED))
    if request.same_subtree:
        wanted.append(Need("same_subtree", SAME_SUBTREE))
    return wanted


def provider_needs(query: ProviderQuery) -> list[Need]:
    """Return the features of a provider query that an old Placement may lack."""
    group = query.where
    wanted = list(_of_traits_and_aggregates(group, ""))
    if group.in_tree is not None:
        wanted.append(Need("in_tree", PROVIDERS_IN_TREE))
    if group.required_traits or group.forbidden_traits:
        wanted.append(Need("required", PROVIDERS_REQUIRED))
    return wanted


def lowest_microversion(wanted: Iterable[Need]) -> str:
    """Return the lowest microversion that has all these features."""
    return max((PLAIN, *(need.version for need in wanted)), key=parse_microversion)


def missing(wanted: Iterable[Need], version: str) -> list[Need]:
    """Return the features that this microversion lacks."""
    return [
        need for need in wanted if parse_microversion(need.version) > parse_microversion(version)
    ]


def _of_group(group: RequestGroup, suffix: str) -> Iterator[Need]:
    where = group_title(suffix)
    if suffix != UNSUFFIXED:
        yield Need("groups", GRANULAR, where)
        if not _is_numbered(suffix):
            yield Need(SUFFIX, STRING_SUFFIXES, where)
    if not group.resources:
        yield Need("a group without resources", SAME_SUBTREE, where)
    if group.in_tree is not None:
        yield Need("in_tree", IN_TREE, where)
    yield from _of_traits_and_aggregates(group, where)


def _of_traits_and_aggregates(group: RequestGroup, where: str) -> Iterator[Need]:
    if group.forbidden_traits:
        yield Need("forbidden traits", FORBIDDEN_TRAITS, where)
    if any(len(choice) > 1 for choice in group.required_traits):
        yield Need(ANY, ANY_TRAITS, where)
    if len(group.member_of) + bool(group.forbidden_aggregates) > 1:
        yield Need("member_of more than once", REPEATED_MEMBER_OF, where)
    if group.forbidden_aggregates:
        yield Need("forbidden aggregates", FORBIDDEN_AGGREGATES, where)


def _is_numbered(suffix: str) -> bool:
    return suffix.isascii() and suffix.isdecimal() and not suffix.startswith("0")
