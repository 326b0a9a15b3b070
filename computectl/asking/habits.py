"""Reject unknown names and options, with a suggestion.

Among them are options of osc-placement and parameters of Placement: argparse would take some of
them as abbreviations of other options.
"""

import difflib
import re
from collections.abc import Sequence
from itertools import pairwise

from computectl.shared.errors import CommandError
from reportclient.errors import UnknownNames
from reportclient.http import API
from reportclient.reader import part_of

_NUMBERED = re.compile(
    r"--(resources?|required|forbidden|member[-_]of|in[-_]tree)([0-9]+)(?:=(.*))?", re.DOTALL
)
_RESOURCE = re.compile(r"--resource(?:=(.*))?", re.DOTALL)


def refuse_habits(arguments: Sequence[str], *, groups: bool = True) -> None:
    """Reject options as osc-placement and Placement spell them.

    ``groups``: whether the command has groups with a suffix.

    :raises CommandError: the command line has such an option; suggests the right spelling.
    """
    for number, word in enumerate(arguments):
        after = arguments[number + 1] if number + 1 < len(arguments) else "..."
        if match := _NUMBERED.fullmatch(word):
            _refuse(match[1], match[2] if groups else "", match[3] or after, word)
        elif match := _RESOURCE.fullmatch(word):
            _refuse("resource", _group_before(arguments[:number]), match[1] or after, word)


def empty_group_error(suffix: str) -> CommandError:
    """Return the error for a group without any constraint."""
    dash = "" if suffix.startswith("_") else "-"
    return CommandError(
        f"--group {suffix}: the group has no constraint",
        f"add its suffix to the options of the group: --group {suffix}:CLASS=N "
        f"--required{dash}{suffix} TRAITS",
    )


def _refuse(kind: str, suffix: str, value: str, word: str) -> None:
    kind = kind.replace("_", "-")
    meant = f"--{kind}{'-' if suffix else ''}{suffix} {value}"
    if kind.startswith("resource"):
        meant = f"--group {suffix}:{value}" if suffix else f"--resources {value}"
    raise CommandError(f"there is no option {word.partition('=')[0]}", f"is {meant} meant?")


def _group_before(arguments: Sequence[str]) -> str:
    """Return the last group's suffix if it has no amounts: ``--group 1 --resource VCPU=1``."""
    named = [after for word, after in pairwise(arguments) if word == "--group"]
    named += [word.partition("=")[2] for word in arguments if word.startswith("--group=")]
    return named[-1] if named and ":" not in named[-1] else ""


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
