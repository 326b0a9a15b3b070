"""What users of osc-placement and of Placement's own parameters type, and how it is written here.

Taken as argparse would take it, some of it asked for something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from agent.cli.shared.errors import Trouble

_NUMBERED = re.compile(
    r"--(resources?|required|forbidden|member[-_]of|in[-_]tree)([0-9]+)(?:=(.*))?", re.DOTALL
)
_RESOURCE = re.compile(r"--resource(?:=(.*))?", re.DOTALL)


def refuse_habits(words: Sequence[str], *, groups: bool = True) -> None:
    """``groups``: whether the command has groups with a suffix.

    :raises Trouble: one is there; with the spelling that is meant.
    """
    for number, word in enumerate(words):
        after = words[number + 1] if number + 1 < len(words) else "..."
        if match := _NUMBERED.fullmatch(word):
            _refuse(match[1], match[2] if groups else "", match[3] or after, word)
        elif match := _RESOURCE.fullmatch(word):
            _refuse("resource", _group_before(words[:number]), match[1] or after, word)


def nothing_asked(suffix: str) -> Trouble:
    """Of a group that was only named: elsewhere the options behind it are about it."""
    dash = "" if suffix.startswith("_") else "-"
    return Trouble(
        f"--group {suffix}: nothing is asked of it",
        f"options about it end in its suffix: --group {suffix}:CLASS=N "
        f"--required{dash}{suffix} TRAITS",
    )


def _refuse(kind: str, suffix: str, value: str, word: str) -> None:
    kind = kind.replace("_", "-")
    meant = f"--{kind}{'-' if suffix else ''}{suffix} {value}"
    if kind.startswith("resource"):
        meant = f"--group {suffix}:{value}" if suffix else f"--resources {value}"
    raise Trouble(f"there is no option {word.partition('=')[0]}", f"is {meant} meant?")


def _group_before(words: Sequence[str]) -> str:
    """The suffix of a group that is only named before: ``--group 1 --resource VCPU=1``."""
    named = [after for word, after in pairwise(words) if word == "--group"]
    named += [word.partition("=")[2] for word in words if word.startswith("--group=")]
    return named[-1] if named and ":" not in named[-1] else ""
