"""Every command in docs/candidates.rst does what it says there, and so does the Python."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from textwrap import dedent

import pytest

from reportclient.http import PlacementAPI, token_adapter
from tests.integration.ctl_here import Here
from tests.integration.fleet import load_fleet, uuid
from tests.integration.transcripts import replayed, steps
from tests.servers.placement import RealPlacement

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "candidates.rst"


def block(language: str) -> str:
    found = re.search(rf"^\.\. code-block:: {language}\n\n((?: {{4}}.*\n|\n)+)", text(), re.M)
    assert found is not None
    return dedent(found[1])


def text() -> str:
    return DOCUMENT.read_text()


@pytest.fixture(scope="module")
def host(placement_server: RealPlacement, tmp_path_factory: pytest.TempPathFactory) -> Here:
    made = Here(tmp_path_factory.mktemp("docs"), placement_server.url)
    made.configure()
    load_fleet(placement_server, disabled=2)
    return made


@pytest.mark.timeout(900)
def test_every_command_says_what_the_document_says(
    host: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(host.directory)
    (host.directory / "request.yaml").write_text(block("yaml"))

    def run(words: str) -> str:
        program, *args = shlex.split(words)
        assert program == "computectl"
        said = host.ctl(*args)
        return said.out + said.err

    assert len(list(steps(text()))) > 7
    for command, output in replayed(text(), {"fleet": lambda: None}, run):
        assert output == command.output, command.words


def test_the_python_of_the_document_runs(host: Here, capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("python"), {"api": PlacementAPI(token_adapter(host.url, "admin"))})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert all("'SRIOV_NET_VF': 1" in line and "'_NIC'" in line for line in lines)
    assert uuid(0)[:24] == lines[0][:24]
