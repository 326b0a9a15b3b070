"""Every command of ours that a page shows is there, with the options that it is shown with.

Transcripts are replayed by tests of their own; this holds for what is merely mentioned, too.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from agent import opts
from compute_registry.config import COMMAND_LINE as OF_THE_REGISTRY
from computectl.app import ComputeCtl

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [
    REPOSITORY / "README.rst",
    REPOSITORY / "CONTRIBUTING.rst",
    *sorted((REPOSITORY / "docs").rglob("*.rst")),
]
COMMANDS = {
    tuple(point.name.split("_")): point for point in metadata.entry_points(group="computectl")
}
PROGRAMS = r"(computectl|compute-agent|compute-registry)"
SHOWN = re.compile(rf"(?:^(?: {{4}}(?:\$ )?|.*``)){PROGRAMS}((?: [^`\n]*)?)", re.MULTILINE)
OF_OSLO = {"--config-file", "--config-dir", "--version", "--help"}
OF_COMPUTECTL = {*OF_OSLO, "--debug", "-f", "-c"}
OF_A_GROUP = re.compile(r"--(required|forbidden|member-of|in-tree|resources)[-_]\w+$")
"""Options of ``candidates`` that end with a group's suffix."""


def shown(page: Path) -> Iterator[tuple[str, list[str]]]:
    text = re.sub(r"(?<=\S)\n *(?=[^`\n]*``)", " ", page.read_text())
    for found in SHOWN.finditer(text):
        words = found[2].partition("#")[0].split()
        yield found[1], [re.sub(r"[`).,;:]+$", "", word) for word in words]


def options(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}


def command(words: list[str]) -> tuple[str, ...] | None:
    plain = list(words)
    while plain and plain[0].startswith("--"):
        del plain[: 1 if plain[0] == "--debug" else 2]
    return next((key for key in COMMANDS if tuple(plain[: len(key)]) == key), None)


def of_command(key: tuple[str, ...]) -> set[str]:
    parser: argparse.ArgumentParser = COMMANDS[key].load()(ComputeCtl(), None).get_parser("it")
    return {*parser._option_string_actions, *OF_COMPUTECTL}


def of_program(program: str) -> set[str]:
    listed = opts.COMMAND_LINE if program == "compute-agent" else OF_THE_REGISTRY
    return {*OF_OSLO, *(f"--{option.dest.replace('_', '-')}" for option in listed)}


def wrong(program: str, words: list[str]) -> set[str]:
    """Commands and options that are not there; names of packages and units are passed over."""
    if program != "computectl":
        return options(words) - of_program(program)
    key = command(words)
    if key is None:
        first = next((word for word in words if not word.startswith("-")), "")
        a_group = words == [first] and any(first == key[0] for key in COMMANDS)
        return {first} if re.fullmatch(r"[a-z][a-z-]+", first) and not a_group else set()
    unknown = options(words) - of_command(key)
    return {one for one in unknown if key != ("candidates",) or not OF_A_GROUP.match(one)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_commands_of_the_page_are_there(page: Path) -> None:
    faults = [(program, words, wrong(program, words)) for program, words in shown(page)]
    assert [fault for fault in faults if fault[2]] == []


def test_commands_are_found() -> None:
    found = [words for page in PAGES for program, words in shown(page) if program == "computectl"]
    assert {command(words) for words in found} >= COMMANDS.keys()
    assert wrong("computectl", ["status", "--soruces"]) == {"--soruces"}
    assert wrong("computectl", ["statsu"]) == {"statsu"}
