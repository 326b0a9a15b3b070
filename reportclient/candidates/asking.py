"""Query Placement for allocation candidates and providers, without those of disabled hosts.

A query is sent with the newest microversion first.  For an older Placement, from 1.29 on, it is
translated (``older``); where that is not possible, the error names the features that are missing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from reportclient.candidates import older
from reportclient.candidates.answers import (
    AllocationCandidates,
    ListedProvider,
    merge_candidates,
    parse_candidates,
    parse_providers,
)
from reportclient.candidates.checks import checked, checked_query
from reportclient.candidates.older import (
    UnsupportedQuery,
    lowest_microversion,
    miscounted,
    provider_needs,
)
from reportclient.candidates.request import ProviderQuery, RequestGroup, ResourceRequest
from reportclient.candidates.text import parameters, provider_parameters, query_string
from reportclient.errors import TooOld, Unreachable
from reportclient.http import API, NEWEST
from reportclient.request_filter import DISABLED, forbid_disabled

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How a query is sent.

    ``include_disabled``: include providers of disabled hosts; for operators, not for schedulers.
    ``several``: allow one query for each alternative (``in:``) if Placement is too old for them.
    ``mappings``: the answer has to say which provider meets which request group.
    """

    include_disabled: bool = False
    several: bool = False
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

    Sends one call, or one for each combination of alternatives to an old Placement.

    :raises reportclient.candidates.request.BadQuery: the request is invalid; nothing is sent.
    :raises reportclient.request_filter.CannotForbid: the request requires disabled hosts.
    :raises TooOld: this Placement lacks features of the request; the message names them.
    :raises reportclient.errors.PlacementError: the request failed.
    """
    options = options or QueryOptions()
    checked(request)
    wanted = request if options.include_disabled else forbid_disabled(request)

    def send(version: str) -> AllocationCandidates:
        translation = older.translate(
            wanted, version, several=options.several, mappings=options.mappings
        )
        paths = [
            f"/allocation_candidates?{query_string(parameters(each))}"
            for each in translation.queries
        ]
        answer = older.filtered(
            merge_candidates(_each(paths, parse_candidates, translation.needs, api)), translation
        )
        return replace(answer, miscounted=miscounted(wanted, answer))

    return _with_newest_microversion(send)


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
    checked_query(query)

    def send(version: str) -> list[ListedProvider]:
        queries = older.translate_provider_query(query, version, several=options.several)
        paths = [
            f"/resource_providers?{query_string(provider_parameters(each))}" for each in queries
        ]
        lowest = lowest_microversion(need for each in queries for need in provider_needs(each))
        providers = (each for part in _each(paths, parse_providers, lowest, api) for each in part)
        return list({each.uuid: each for each in providers}.values())

    listed = _with_newest_microversion(send)
    if options.include_disabled or not listed:
        return ListedProviders(tuple(listed))
    disabled = disabled_roots(api)
    enabled = tuple(each for each in listed if each.root_uuid not in disabled)
    return ListedProviders(enabled, len(listed) - len(enabled))


def disabled_roots(api: API) -> frozenset[str]:
    """Return the UUIDs of the roots with COMPUTE_STATUS_DISABLED; one call."""
    marked = ProviderQuery(where=RequestGroup.from_values(required=[DISABLED]))
    path = f"/resource_providers?{query_string(provider_parameters(marked))}"
    [disabled] = _each([path], parse_providers, None, api)
    return frozenset(each.uuid for each in disabled if each.uuid == each.root_uuid)


def _each(
    paths: Iterable[str], read: Callable[[Any], Answer], needs: str | None, api: API
) -> list[Answer]:
    answers = []
    for path in paths:
        body = api.request("GET", path, needs=needs)
        try:
            answers.append(read(body))
        except (KeyError, TypeError, AttributeError) as err:
            raise Unreachable(f"GET {path}: the answer is not in Placement's format") from err
    return answers


def _with_newest_microversion(send: Callable[[str], Answer]) -> Answer:
    """Call ``send`` with the newest microversion, or with Placement's newest if that is older."""
    try:
        return send(NEWEST)
    except TooOld as err:
        if err.newest is None:
            raise
        version = err.newest
    try:
        return send(version)
    except UnsupportedQuery as err:
        raise TooOld(str(err), newest=version) from None
