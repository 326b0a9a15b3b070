"""The options of a request or a provider query, and how they are read.

An option of a group has the group's suffix at its end, as Placement's parameters have:
``--required_ACCEL`` is ``required_ACCEL`` in the query, and ``--required-ACCEL``, which is
easier to type, is ``requiredACCEL``.  argparse can't have options with free suffixes, so those of
a command line are added to the parser before it reads them.
"""

import argparse
import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from computectl.shared.errors import CommandError, Once
from reportclient.candidates import ProviderQuery, RequestGroup, ResourceRequest
from reportclient.candidates.request import UNSUFFIXED, read_resources
from reportclient.candidates.text import read_root, read_subtree
from reportclient.errors import UnknownNames
from reportclient.http import API
from reportclient.model import parse_uuid
from reportclient.reader import part_of

KINDS = ("resources", "required", "forbidden", "member-of", "in-tree")
_OF_GROUP = re.compile(rf"--({'|'.join(KINDS)})(?:-([a-zA-Z0-9_-]+)|(_[a-zA-Z0-9_-]*))")

Given = tuple[str, str]
"""A kind of option, and the value that was given."""
Resolve = Callable[[str], str]
"""Returns the UUID of a provider by its name."""


def add_group_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of the group without a suffix."""
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
    tree = "only providers in the tree of this provider"
    parser.add_argument("--in-tree", action=Once, metavar="NAME_OR_UUID", help=tree)


def add_request_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of groups with a suffix, and of the whole request."""
    several = partial(parser.add_argument, action="append", default=[])
    several(
        "--group",
        type=_named_group,
        metavar="SUFFIX[:CLASS=N,...]",
        help="a group that a single provider must meet; options with its suffix at the end "
        "apply to it: --required-SUFFIX, --forbidden-SUFFIX, --member-of-SUFFIX, --in-tree-SUFFIX; "
        "may be repeated",
    )
    policy = "isolate: each group needs its own provider; required with two or more groups"
    parser.add_argument("--group-policy", action=Once, metavar="{isolate,none}", help=policy)
    root = "traits that the root provider must have (A) or must not have (!B); may be repeated"
    several("--root-required", metavar="TRAITS", help=root)
    subtree = "groups whose providers must be in one subtree, with one at the top; may be repeated"
    several("--same-subtree", metavar="SUFFIX,...", help=subtree)


def parse_with_groups(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; the options of groups that it has are added to the parser before."""
    for option in {word.partition("=")[0] for word in words}:
        if match := _OF_GROUP.fullmatch(option):
            of_group = partial(_of_group, match[2] or match[3], match[1])
            parser.add_argument(option, dest="group", action="append", type=of_group)
    return argparse.ArgumentParser.parse_args(parser, words)


def _named_group(text: str) -> tuple[str, list[Given]]:
    """Return the suffix of ``--group``, and its resources if there are any."""
    suffix, _, resources = text.partition(":")
    if not suffix:
        raise argparse.ArgumentTypeError(f"{text}: the suffix is missing")
    return suffix, [("resources", resources)] if resources else []


def _of_group(suffix: str, kind: str, value: str) -> tuple[str, list[Given]]:
    return suffix, [(kind, value)]


def add_selection(parser: argparse._ActionsContainer, what: str, hosts: str) -> None:
    """Add ``--query`` and ``--include-disabled``."""
    query = f"the {what} as a URL's query string, instead of single options"
    parser.add_argument("--query", action=Once, metavar="QUERY", help=query)
    parser.add_argument("--include-disabled", action="store_true", help=f"include {hosts}")


def request_from_options(options: argparse.Namespace, resolve: Resolve) -> ResourceRequest:
    """Return the request of the options.

    :raises CommandError: an option can't be read.
    :raises reportclient.candidates.BadQuery: Placement would not accept a value.
    """
    by_suffix = {UNSUFFIXED: _unsuffixed(options)}
    for suffix, given in options.group:
        by_suffix.setdefault(suffix, []).extend(given)
    groups = {suffix: _group(given, suffix, resolve) for suffix, given in by_suffix.items()}
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
    name, uuid = options.provider, None
    if name is not None and (canonical := parse_uuid(name)) is not None:
        name, uuid = None, canonical
    return ProviderQuery(name, uuid, _group(_unsuffixed(options), UNSUFFIXED, resolve))


def given_request_options(options: argparse.Namespace) -> Iterable[str]:
    """Return the options of the request that were given."""
    kinds = ("resources", "required", "forbidden", "member_of", "in_tree", "group")
    whole = ("group_policy", "root_required", "same_subtree")
    return [f"--{kind.replace('_', '-')}" for kind in (*kinds, *whole) if getattr(options, kind)]


def _unsuffixed(options: argparse.Namespace) -> list[Given]:
    tree = [] if options.in_tree is None else [options.in_tree]
    values = {kind: getattr(options, kind.replace("-", "_")) for kind in KINDS} | {"in-tree": tree}
    return [(kind, value) for kind, several in values.items() for value in several]


def _group(given: Sequence[Given], suffix: str, resolve: Resolve) -> RequestGroup:
    """Return the group of a suffix.  :raises CommandError: it is empty, or an option is invalid."""
    dash = "-" if suffix and not suffix.startswith("_") else ""
    if suffix and not given:
        raise CommandError(
            f"--group {suffix}: the group has no constraint",
            f"add its suffix to the options of the group: --group {suffix}:CLASS=N "
            f"--required{dash}{suffix} TRAITS",
        )
    resources: dict[str, int] = {}
    required: list[str] = []
    member_of: list[str] = []
    tree: str | None = None
    for kind, value in given:
        option = f"--{kind}{dash}{suffix}"
        if not value:
            raise CommandError(f"{option}: a value is missing", "`--help` shows the syntax")
        match kind:
            case "resources":
                amounts = read_resources(value.replace(":", "="), option, between="=")
                for twice in sorted(resources.keys() & amounts):
                    raise CommandError(
                        f"{option} {value}: {twice} was given before", "give it once"
                    )
                resources |= amounts
            case "required":
                required.append(value)
            case "forbidden":
                required.append(",".join(f"!{name.strip()}" for name in value.split(",")))
            case "member-of":
                member_of.append(value)
            case _ if tree is not None:
                raise CommandError(f"{option} is given twice", "a group can be in one tree only")
            case _:
                tree = parse_uuid(value) or resolve(value)
    return RequestGroup.from_values(resources, required, member_of, tree, suffix=suffix)


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
