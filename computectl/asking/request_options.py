"""The options that say what is asked for, and the request that they make.

An option of a group has the group's suffix at its end, as Placement's parameters have:
``--required_ACCEL`` is ``required_ACCEL`` in the query, and ``--required-ACCEL``, which is
easier to type, is ``requiredACCEL``.  argparse knows no options whose names are made up, so
they are spelled out for it before it reads them.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from computectl.asking.habits import empty_group_error, refuse_habits
from computectl.shared.errors import CommandError, Once
from reportclient.candidates import ProviderQuery, RequestGroup, ResourceRequest
from reportclient.model import canonical_uuid
from reportclient.query.request import UNSUFFIXED
from reportclient.query.terms import read_resources
from reportclient.query.text import read_root, read_subtree

KINDS = ("resources", "required", "forbidden", "member-of", "in-tree")
OF_GROUP = "--of-group"
_OF_GROUP = re.compile(
    rf"--({'|'.join(KINDS)})(?:-([a-zA-Z0-9_-]+)|(_[a-zA-Z0-9_-]*))(?:=(.*))?", re.DOTALL
)

Resolve = Callable[[str], str]
"""From the name of a provider to its UUID."""


@dataclass(slots=True)
class _GroupOptions:
    """Options of one request group."""

    resources: dict[str, int] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    member_of: list[str] = field(default_factory=list)
    in_tree: str | None = None


def rewrite_group_options(words: Sequence[str]) -> list[str]:
    """The command line with the options of groups in the one form that argparse is told of.

    :raises CommandError: an option is there that is spelled otherwise here.
    """
    refuse_habits(words)
    found = []
    rest = iter(words)
    for word in rest:
        match = _OF_GROUP.fullmatch(word)
        if match is None:
            found.append(word)
            continue
        value = match[4] if match[4] is not None else next(rest, None)
        found.append(f"{OF_GROUP}={json.dumps([match[1], match[2] or match[3], value])}")
    return found


def add_group_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of a group, here of the one without a suffix."""
    several = partial(parser.add_argument, action="append", default=[])
    amounts = "amounts by resource class, such as VCPU=2,MEMORY_MB=512"
    several("--resources", metavar="CLASS=N,...", help=amounts)
    required = "required traits: A,B; or at least one of them: in:A,B; may be repeated"
    several("--required", metavar="TRAITS", help=required)
    several("--forbidden", metavar="TRAITS", help="forbidden traits: A,B; may be repeated")
    several(
        "--member-of",
        metavar="AGGREGATES",
        help="an aggregate, one of several (in:UUID,UUID), or none of them (!UUID, !in:UUID,UUID); "
        "may be repeated",
    )
    tree = "only from the tree that this provider is in"
    parser.add_argument("--in-tree", action=Once, metavar="NAME_OR_UUID", help=tree)


def add_request_options(parser: argparse._ActionsContainer) -> None:
    """Groups, and what holds for the whole request."""
    several = partial(parser.add_argument, action="append", default=[])
    several(
        "--group",
        metavar="SUFFIX[:CLASS=N,...]",
        help="a group that one provider has to meet; options with its suffix at the end "
        "apply to it: --required-SUFFIX, --forbidden-SUFFIX, --member-of-SUFFIX, --in-tree-SUFFIX; "
        "may be repeated",
    )
    several(OF_GROUP, help=argparse.SUPPRESS)
    policy = "whether each group needs a provider of its own; required with two and more groups"
    parser.add_argument("--group-policy", action=Once, metavar="{isolate,none}", help=policy)
    root = "traits that the root provider must have (A) and must not have (!B); may be repeated"
    several("--root-required", metavar="TRAITS", help=root)
    subtree = "groups to be met in one subtree, whose top meets one of them; may be repeated"
    several("--same-subtree", metavar="SUFFIX,...", help=subtree)


def add_selection(parser: argparse._ActionsContainer, what: str, hosts: str) -> None:
    """The query in a text, and whether disabled hosts are in the answer."""
    query = f"the {what} as it stands in a URL, in place of options"
    parser.add_argument("--query", action=Once, metavar="QUERY", help=query)
    parser.add_argument("--include-disabled", action="store_true", help=f"include {hosts}")


