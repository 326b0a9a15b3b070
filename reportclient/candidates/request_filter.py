"""The request filter: candidate queries that leave disabled hosts out.  Pure.

``reportclient.candidates.asking`` applies it to every query.  A scheduler or a tool that builds
and sends its own queries only has to filter their parameters with this module::

    import requests
    from reportclient.candidates.request_filter import only_enabled

    query = {"resources": "VCPU:2,MEMORY_MB:512", "required": ["CUSTOM_A", "in:CUSTOM_B,CUSTOM_C"]}
    requests.get(
        f"{placement}/allocation_candidates",
        params=only_enabled(query, "1.39"),
        headers={"OpenStack-API-Version": "placement 1.39", "X-Auth-Token": token},
    )

The parameters and the header must use the same microversion.  Before 1.35 Placement has no
condition on roots: the trait is then forbidden for the group without a suffix, which covers
only roots that provide resources of that group.  A query that has only groups with suffixes,
or requests resources from below the roots, has to check the ``traits`` of the roots in
``provider_summaries`` itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reportclient.candidates.request import ResourceRequest
from reportclient.forms import parse_microversion

DISABLED = "COMPUTE_STATUS_DISABLED"
FORBIDDEN = f"!{DISABLED}"

ROOT_REQUIRED = (1, 35)
"""From this microversion on, ``root_required`` looks at root providers only."""
FORBIDS = (1, 22)
"""From this microversion on, traits can be forbidden."""
REPEATABLE = (1, 39)
"""From this microversion on, ``required`` may be given more than once."""

Value = str | Iterable[str]


class CannotForbid(ValueError):
    """COMPUTE_STATUS_DISABLED can't be forbidden with this microversion, or in this query."""


def only_enabled(parameters: Mapping[str, Value], microversion: str) -> dict[str, Value]:
    """Return the parameters of a candidate query, with COMPUTE_STATUS_DISABLED forbidden.

    From microversion 1.35 on the trait is forbidden on the root; before, on the providers of
    the group without a suffix, which includes the root if it provides such resources.

    :param parameters: those of ``GET /allocation_candidates`` by name, each a text or several
        texts; they are not changed.
    :param microversion: the microversion with which the query is sent, such as ``"1.39"``.
    :raises CannotForbid: the microversion is below 1.22, or the query requires the trait.
    """
    try:
        version = parse_microversion(microversion)
    except ValueError:
        raise CannotForbid(f"{microversion!r} is not a microversion") from None
    if version < FORBIDS:
        raise CannotForbid(f"microversion {microversion}: traits can be forbidden from 1.22 on")
    name = "root_required" if version >= ROOT_REQUIRED else "required"
    merged = dict(parameters)
    merged[name] = _merged(parameters.get(name), several=version >= REPEATABLE)
    return merged


def forbid_disabled(request: ResourceRequest) -> ResourceRequest:
    """Return the request with COMPUTE_STATUS_DISABLED forbidden on the root.

    :raises CannotForbid: the request requires the trait.
    """
    choices = (c for group in request.by_suffix().values() for c in group.required_traits)
    if DISABLED in request.root_required or frozenset([DISABLED]) in choices:
        raise CannotForbid(f"the query requires {DISABLED}, which is not allowed")
    return replace(request, root_forbidden=request.root_forbidden | {DISABLED})


def _merged(given: Value | None, *, several: bool) -> Value:
    values = [given] if isinstance(given, str) else list(given or ())
    values = [value for value in values if value]
    joinable = [n for n, value in enumerate(values) if not value.startswith("in:")]
    terms = [term.strip() for n in joinable for term in values[n].split(",")]
    if DISABLED in terms:
        raise CannotForbid(f"the query requires {DISABLED}, which is not allowed")
    if FORBIDDEN in terms:
        return given if given is not None else FORBIDDEN
    if not joinable:
        return [*values, FORBIDDEN] if values and several else FORBIDDEN
    values[joinable[0]] += f",{FORBIDDEN}"
    return values[0] if len(values) == 1 else values
