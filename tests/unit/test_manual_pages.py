"""docs/man names each command and option that there is."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest
from cliff.display import DisplayCommandBase

from agent import opts
from compute_registry.config import COMMAND_LINE as REGISTRY_COMMAND_LINE

PAGES = Path(__file__).resolve().parents[2] / "docs" / "man"


def test_computectls_page_has_every_command() -> None:
    commands = {point.name.replace("_", " ") for point in metadata.entry_points(group="computectl")}
    section = (PAGES / "computectl.rst").read_text().partition("\nCOMMANDS\n")[2]
    terms = re.findall(r"(?m)^(\*\*.*)$", section.partition("\nEXIT STATUS\n")[0])
    assert set(re.findall(r"\*\*(.+?)\*\*", " ".join(terms))) == commands


@pytest.mark.parametrize(
    ("page", "options"),
    [("compute-agent", opts.COMMAND_LINE), ("compute-registry", REGISTRY_COMMAND_LINE)],
)
def test_the_services_pages_have_every_option(page: str, options: list[object]) -> None:
    text = (PAGES / f"{page}.rst").read_text()
    missing = [opt.dest for opt in options if f"\n--{opt.dest.replace('_', '-')} " not in text]  # type: ignore[attr-defined]
    assert missing == []


def test_all_commands_but_watch_have_formats_for_programs() -> None:
    points = metadata.entry_points(group="computectl")
    assert {p.name for p in points if not issubclass(p.load(), DisplayCommandBase)} == {"watch"}
