"""Every command in docs/pictures.rst does what it says there."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from tests.integration.ctl_here import Here
from tests.integration.fleet import load_fleet
from tests.integration.transcripts import replayed, steps
from tests.servers.placement import RealPlacement

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "pictures.rst"


@pytest.mark.timeout(900)
@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
def test_every_command_says_what_the_document_says(
    placement_server: RealPlacement, tmp_path: Path
) -> None:
    host = Here(tmp_path, placement_server.url)
    host.configure()
    load_fleet(placement_server, disabled=2)
    text = DOCUMENT.read_text()

    def run(words: str) -> str:
        command, _, file = words.partition(" > ")
        program, *args = shlex.split(command)
        assert program == "computectl"
        said = host.ctl(*args)
        if file:
            assert said.out.startswith("<?xml")
            return said.err
        return said.out + said.err

    assert list(steps(text))
    for command, output in replayed(text, {"fleet": lambda: None}, run):
        assert output == command.output, command.words
