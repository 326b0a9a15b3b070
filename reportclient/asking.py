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
    candidates_of,
    merged,
    providers_of,
)
from reportclient.query.checks import checked, checked_query
from reportclient.query.needs import least, provider_needs
from reportclient.query.older import CannotAsk, miscounted
from reportclient.query.request import ProviderQuery, RequestGroup, ResourceRequest
from reportclient.query.text import parameters, provider_parameters, query_string
from reportclient.request_filter import DISABLED, of_enabled_hosts

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class How:
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
    request: ResourceRequest, api: API, how: How | None = None
) -> AllocationCandidates:
    """The candidates that ``GET /allocation_candidates`` answers, those of disabled hosts left out.

    One call, but for alternatives on an old server.

    :raises reportclient.query.terms.BadQuery: Placement would refuse it; nothing is sent.
    :raises reportclient.request_filter.CannotForbid: it asks for disabled hosts.
    :raises TooOld: this Placement lacks what is asked for; the message names it.
    :raises reportclient.errors.PlacementError: what goes wrong otherwise.
    """
    how = how or How()
    checked(request)
    wanted = request if how.include_disabled else of_enabled_hosts(request)

    def ask(version: str) -> AllocationCandidates:
        put = older.put(wanted, version, several=how.several, mappings=how.mappings)
        paths = [f"/allocation_candidates?{query_string(parameters(one))}" for one in put.queries]
        answer = older.judged(merged(_each(paths, candidates_of, put.needs, api)), put)
        return replace(answer, miscounted=miscounted(wanted, answer))

    return _in_its_words(ask)


def resource_providers(query: ProviderQuery, api: API, how: How | None = None) -> ListedProviders:
    """``GET /resource_providers``, those on disabled hosts left out.

    One call, and where something was found one more: for the roots that are disabled.

    :raises reportclient.errors.PlacementError: and as :func:`allocation_candidates`.
    """
    how = how or How()
    checked_query(query)

    def ask(version: str) -> list[ListedProvider]:
        queries = older.put_query(query, version, several=how.several)
        paths = [f"/resource_providers?{query_string(provider_parameters(q))}" for q in queries]
        lowest = least(need for one in queries for need in provider_needs(one))
        providers = (one for part in _each(paths, providers_of, lowest, api) for one in part)
        return list({one.uuid: one for one in providers}.values())

    listed = _in_its_words(ask)
    if how.include_disabled or not listed:
        return ListedProviders(tuple(listed))
    disabled = disabled_roots(api)
    enabled = tuple(one for one in listed if one.root_uuid not in disabled)
    return ListedProviders(enabled, len(listed) - len(enabled))


def disabled_roots(api: API) -> frozenset[str]:
    """UUIDs of the roots with COMPUTE_STATUS_DISABLED; one call."""
    marked = ProviderQuery(where=RequestGroup.of(required=[DISABLED]))
    path = f"/resource_providers?{query_string(provider_parameters(marked))}"
    [disabled] = _each([path], providers_of, None, api)
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
    except CannotAsk as err:
        raise TooOld(str(err), speaks=version) from None
