"""Each command that a page shows with its output prints it: the pages' transcripts are replayed."""

import inspect

import pytest

from reportclient.http import PlacementAPI, token_adapter
from tests.docs.stages import REPOSITORY, Controller, Host, Newcomer, Reported, Services
from tests.integration.transcripts import Command, expect_as_shown, files, steps

STAGES: dict[str, type[Host | Newcomer | Services]] = {
    "README": Reported,
    "docs/computectl": Host,
    "docs/candidates": Host,
    "docs/first-hour": Newcomer,
    "docs/client-programs": Services,
    "docs/security": Controller,
}
"""What surrounds a page's commands."""
ELSEWHERE = {
    "docs/drivers": "tests/integration/test_driver_tutorial.py",
    "docs/driver-kit": "tests/kit/test_kit_page.py",
    "docs/lab": "tests/lab/test_page.py",
    "docs/provider-config": "tests/integration/test_provider_config_process.py",
    "docs/registry": "tests/integration/test_registry_command.py",
}
"""Pages whose commands need more around them, and the tests with that."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", STAGES)
def test_commands_print_what_the_page_shows(page: str, placement, tmp_path) -> None:
    document = (REPOSITORY / f"{page}.rst").read_text()
    stage = STAGES[page](placement, tmp_path, document)
    deeds = {name: act for name, act in inspect.getmembers(stage, callable) if name[0] != "_"}
    try:
        expect_as_shown(document, deeds, stage.run)
    finally:
        stage.stop()


def test_no_page_with_commands_is_left_out() -> None:
    pages = [REPOSITORY / "README.rst", *(REPOSITORY / "docs").rglob("*.rst")]
    shown = {page for page in pages if any(map(is_command, steps(page.read_text())))}
    names = {page.relative_to(REPOSITORY).with_suffix("").as_posix() for page in shown}
    assert names == STAGES.keys() | ELSEWHERE.keys()
    assert [file for file in ELSEWHERE.values() if not (REPOSITORY / file).exists()] == []


def is_command(step: object) -> bool:
    return isinstance(step, Command)


def test_the_python_of_the_page_on_candidates_runs(placement, tmp_path, capsys) -> None:
    document = (REPOSITORY / "docs" / "candidates.rst").read_text()
    Host(placement, tmp_path, document).fleet()
    api = PlacementAPI(token_adapter(placement.url, "admin"))
    exec(files(document)["ask.py"], {"api": api})
    assert "SRIOV_NET_VF" in capsys.readouterr().out
