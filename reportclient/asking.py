"""Asking Placement for candidates and providers; disabled hosts are left out of both.

A query is put in the words of the newest Placement first.  One that is older says so once
for all, and is asked in its own words (``query.older``), or the caller is told what it lacks.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from reportclient.errors import TooOld, Unreachable
from reportclient.http import API, NEWEST
from reportclient.query import older
from reportclient.query.answers import (
    AllocationCandidates,
    ListedProvider,
    merge_candidates,
    parse_candidates,
    parse_providers,
)
from reportclient.query.checks import checked, checked_query
from reportclient.query.needs import lowest_microversion, provider_needs
from reportclient.query.older import UnsupportedQuery, miscounted
from reportclient.query.request import ProviderQuery, RequestGroup, ResourceRequest
from reportclient.query.text import parameters, provider_parameters, query_string
from reportclient.request_filter import DISABLED, forbid_disabled

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How a query is asked.

    ``include_disabled``: look behind the request filter, as only operators should.

    ``several``: against a Placement that is too old for alternatives (``in:``), ask once for
    each.  ``mappings``: the answer has to say which provider meets which group.
    """

    include_disabled: bool = False
    several: bool = False
    mappings: bool = False


@dataclass(frozen=True, slots=True)
class ListedProviders:
    """An answer; ``left_out``: how many more there are on disabled hosts."""

    providers: tuple[ListedProvider, ...]
    left_out: int = 0


def allocation_candidates(
    request: ResourceRequest, api: API, options: QueryOptions | None = None
) -> AllocationCandidates:
    """The candidates that ``GET /allocation_candidates`` answers, those of disabled hosts left out.

    One call, but for alternatives on an old server.

    :raises reportclient.query.terms.BadQuery: Placement would refuse it; nothing is sent.
    :raises reportclient.request_filter.CannotForbid: it asks for disabled hosts.
    :raises TooOld: this Placement lacks what is asked for; the message names it.
    :raises reportclient.errors.PlacementError: what goes wrong otherwise.
    """
    options = options or QueryOptions()
    checked(request)
    wanted = request if options.include_disabled else forbid_disabled(request)

    def ask(version: str) -> AllocationCandidates:
        put = older.translate(wanted, version, several=options.several, mappings=options.mappings)
        paths = [f"/allocation_candidates?{query_string(parameters(one))}" for one in put.queries]
        answer = older.filtered(
            merge_candidates(_each(paths, parse_candidates, put.needs, api)), put
        )
        return replace(answer, miscounted=miscounted(wanted, answer))

    return _in_its_words(ask)


def resource_providers(
    query: ProviderQuery, api: API, options: QueryOptions | None = None
) -> ListedProviders:
    """``GET /resource_providers``, those on disabled hosts left out.

    One call, and where something was found one more: for the roots that are disabled.

    :raises reportclient.errors.PlacementError: and as :func:`allocation_candidates`.
    """
    options = options or QueryOptions()
    checked_query(query)

    def ask(version: str) -> list[ListedProvider]:
        queries = older.translate_provider_query(query, version, several=options.several)
        paths = [f"/resource_providers?{query_string(provider_parameters(q))}" for q in queries]
        lowest = lowest_microversion(need for one in queries for need in provider_needs(one))
        providers = (one for part in _each(paths, parse_providers, lowest, api) for one in part)
        return list({one.uuid: one for one in providers}.values())

    listed = _in_its_words(ask)
    if options.include_disabled or not listed:
        return ListedProviders(tuple(listed))
    disabled = disabled_roots(api)
    enabled = tuple(one for one in listed if one.root_uuid not in disabled)
    return ListedProviders(enabled, len(listed) - len(enabled))


def disabled_roots(api: API) -> frozenset[str]:
    """UUIDs of the roots with COMPUTE_STATUS_DISABLED; one call."""
    marked = ProviderQuery(where=RequestGroup.from_values(required=[DISABLED]))
    path = f"/resource_providers?{query_string(provider_parameters(marked))}"
    [disabled] = _each([path], parse_providers, None, api)
    return frozenset(one.uuid for one in disabled if one.uuid == one.root_uuid)


def _each(
    paths: Iterable[str], read: Callable[[Any], Answer], needs: str | None, api: API
) -> list[Answer]:
    answers = []
    for path in paths:
        body = api.request("GET", path, needs=needs)
        try:
            answers.append(read(body))
        except (KeyError, TypeError, AttributeError) as err:
            raise Unreachable(f"GET {path}: the answer is not in Placement's words") from err
    return answers


def _in_its_words(ask: Callable[[str], Answer]) -> Answer:
    """Ask in the newest version, and if Placement is older in its own."""
    try:
        return ask(NEWEST)
    except TooOld as err:
        if err.speaks is None:
            raise
        version = err.speaks
    try:
        return ask(version)
    except UnsupportedQuery as err:
        raise TooOld(str(err), speaks=version) from None
