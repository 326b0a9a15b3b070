"""Translate queries for a Placement of 1.29 to 1.38, where it has the same answers.  Pure.

- Alternative traits (``in:``): one query for each, and the answers are merged.  Only if the
  caller allows that many calls.
- ``root_required``: checked in the answer, which has the roots with their traits.  The query
  then has no ``limit``; the answer is cut here.
- ``group_policy``: if the unsuffixed group and one with a suffix request the same class,
  Placement miscounts: it adds one amount to a record that other candidates share, once for
  each of them.  With ``group_policy=none`` it makes copies (``docs/candidates.rst``).
- Suffixes that are not numbers become numbers.  They don't appear in an answer without mappings.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product

from reportclient.candidates.answers import AllocationCandidates, AllocationRequest
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

ANY, ROOT, SUFFIX = "any of several traits (in:)", "root_required", "a suffix that is no number"
"""Features for which ``older`` has a substitute."""


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
    return list(_of_traits_and_aggregates(query.where, ""))


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
    if suffix != UNSUFFIXED and not _is_numbered(suffix):
        yield Need(SUFFIX, STRING_SUFFIXES, where)
    if not group.resources:
        yield Need("a group without resources", SAME_SUBTREE, where)
    if group.in_tree is not None:
        yield Need("in_tree", IN_TREE, where)
    yield from _of_traits_and_aggregates(group, where)


def _of_traits_and_aggregates(group: RequestGroup, where: str) -> Iterator[Need]:
    if any(len(choice) > 1 for choice in group.required_traits):
        yield Need(ANY, ANY_TRAITS, where)
    if group.forbidden_aggregates:
        yield Need("forbidden aggregates", FORBIDDEN_AGGREGATES, where)


def _is_numbered(suffix: str) -> bool:
    return suffix.isascii() and suffix.isdecimal() and not suffix.startswith("0")


def with_safe_group_policy(
    request: ResourceRequest, *, mappings: bool
) -> tuple[ResourceRequest, bool]:
    """Return the request so that Placement counts it right, and whether to isolate groups here.

    ``mappings``: whether the answer has mappings; without them groups can't be isolated here.
    """
    if not request.unsuffixed or not request.groups or request.group_policy == "none":
        return request, False
    none = replace(request, group_policy="none")
    if len(request.groups) == 1:  # one group alone is isolated
        return none, False
    if not mappings or not _share_a_class(request):
        return request, False
    return replace(none, limit=None), True


def isolated(candidate: AllocationRequest) -> bool:
    """Return whether each group with a suffix is met by a provider of its own."""
    met = [uuids for suffix, uuids in (candidate.mappings or {}).items() if suffix]
    return len({uuid for uuids in met for uuid in uuids}) == len(met)


def miscounted(request: ResourceRequest, answer: AllocationCandidates) -> int:
    """Return the number of candidates whose total amounts differ from the requested ones."""
    wanted = _in_all(group.resources for group in request.by_suffix().values())
    return sum(
        _in_all(candidate.allocations.values()) != wanted
        for candidate in answer.allocation_requests
    )


def _in_all(parts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for resources in parts:
        total.update(resources)
    return total


def _share_a_class(request: ResourceRequest) -> bool:
    own = request.unsuffixed.resources.keys()
    return any(own & group.resources.keys() for group in request.groups.values())


MOST_QUERIES = 32
"""Maximum number of queries for one request: alternatives of several groups multiply."""


class UnsupportedQuery(Exception):
    """This Placement is too old for the query; the text names the features and microversions."""


@dataclass(frozen=True, slots=True)
class Translation:
    """The queries for one request, and the conditions to apply to their answers.

    ``needs`` is the lowest microversion that the queries need.  ``root_required``,
    ``root_forbidden``, ``limit`` and ``isolate`` are left to :func:`filtered`.
    """

    queries: tuple[ResourceRequest, ...]
    needs: str
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    limit: int | None = None
    isolate: bool = False


def translate(
    request: ResourceRequest, version: str, *, several: bool = False, mappings: bool = False
) -> Translation:
    """Translate a request for a Placement whose newest microversion is ``version``.

    ``several`` allows more than one query; ``mappings``: the answer has to have mappings.

    :raises UnsupportedQuery: that Placement lacks a feature that has no substitute.
    """
    limit = request.limit
    mapped = parse_microversion(version) >= parse_microversion(MAPPINGS)
    request, isolate = with_safe_group_policy(request, mappings=mapped)
    wanted = needs(request, mappings=mappings or isolate)
    lacking = missing(wanted, version)
    if not lacking:
        return Translation((request,), lowest_microversion(wanted), limit=limit, isolate=isolate)
    _refuse(
        version, [need for need in lacking if need.feature not in _substituted(several, mappings)]
    )
    judged = ROOT in {need.feature for need in lacking}
    query = without_root(request) if judged else request
    if SUFFIX in {need.feature for need in lacking}:
        query = _numbered(query)
    queries = _split(query) if ANY in {need.feature for need in lacking} else (query,)
    return Translation(
        queries,
        lowest_microversion(
            need for query in queries for need in needs(query, mappings=mappings or isolate)
        ),
        request.root_required if judged else frozenset(),
        request.root_forbidden if judged else frozenset(),
        limit,
        isolate,
    )


def translate_provider_query(
    query: ProviderQuery, version: str, *, several: bool = False
) -> tuple[ProviderQuery, ...]:
    """Translate a query of ``GET /resource_providers``; see :func:`translate`.

    :raises UnsupportedQuery: that microversion lacks a feature of the query.
    """
    wanted = provider_needs(query)
    if not missing(wanted, version):
        return (query,)
    groups = _of_one_each(query.where) if several else [query.where]
    queries = tuple(replace(query, where=group) for group in islice(groups, MOST_QUERIES + 1))
    _refuse_too_many(len(queries))
    _refuse(version, [need for each in queries for need in missing(provider_needs(each), version)])
    return queries


def filtered(answer: AllocationCandidates, translation: Translation) -> AllocationCandidates:
    """Return the candidates that meet the translation's conditions, at most ``limit``."""
    suitable = [
        request
        for request in answer.allocation_requests
        if any(
            translation.root_required <= traits and not translation.root_forbidden & traits
            for traits in answer.root_traits(request)
        )
        and (isolated(request) or not translation.isolate)
    ]
    return answer.only(suitable[: translation.limit])


