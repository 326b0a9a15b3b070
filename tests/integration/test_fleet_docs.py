"""Every command in docs/candidates.rst and docs/pictures.rst does what it says there, and so does the Python."""

from __future__ import annotations

import re
import shlex
from textwrap import dedent

import pytest

from reportclient.http import PlacementAPI, token_adapter
from tests.integration.agent_host import Here
from tests.integration.fleet import fleet_with_commands, uuid
from tests.integration.transcripts import PAGES, replayed, steps
from tests.servers.placement import RealPlacement

CANDIDATES, PICTURES = ((PAGES / f"{name}.rst").read_text() for name in ("candidates", "pictures"))


def code(language: str) -> str:
    found = re.search(rf"^\.\. code-block:: {language}\n\n((?: {{4}}.*\n|\n)+)", CANDIDATES, re.M)
    assert found is not None
    return dedent(found[1])


@pytest.fixture(scope="module")
def host(placement_server: RealPlacement, tmp_path_factory: pytest.TempPathFactory) -> Here:
    return fleet_with_commands(placement_server, tmp_path_factory.mktemp("docs"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(CANDIDATES, id="candidates"),
        pytest.param(PICTURES, id="pictures", marks=pytest.mark.needs("dot")),
    ],
)
def test_every_command_says_what_the_document_says(
    host: Here, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(host.directory)
    (host.directory / "request.yaml").write_text(code("yaml"))

    def run(words: str) -> str:
        command, _, file = words.partition(" > ")
        program, *args = shlex.split(command)
        assert program == "computectl"
        said = host.ctl(*args)
        if file:
            assert said.out.startswith("<?xml")
            return said.err
        return said.out + said.err

    assert list(steps(page))
    for command, output in replayed(page, {"fleet": lambda: None}, run):
        assert output == command.output, command.words


def test_the_python_of_the_document_runs(host: Here, capsys: pytest.CaptureFixture[str]) -> None:
    exec(code("python"), {"api": PlacementAPI(token_adapter(host.url, "admin"))})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert all("'SRIOV_NET_VF': 1" in line and "'_NIC'" in line for line in lines)
    assert uuid(0)[:24] == lines[0][:24]
