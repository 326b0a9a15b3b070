"""The request filter: candidate queries that leave disabled hosts out.  Pure.

``reportclient.asking`` applies it to every query.  A scheduler or a tool with query code of
its own keeps that, and has its parameters filtered; nothing else of this package is needed::

    import requests
    from reportclient.request_filter import only_enabled

    asked = {"resources": "VCPU:2,MEMORY_MB:512", "required": ["CUSTOM_A", "in:CUSTOM_B,CUSTOM_C"]}
    requests.get(
        f"{placement}/allocation_candidates",
        params=only_enabled(asked, "1.39"),
        headers={"OpenStack-API-Version": "placement 1.39", "X-Auth-Token": token},
    )

The parameters and the header have to be of the same microversion.  Before 1.35 Placement
can't be asked for roots: there, the filter sees only what a root itself gives to the group
without a suffix.  Whoever asks with groups only, or for resources below the roots, has to
look at the ``traits`` of the roots in ``provider_summaries``, as ``reportclient.asking`` does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reportclient.microversion import parse_microversion
from reportclient.query.request import ResourceRequest

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
    """No trait can be forbidden with this microversion, or not in this query."""


def only_enabled(parameters: Mapping[str, Value], microversion: str) -> dict[str, Value]:
    """The parameters of a candidate query that forbids COMPUTE_STATUS_DISABLED.

    ``parameters`` are those of ``GET /allocation_candidates`` by name, a value being a
    text or several of them; they stay as they are.  With microversion 1.35 and later the
    trait is forbidden on the root, whatever the providers below it are asked for; before,
    on the providers that give the resources without a group suffix, which is where a
    compute host's root gives them.

    :raises CannotForbid: the microversion is below 1.22, or the query requires the trait.
    """
    version = _version(microversion)
    if version < FORBIDS:
        raise CannotForbid(f"microversion {microversion}: traits can be forbidden from 1.22 on")
    name = "root_required" if version >= ROOT_REQUIRED else "required"
    merged = dict(parameters)
    merged[name] = _merged(parameters.get(name), several=version >= REPEATABLE)
    return merged


def forbid_disabled(request: ResourceRequest) -> ResourceRequest:
    """The same for a typed request: it forbids COMPUTE_STATUS_DISABLED on the root.

    :raises CannotForbid: the request requires the trait.
    """
    choices = (c for group in request.by_suffix().values() for c in group.required_traits)
    if DISABLED in request.root_required or frozenset([DISABLED]) in choices:
        raise CannotForbid(f"the query asks for {DISABLED} and must not")
    return replace(request, root_forbidden=request.root_forbidden | {DISABLED})


def _merged(given: Value | None, *, several: bool) -> Value:
    values = [given] if isinstance(given, str) else list(given or ())
    values = [value for value in values if value]
    terms = [term.strip() for value in values for term in _terms(value)]
    if DISABLED in terms:
        raise CannotForbid(f"the query asks for {DISABLED} and must not")
    if FORBIDDEN in terms:
        return given if given is not None else FORBIDDEN
    joinable = [n for n, value in enumerate(values) if not value.startswith("in:")]
    if not joinable:
        return [*values, FORBIDDEN] if values and several else FORBIDDEN
    values[joinable[0]] += f",{FORBIDDEN}"
    return values[0] if len(values) == 1 else values


def _terms(value: str) -> list[str]:
    """Each trait with its sign; those of ``in:`` are alternatives, none of them is required."""
    return [] if value.startswith("in:") else value.split(",")


def _version(text: str) -> tuple[int, ...]:
    try:
        return parse_microversion(text)
    except ValueError:
        raise CannotForbid(f"{text!r} is no microversion") from None