def request_from_options(options: argparse.Namespace, resolve: Resolve) -> ResourceRequest:
    """From the options.

    :raises CommandError: one can't be read.
    :raises reportclient.candidates.BadQuery: a value is not as Placement reads it.
    """
    said = {UNSUFFIXED: _unsuffixed_options(options)}
    for text in options.group:
        suffix, _, resources = text.partition(":")
        if not suffix:
            raise CommandError(
                f"--group {text}: the suffix is missing", "write --group SUFFIX:CLASS=N"
            )
        _add(
            said.setdefault(suffix, _GroupOptions()),
            "resources",
            resources or None,
            suffix,
            needed=False,
        )
    for text in options.of_group:
        kind, suffix, value = json.loads(text)
        _add(said.setdefault(suffix, _GroupOptions()), kind, value, suffix)
    for suffix, of in said.items():
        if suffix and of == _GroupOptions():
            raise empty_group_error(suffix)
    groups = {suffix: _group(of, suffix, resolve) for suffix, of in said.items()}
    return ResourceRequest(
        groups.pop(UNSUFFIXED),
        groups,
        options.group_policy,
        *read_root(*options.root_required),
        frozenset(map(read_subtree, options.same_subtree)),
    )


def provider_query_from_options(options: argparse.Namespace, resolve: Resolve) -> ProviderQuery:
    """Return the provider query of the options.

    :raises CommandError: an option can't be read.
    :raises reportclient.candidates.BadQuery: Placement would not accept a value.
    """
    said = _unsuffixed_options(options)
    name, uuid = options.provider, None
    if name is not None and (found := uuid_or_none(name)) is not None:
        name, uuid = None, found
    return ProviderQuery(name, uuid, _group(said, UNSUFFIXED, resolve))


def uuid_or_none(text: str) -> str | None:
    """The UUID that the text is, if it is one."""
    try:
        return canonical_uuid(text, "provider")
    except ValueError:
        return None


def given_request_options(options: argparse.Namespace) -> Iterable[str]:
    """The options that say something of the request."""
    kinds = ("resources", "required", "forbidden", "member_of", "in_tree", "group", "of_group")
    whole = ("group_policy", "root_required", "same_subtree")
    return [f"--{kind.replace('_', '-')}" for kind in (*kinds, *whole) if getattr(options, kind)]


def _unsuffixed_options(options: argparse.Namespace) -> _GroupOptions:
    said = _GroupOptions()
    values: Mapping[str, Sequence[str]] = {
        "resources": options.resources,
        "required": options.required,
        "forbidden": options.forbidden,
        "member-of": options.member_of,
        "in-tree": [] if options.in_tree is None else [options.in_tree],
    }
    for kind, several in values.items():
        for value in several:
            _add(said, kind, value, UNSUFFIXED)
    return said


def _add(
    said: _GroupOptions, kind: str, value: str | None, suffix: str, *, needed: bool = True
) -> None:
    option = f"--{kind}{'-' if suffix and not suffix.startswith('_') else ''}{suffix}"
    if not value:
        if needed:
            raise CommandError(f"{option}: a value is missing", "`--help` shows the syntax")
        return
    match kind:
        case "resources":
            amounts = read_resources(value.replace(":", "="), option, between="=")
            twice = sorted(said.resources.keys() & amounts)
            if twice:
                raise CommandError(f"{option} {value}: {twice[0]} was given before", "give it once")
            said.resources |= amounts
        case "required":
            said.required.append(value)
        case "forbidden":
            said.required.append(",".join(f"!{name.strip()}" for name in value.split(",")))
        case "member-of":
            said.member_of.append(value)
        case _ if said.in_tree is not None:
            raise CommandError(f"{option} is given twice", "a group can be in one tree only")
        case _:
            said.in_tree = value


def _group(said: _GroupOptions, suffix: str, resolve: Resolve) -> RequestGroup:
    tree = said.in_tree
    if tree is not None:
        tree = uuid_or_none(tree) or resolve(tree)
    return RequestGroup.from_values(
        said.resources, said.required, said.member_of, tree, suffix=suffix
    )
