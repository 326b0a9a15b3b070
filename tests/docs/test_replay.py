"""Each command that a page shows with its output prints it: the pages' transcripts are replayed."""

import inspect

import pytest

from reportclient.http import PlacementAPI, token_adapter
from tests.docs.stages import REPOSITORY, Host, Newcomer, Services
from tests.integration.transcripts import expect_as_shown, files

STAGES: dict[str, type[Host | Newcomer | Services]] = {
    "computectl": Host,
    "candidates": Host,
    "first-hour": Newcomer,
    "client-programs": Services,
}
"""What surrounds a page's commands."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", STAGES)
def test_commands_print_what_the_page_shows(page: str, placement, tmp_path) -> None:
    document = (REPOSITORY / "docs" / f"{page}.rst").read_text()
    stage = STAGES[page](placement, tmp_path, document)
    deeds = {name: act for name, act in inspect.getmembers(stage, callable) if name[0] != "_"}
    try:
        expect_as_shown(document, deeds, stage.run)
    finally:
        stage.stop()


def test_the_python_of_the_page_on_candidates_runs(placement, tmp_path, capsys) -> None:
    document = (REPOSITORY / "docs" / "candidates.rst").read_text()
    Host(placement, tmp_path, document).fleet()
    api = PlacementAPI(token_adapter(placement.url, "admin"))
    exec(files(document)["ask.py"], {"api": api})
    assert "SRIOV_NET_VF" in capsys.readouterr().out