def without_root(request: ResourceRequest) -> ResourceRequest:
    """Return the request without root traits, and without the limit, which applies after them."""
    return replace(request, root_required=frozenset(), root_forbidden=frozenset(), limit=None)


def _numbered(request: ResourceRequest) -> ResourceRequest:
    suffixes = [suffix for suffix in request.by_suffix() if suffix != UNSUFFIXED]
    names = {suffix: str(n) for n, suffix in enumerate(suffixes, 1)}
    groups = {names[suffix]: request.groups[suffix] for suffix in suffixes}
    return replace(request, groups=groups)


def _split(request: ResourceRequest) -> tuple[ResourceRequest, ...]:
    by_suffix = request.by_suffix()
    choices = product(*(list(_of_one_each(group)) for group in by_suffix.values()))
    requests = []
    for chosen in islice(choices, MOST_QUERIES + 1):
        groups = dict(zip(by_suffix, chosen, strict=True))
        unsuffixed = groups.pop(UNSUFFIXED, RequestGroup())
        requests.append(replace(request, unsuffixed=unsuffixed, groups=groups))
    _refuse_too_many(len(requests))
    return tuple(requests)


def _of_one_each(group: RequestGroup) -> list[RequestGroup]:
    """Return the group once for each combination of its alternatives, without forbidden ones."""
    choices = [
        sorted(choice - group.forbidden_traits)
        for choice in sorted(group.required_traits, key=sorted)
    ]
    chosen = islice(product(*choices), MOST_QUERIES + 1)
    sets = (frozenset(frozenset([name]) for name in names) for names in chosen)
    return [replace(group, required_traits=traits) for traits in dict.fromkeys(sets)]


def _refuse_too_many(count: int) -> None:
    if count > MOST_QUERIES:
        raise UnsupportedQuery(
            f"the alternatives (in:) would take more than {MOST_QUERIES} queries; "
            f"a Placement with microversion {ANY_TRAITS} takes them in one"
        )


def _substituted(several: bool, mappings: bool) -> frozenset[str]:
    """Return the features that have a substitute."""
    return frozenset({ROOT} | ({ANY} if several else set()) | (set() if mappings else {SUFFIX}))


def _refuse(version: str, lacking: list[Need]) -> None:
    if lacking:
        features = "; ".join(dict.fromkeys(map(str, lacking)))
        raise UnsupportedQuery(f"Placement has microversion {version} and lacks: {features}")
