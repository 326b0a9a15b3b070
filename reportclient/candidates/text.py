"""Requests as query strings of Placement, and query strings as requests.  Pure.

The order is always the same: group by group, the unsuffixed one first, then the parameters of
the whole request.  So equal requests have equal query strings.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, quote

from reportclient.candidates.request import (
    ANY_OF,
    UNSUFFIXED,
    BadQuery,
    RequestGroup,
    ResourceRequest,
    aggregates_values,
    read_resources,
    read_traits,
    resources_value,
    traits_values,
)
from reportclient.model import meant_or_known

Value = str | Iterable[str]

_OF_GROUPS = ("resources", "required", "member_of", "in_tree")
_OF_REQUEST = ("group_policy", "root_required", "same_subtree", "limit")
_ONCE = ("resources", "in_tree", "group_policy", "root_required", "limit")
_KEY = re.compile(rf"({'|'.join(_OF_GROUPS)})([a-zA-Z0-9_-]{{1,64}})?")
_PATH = re.compile(r"\s*(?:GET\s+)?(?:[\w/:.\[\]-]*/\w+\s*)?\?|\s*GET\s+")
_BREAK = re.compile(r"\s*\n\s*|\s*(&)\s*")
_READABLE = ",:!"
LONGEST_NUMBER = 18
"""Maximum number of digits; Python refuses to convert thousands of them."""

Parameters = dict[str, list[str]]


def parameters(request: ResourceRequest) -> dict[str, list[str]]:
    """Return the values of ``GET /allocation_candidates`` by parameter, in a fixed order."""
    by_name: Parameters = {}
    for suffix, group in request.by_suffix().items():
        by_name |= _of_group(group, suffix)
    if request.group_policy is not None:
        by_name["group_policy"] = [request.group_policy]
    single = frozenset(frozenset([name]) for name in request.root_required)
    by_name["root_required"] = traits_values(single, request.root_forbidden)
    by_name["same_subtree"] = sorted(",".join(sorted(names)) for names in request.same_subtree)
    if request.limit is not None:
        by_name["limit"] = [str(request.limit)]
    return {name: values for name, values in by_name.items() if values}


def query_string(values: Mapping[str, Value]) -> str:
    """Return parameters as a query string, without the ``?``."""
    pairs = (
        f"{name}={quote(value, safe=_READABLE)}"
        for name, given in values.items()
        for value in ([given] if isinstance(given, str) else given)
    )
    return "&".join(pairs)


def to_query_string(request: ResourceRequest) -> str:
    """Return the query string of a request."""
    return query_string(parameters(request))


def read_request(query: str) -> ResourceRequest:
    """Parse the query string of ``GET /allocation_candidates``; a path before it is ignored.

    :raises BadQuery: a parameter is unknown, or its value has the wrong format.
    """
    by_name = _by_name(query)
    groups = dict(_groups(by_name))
    unsuffixed = groups.pop(UNSUFFIXED, RequestGroup())
    return ResourceRequest(
        unsuffixed,
        groups,
        _one(by_name, "group_policy"),
        *read_root(*by_name.get("root_required", ())),
        frozenset(map(read_subtree, by_name.get("same_subtree", ()))),
        _limit(_one(by_name, "limit")),
    )


def read_root(*values: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the required and the forbidden traits of all values of ``root_required``.

    :raises BadQuery: a value has alternatives (``in:``).
    """
    for value in values:
        if value.startswith(ANY_OF):
            raise BadQuery(
                f"root_required={value}: alternatives are not possible here; send a query for "
                "each, or give them as required of a group"
            )
    required, forbidden = read_traits(values, "root_required")
    return frozenset().union(*required), forbidden


def read_subtree(value: str) -> frozenset[str]:
    """Parse a value of ``same_subtree``, such as ``_COMPUTE,_ACCEL``, into suffixes."""
    return frozenset(suffix.strip() for suffix in value.split(","))


def _of_group(group: RequestGroup, suffix: str) -> Parameters:
    by_name = {
        "resources": [resources_value(group.resources)] if group.resources else [],
        "required": traits_values(group.required_traits, group.forbidden_traits),
        "member_of": aggregates_values(group.member_of, group.forbidden_aggregates),
        "in_tree": [] if group.in_tree is None else [group.in_tree],
    }
    return {name + suffix: values for name, values in by_name.items() if values}


def _by_name(query: str) -> Parameters:
    by_name: Parameters = {}
    for name, value in parse_qsl(_without_path(query), keep_blank_values=True):
        if name not in _OF_REQUEST and not _KEY.fullmatch(name):
            hint = meant_or_known(name, (*_OF_GROUPS, *_OF_REQUEST))
            raise BadQuery(f"Placement has no parameter {name!r} here{hint}")
        by_name.setdefault(name, []).append(value)
    for name, values in by_name.items():
        _refuse_several(name, values)
    return by_name


def _without_path(query: str) -> str:
    """Remove what is copied along with a query: the path, and line breaks of a document."""
    path = _PATH.match(query)
    return _BREAK.sub(r"\1", query[path.end() :] if path else query).strip()


def _refuse_several(name: str, values: list[str]) -> None:
    key = _KEY.fullmatch(name)
    if len(values) > 1 and (key[1] if key else name) in _ONCE:
        raise BadQuery(f"{name} is given {len(values)} times; it may be given once")


def _groups(by_name: Parameters) -> Iterator[tuple[str, RequestGroup]]:
    suffixes = dict.fromkeys(
        key[2] or UNSUFFIXED for name in by_name if (key := _KEY.fullmatch(name))
    )
    return ((suffix, _group(by_name, suffix)) for suffix in suffixes)


def _group(by_name: Parameters, suffix: str) -> RequestGroup:
    resources = _one(by_name, f"resources{suffix}")
    return RequestGroup.from_values(
        None if resources is None else read_resources(resources, f"resources{suffix}"),
        by_name.get(f"required{suffix}", ()),
        by_name.get(f"member_of{suffix}", ()),
        _one(by_name, f"in_tree{suffix}"),
        suffix=suffix,
    )


def _one(by_name: Parameters, name: str) -> str | None:
    return next(iter(by_name.get(name, ())), None)


def _limit(value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isdecimal() or len(value) > LONGEST_NUMBER:
        raise BadQuery(f"limit={value[:80]}: not a whole number")
    return int(value)
