"""Read a request: from options, a query string, or a YAML file.

An option of a group has the group's suffix at its end, as Placement's parameters have:
``--required_ACCEL`` is ``required_ACCEL`` in the query, and ``--required-ACCEL``, which is
easier to type, is ``requiredACCEL``.  argparse can't have options with free suffixes, so those of
a command line are added to the parser before it reads them.  What was given becomes a query string,
so that there is one reader of requests.

The keys of a file are Placement's parameters; ``groups`` has the groups with a suffix::

    resources: {VCPU: 2, MEMORY_MB: 512}
    required: [HW_CPU_X86_AVX2, "in:CUSTOM_A,CUSTOM_B"]
    groups:
      _ACCEL: {resources: {ACCELERATOR: 1}, in_tree: 0c5f…}
    root_required: ["!CUSTOM_WINDOWS_LICENSE_POOL"]
    same_subtree: [[_COMPUTE, _ACCEL]]
"""

import argparse
import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from computectl.asking.constraints import OF_GROUPS, joined_query
from computectl.reading.trees import find_provider
from computectl.shared.errors import CommandError
from drivers.yaml_file import Field, read
from reportclient.candidates import BadQuery, RequestGroup, ResourceRequest
from reportclient.candidates.request import UNSUFFIXED
from reportclient.candidates.text import read_root
from reportclient.errors import UnknownNames
from reportclient.http import API
from reportclient.model import parse_uuid
from reportclient.reader import part_of

LIMIT = 1000
"""Candidates requested unless ``--limit`` is given; the default of Nova's scheduler."""
_OF_GROUP = re.compile(
    r"--(resources|required|forbidden|member-of|in-tree)(?:-([a-zA-Z0-9_-]+)|(_[a-zA-Z0-9_-]*))"
)


class Argument(NamedTuple):
    """An option that was given, as Placement's parameter and its value."""

    option: str
    parameter: str
    value: str


_OPTIONS = (
    ("resources", "CLASS=N,...", "amounts by resource class, such as VCPU=2,MEMORY_MB=512"),
    (
        "required",
        "TRAITS",
        "required traits: A,B; or at least one of them: in:A,B; may be repeated",
    ),
    ("forbidden", "TRAITS", "forbidden traits: A,B; may be repeated"),
    (
        "member-of",
        "AGGREGATES",
        "aggregates: UUID; or one of in:UUID,UUID; with ! before it none of them; may be repeated",
    ),
    ("in-tree", "NAME_OR_UUID", "only providers in the tree of this provider"),
    (
        "group-policy",
        "{isolate,none}",
        "isolate: each group needs its own provider; required with two or more groups",
    ),
    (
        "root-required",
        "TRAITS",
        "traits that the root provider must have (A) or must not have (!B); may be repeated",
    ),
    (
        "same-subtree",
        "SUFFIX,...",
        "groups whose providers must be in one subtree, with one at the top; may be repeated",
    ),
    ("query", "QUERY", "the request as a URL's query string, instead of single options"),
    (
        "file",
        "FILE",
        "a YAML file with the request: Placement's parameters as keys, and `groups`; - is stdin",
    ),
    ("limit", "N", f"maximum number of candidates; default: {LIMIT}, as for Nova's scheduler"),
)
"""Kinds of options, each with its value and help."""


def add_request_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a request: single options, ``--query`` or ``--file``."""
    for kind, metavar, text in _OPTIONS:
        _add_option(parser, f"--{kind}", kind, metavar=metavar, help=text)
    parser.add_argument(
        "--group",
        dest="given",
        action="append",
        default=[],
        type=_named_group,
        metavar="SUFFIX[:CLASS=N,...]",
        help="a group that a single provider must meet; options with its suffix at the end "
        "apply to it: --required-SUFFIX, --forbidden-SUFFIX, --member-of-SUFFIX, --in-tree-SUFFIX; "
        "may be repeated",
    )


def parse_with_groups(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; the options of groups that it has are added to the parser before."""
    for option in {word.partition("=")[0] for word in words}:
        if match := _OF_GROUP.fullmatch(option):
            _add_option(parser, option, match[1], match[2] or match[3])
    return argparse.ArgumentParser.parse_args(parser, words)


def _add_option(
    parser: argparse.ArgumentParser, option: str, kind: str, suffix: str = "", **more: Any
) -> None:
    """Add an option of the given kind; all are collected in ``given``, in their order."""
    given = partial(_argument, option, kind, suffix)
    parser.add_argument(option, dest="given", action="append", default=[], type=given, **more)


