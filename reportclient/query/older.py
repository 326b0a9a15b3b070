"""The same question to an older Placement, where it can be put in its words.  Pure.

- Any of several traits: a query for each, whose answers are merged.  Only where the caller
  allows it, as it costs as many calls.
- ``root_required``: looked for in the answer, which has the roots and their traits.  Then
  there is no ``limit`` in the query, and what is too much is cut off here.
- ``group_policy``: where the unsuffixed group and one with a suffix ask for the same class,
  Placement adds the amount of one to a record that other candidates share, and does so again
  for each of them; only with ``group_policy=none`` it takes copies (``docs/candidates.rst``).
- Suffixes that are no numbers become numbers; nobody sees them, as there are no mappings.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product

from reportclient.microversion import parse_microversion
from reportclient.query.answers import AllocationCandidates, AllocationRequest
from reportclient.query.needs import (
    ANY,
    ANY_TRAITS,
    MAPPINGS,
    ROOT,
    SUFFIX,
    Need,
    lowest_microversion,
    missing,
    needs,
    provider_needs,
)
from reportclient.query.request import (
    UNSUFFIXED,
    ProviderQuery,
    RequestGroup,
    ResourceRequest,
)


def with_safe_group_policy(
    request: ResourceRequest, *, mappings: bool
) -> tuple[ResourceRequest, bool]:
    """The request as Placement adds it up rightly, and whether it is left to us to isolate.

    ``mappings``: whether the answer has them; without them nobody could isolate.
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
    """Whether each group with a suffix is met by a provider of its own."""
    met = [them for suffix, them in (candidate.mappings or {}).items() if suffix]
    return len({uuid for them in met for uuid in them}) == len(met)


def miscounted(request: ResourceRequest, answer: AllocationCandidates) -> int:
    """How many candidates do not have in all what was asked for in all."""
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
"""In place of one: alternatives of several groups multiply."""


class UnsupportedQuery(Exception):
    """This Placement is too old for the query; the message names the features and versions."""


@dataclass(frozen=True, slots=True)
class Translation:
    """How a request is put: the queries, and what is left to do with their answers.

    ``needs`` is the microversion below which the queries make no sense.
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
    """For a Placement that speaks ``version``.

    ``several`` allows more than one query, ``mappings`` says that the answer needs them.

    :raises UnsupportedQuery: it can't be had there.
    """
    limit = request.limit
    mapped = parse_microversion(version) >= parse_microversion(MAPPINGS)
    request, isolate = with_safe_group_policy(request, mappings=mapped)
    wanted = needs(request, mappings=mappings or isolate)
    lacking = missing(wanted, version)
    if not lacking:
        return Translation((request,), lowest_microversion(wanted), limit=limit, isolate=isolate)
    _refuse(
        version, [each for each in lacking if each.feature not in _otherwise(several, mappings)]
    )
    judged = ROOT in {need.feature for need in lacking}
    asked = without_root(request) if judged else request
    if SUFFIX in {need.feature for need in lacking}:
        asked = _numbered(asked)
    queries = _split(asked) if ANY in {need.feature for need in lacking} else (asked,)
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
    """The same for ``GET /resource_providers``.

    :raises UnsupportedQuery: that microversion lacks a feature of the query.
    """
    wanted = provider_needs(query)
    if not missing(wanted, version):
        return (query,)
    groups = _of_one_each(query.where) if several else [query.where]
    queries = tuple(replace(query, where=group) for group in islice(groups, MOST_QUERIES + 1))
    _refuse_too_many(len(queries))
    _refuse(version, [need for one in queries for need in missing(provider_needs(one), version)])
    return queries


def filtered(answer: AllocationCandidates, translation: Translation) -> AllocationCandidates:
    """The answer without candidates whose roots or groups are not as they have to be, and cut."""
    kept = [
        request
        for request in answer.allocation_requests
        if any(
            translation.root_required <= traits and not translation.root_forbidden & traits
            for traits in answer.root_traits(request)
        )
        and (isolated(request) or not translation.isolate)
    ]
    return answer.only(kept[: translation.limit])


def without_root(request: ResourceRequest) -> ResourceRequest:
    """Return the request without root traits, and without the limit, which would cut candidates."""
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
    """The group once for each combination of alternatives; those that it forbids are none."""
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
            f"the alternatives (in:) would make more than {MOST_QUERIES} queries of this one; "
            f"a Placement with microversion {ANY_TRAITS} takes them in one"
        )


def _otherwise(several: bool, mappings: bool) -> frozenset[str]:
    """Features that can be done without."""
    return frozenset({ROOT} | ({ANY} if several else set()) | (set() if mappings else {SUFFIX}))


def _refuse(version: str, lacking: list[Need]) -> None:
    if lacking:
        features = "; ".join(dict.fromkeys(map(str, lacking)))
        raise UnsupportedQuery(f"Placement has microversion {version} and lacks: {features}")
