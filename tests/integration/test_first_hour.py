"""docs/first-hour.rst, followed literally."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.author import Author
from tests.integration.transcripts import Uuids, replayed

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "first-hour.rst").read_text()
FILES = re.findall(r"   :name: (\S+)\n\n((?: {4}.*\n|\n)+)", DOCUMENT)
RUNNING = re.search(r"in one terminal::\n\n {4}(.*)\n", DOCUMENT)


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Author]:
    made = Author(tmp_path)
    made.prepare()
    for name, text in FILES:
        (made.cwd / name).write_text(textwrap.dedent(text))
    yield made
    made.stop()


def plain(text: str, uuids: Uuids) -> list[str]:
    return [line.rstrip() for line in uuids.numbered(text).strip("\n").splitlines()]


def test_each_command_says_what_the_page_shows(newcomer: Author) -> None:
    assert RUNNING is not None and len(FILES) == 2
    deeds = {
        "start": lambda: newcomer.start(RUNNING[1], lambda log: "to Placement" in log),
        "stop": newcomer.stop,
    }

    def run(words: str) -> str:
        done = newcomer.shell(words)
        assert done.returncode in {0, 1}, done.stderr
        return done.stderr + done.stdout

    shown, said = Uuids(), Uuids()
    for command, output in replayed(DOCUMENT, deeds, run):
        if command.output:
            assert plain(output, said) == plain(command.output, shown), command.words
        assert "Traceback" not in output