def _argument(option: str, kind: str, suffix: str, value: str) -> Argument:
    if kind == "resources":
        value = value.replace("=", ":")
    if kind == "forbidden":
        kind, value = "required", ",".join(f"!{name.strip()}" for name in value.split(","))
    return Argument(option, f"{kind.replace('-', '_')}{suffix}", value)


def _named_group(text: str) -> Argument:
    """Return the resources of ``--group``, which may be empty."""
    suffix, _, resources = text.partition(":")
    if not suffix:
        raise argparse.ArgumentTypeError(f"{text}: the suffix is missing")
    return _argument("--group", "resources", suffix, resources)


def whole_form(given: Sequence[Argument], forms: Collection[str]) -> Argument | None:
    """Return the option that has the whole request, such as ``--query``; ``None`` without one.

    :raises CommandError: another option was given, too.
    """
    form = next((each for each in given if each.parameter in forms), None)
    other = next((each for each in given if each is not form), None)
    if form is not None and other is not None:
        what = f"{form.option} and {other.option} can't be combined"
        raise CommandError(what, "use only one of them")
    return form


def query_of(given: Iterable[Argument], api: API) -> str:
    """Return options as a query string, with the provider of ``--in-tree`` by its UUID.

    :raises CommandError: a group has no constraint, or Placement lacks the provider.
    """
    pairs, named = [], []
    for option, parameter, value in given:
        if option == "--group" and not value:
            named.append(parameter.removeprefix("resources"))
        elif parameter.startswith("in_tree"):
            pairs.append((parameter, parse_uuid(value) or str(find_provider(value, api)["uuid"])))
        else:
            pairs.append((parameter, value))
    for suffix in named:
        if not any(parameter == f"{name}{suffix}" for parameter, _ in pairs for name in OF_GROUPS):
            dash = "" if suffix.startswith("_") else "-"
            raise CommandError(
                f"--group {suffix}: the group has no constraint",
                f"add its suffix to the options of the group: --group {suffix}:CLASS=N "
                f"--required{dash}{suffix} TRAITS",
            )
    return joined_query(pairs)


ALIKE = 0.8
"""Least similarity of a suggested name, as :func:`difflib.get_close_matches` measures it."""


def unknown_names_error(err: UnknownNames, api: API) -> CommandError:
    """Return the error for a query with names that Placement does not have; two GETs."""
    all_names = list(part_of("/traits", "traits", api))
    all_names += [item["name"] for item in part_of("/resource_classes", "resource_classes", api)]
    names = sorted(err.names)
    near = [hit for name in names for hit in difflib.get_close_matches(name, all_names, 1, ALIKE)]
    hint = f"is {', '.join(near)} meant?" if near else "has the agent that reports it run yet?"
    return CommandError(f"Placement does not know {', '.join(names)}, so no provider has it", hint)


# -- a file

_OF_REQUEST = ("groups", "group_policy", "root_required", "same_subtree", "limit")


def read_request_file(text: str, source: str) -> ResourceRequest:
    """Return the request of a YAML text.  :raises BadFile: with all places of errors."""
    top = read(text, source)
    fields = top.mapping((*OF_GROUPS, *_OF_REQUEST))
    groups = fields["groups"].mapping() if "groups" in fields else {}
    try:
        root_traits = read_root(*_texts(fields.get("root_required")))
    except BadQuery as err:
        raise fields["root_required"].error(str(err)) from None
    together = fields["same_subtree"].items() if "same_subtree" in fields else ()
    return ResourceRequest(
        _group(top, fields, UNSUFFIXED),
        {name: _group(group, group.mapping(OF_GROUPS), name) for name, group in groups.items()},
        fields["group_policy"].text() if "group_policy" in fields else None,
        *root_traits,
        frozenset(frozenset(_texts(item)) for item in together),
        fields["limit"].whole() if "limit" in fields else None,
    )


def _group(where: Field, fields: dict[str, Field], suffix: str) -> RequestGroup:
    resources = fields["resources"].mapping() if "resources" in fields else {}
    try:
        return RequestGroup.from_values(
            {name: amount.whole() for name, amount in resources.items()},
            _texts(fields.get("required")),
            _texts(fields.get("member_of")),
            fields["in_tree"].text() if "in_tree" in fields else None,
            suffix=suffix,
        )
    except BadQuery as err:
        raise where.error(str(err)) from None


def _texts(field: Field | None) -> list[str]:
    """Return a text, or a list of texts, as a list."""
    if field is None:
        return []
    return [field.text()] if field.scalar and not field.empty else [i.text() for i in field.items()]
