"""Transcripts in a document: commands after ``$``, and below them what they print.

A comment ``.. do: NAME`` stands for something that happens in between and is not shown.  A literal
block whose ``:name:`` has a suffix is a file.
"""

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PAGES = Path(__file__).resolve().parents[2] / "docs"
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_MARK = re.compile(r"(?<=CUSTOM_COMPUTE_AGENT_)[0-9A-F]{8}(?:_[0-9A-F]{4}){3}_[0-9A-F]{12}")
"""A UUID in the mark of a service with many nodes."""
_BLOCK = re.compile(
    r"^\.\. (?:do: (?P<do>\w+)|code-block:: console\n\n(?P<text>(?: {4}.*\n|\n)+))", re.M
)


def block(page: str, name: str) -> str:
    """The text of a page's literal block with this name."""
    text = (PAGES / f"{page}.rst").read_text()
    found = re.search(rf"^   :name: {name}\n\n((?:    .*\n|\n)+)", text, re.M)
    assert found, f"{page}.rst has no block {name}"
    return re.sub(r"^    ", "", found[1], flags=re.M).strip("\n")


@dataclass(frozen=True)
class Deed:
    name: str


@dataclass(frozen=True)
class Command:
    words: str
    output: str


@dataclass
class Uuids:
    """Numbers UUIDs as they come, so that two texts can be compared."""

    seen: dict[str, str] = field(default_factory=dict)

    def numbered(self, text: str) -> str:
        return _UUID.sub(self._number, _MARK.sub(self._number, text))

    def _number(self, found: re.Match[str]) -> str:
        return self.seen.setdefault(found[0], f"<uuid {len(self.seen)}>")


def files(document: str) -> dict[str, str]:
    """The files that a page shows, by name."""
    found = re.findall(r"^   :name: (\S+\.\w+)\n\n((?: {4}.*\n|\n)+)", document, re.M)
    return {name: textwrap.dedent(text) for name, text in found}


def steps(document: str) -> Iterator[Deed | Command]:
    for found in _BLOCK.finditer(document):
        if found["do"]:
            yield Deed(found["do"])
        else:
            yield from _commands(found["text"])


def _commands(block: str) -> Iterator[Command]:
    text = re.sub(r"^ {4}", "", block, flags=re.M).strip("\n") + "\n"
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        words, _, output = part.partition("\n")
        yield Command(words, output.strip("\n"))


def replayed(
    document: str, deeds: dict[str, Callable[[], None]], run: Callable[[str], str]
) -> Iterator[tuple[Command, str]]:
    """Each command with what it says now."""
    for step in steps(document):
        if isinstance(step, Deed):
            deeds[step.name]()
        else:
            yield step, run(step.words).strip("\n")


def expect_as_shown(
    document: str, deeds: dict[str, Callable[[], None]], run: Callable[[str], str]
) -> None:
    """Replay a document; each command that shows an output has to print the same."""
    shown, printed = Uuids(), Uuids()
    for command, output in replayed(document, deeds, run):
        if command.output:
            wanted = plain(command.output, shown)
            assert plain(output, printed) == wanted, command.words


def plain(text: str, uuids: Uuids) -> list[str]:
    return [line.rstrip() for line in uuids.numbered(text).strip("\n").splitlines()]
