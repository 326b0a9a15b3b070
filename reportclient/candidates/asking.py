"""Query Placement for allocation candidates and providers, without those of disabled hosts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from reportclient.candidates.answers import (
    AllocationCandidates,
    ListedProvider,
    parse_candidates,
    parse_providers,
)
from reportclient.candidates.checks import check_query, checked
from reportclient.candidates.group_policy import isolated, miscounted, with_safe_group_policy
from reportclient.candidates.needs import (
    Need,
    lacking,
    lowest_microversion,
    needs,
    provider_needs,
)
from reportclient.candidates.request import ProviderQuery, ResourceRequest
from reportclient.candidates.text import parameters, provider_parameters, query_string
from reportclient.errors import TooOld, Unreachable
from reportclient.http import API
from reportclient.reader import providers_with_trait
from reportclient.request_filter import DISABLED, forbid_disabled

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Options for sending a query.

    ``include_disabled``: include providers of disabled hosts; for operators, not for schedulers.
    ``mappings``: the answer has to say which provider meets which request group.
    """

    include_disabled: bool = False
    mappings: bool = False


@dataclass(frozen=True, slots=True)
class ListedProviders:
    """The providers of an answer, and the number of those left out because of disabled hosts."""

    providers: tuple[ListedProvider, ...]
    left_out: int = 0


def allocation_candidates(
    request: ResourceRequest, api: API, options: QueryOptions | None = None
) -> AllocationCandidates:
    """Return the candidates of ``GET /allocation_candidates``, without those of disabled hosts.

    Sends one call.

    :raises reportclient.candidates.request.BadQuery: the request is invalid; nothing is sent.
    :raises reportclient.request_filter.CannotForbid: the request requires disabled hosts.
    :raises TooOld: this Placement lacks features of the request; the message names them.
    :raises reportclient.errors.PlacementError: the request failed.
    """
    options = options or QueryOptions()
    checked(request)
    wanted = request if options.include_disabled else forbid_disabled(request)
    query, isolate = with_safe_group_policy(wanted)
    path = f"/allocation_candidates?{query_string(parameters(query))}"
    needed = needs(query, mappings=options.mappings or isolate)
    answer = _get(path, parse_candidates, needed, api)
    if isolate:
        alone = [candidate for candidate in answer.allocation_requests if isolated(candidate)]
        answer = answer.only(alone[: wanted.limit])
    return replace(answer, miscounted=miscounted(wanted, answer))


def resource_providers(
    query: ProviderQuery, api: API, options: QueryOptions | None = None
) -> ListedProviders:
    """Return the providers of ``GET /resource_providers``, without those of disabled hosts.

    Sends one call, and if it finds providers one more, for the disabled roots.

    :raises reportclient.errors.PlacementError: the request failed.
    :raises reportclient.candidates.request.BadQuery: the query is invalid; nothing is sent.
    :raises TooOld: this Placement lacks features of the query; the message names them.
    """
    options = options or QueryOptions()
    check_query(query)
    path = f"/resource_providers?{query_string(provider_parameters(query))}"
    listed = _get(path, parse_providers, provider_needs(query), api)
    if options.include_disabled or not listed:
        return ListedProviders(tuple(listed))
    disabled = disabled_roots(api)
    enabled = tuple(each for each in listed if each.root_uuid not in disabled)
    return ListedProviders(enabled, len(listed) - len(enabled))


def disabled_roots(api: API) -> frozenset[str]:
    """Return the UUIDs of the roots with COMPUTE_STATUS_DISABLED; one call."""
    disabled = providers_with_trait(DISABLED, api)
    return frozenset(item["uuid"] for item in disabled if item["parent_provider_uuid"] is None)


def _get(path: str, parse: Callable[[Any], Answer], needed: Iterable[Need], api: API) -> Answer:
    try:
        body = api.request("GET", path, needs=lowest_microversion(needed))
    except TooOld as err:
        features = lacking(needed, err.newest) if err.newest else ""
        if not features:
            raise
        text = f"Placement has microversion {err.newest} and lacks: {features}"
        raise TooOld(text, newest=err.newest) from None
    try:
        return parse(body)
    except (KeyError, TypeError, AttributeError) as err:
        raise Unreachable(f"GET {path}: the answer is not in Placement's format") from err
