"""Files that the documentation names are there, so that a move is noticed where it is told of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [
    REPOSITORY / "README.rst",
    REPOSITORY / "CONTRIBUTING.rst",
    REPOSITORY / "tests" / "README.rst",
    *sorted((REPOSITORY / "docs").glob("design*.md")),
    *sorted((REPOSITORY / "docs").rglob("*.rst")),
]
FOLDERS = (
    "agent",
    "compute_registry",
    "computectl",
    "benchmarks",
    "deploy",
    "docs",
    "driverkit",
    "drivers",
    "etc",
    "examples",
    "reportclient",
    "tests",
    "tools",
)
OF_A_PACKAGE = ("tests/host", "tests/test_driver.py")
"""Of the package that ``driver new`` writes."""
NAMED = re.compile(rf"(?<![\w/.$-])((?:{'|'.join(FOLDERS)})/[\w./-]*\w)(?![\w<])")


def named(page: Path) -> set[str]:
    return {path for path in NAMED.findall(page.read_text()) if not path.startswith(OF_A_PACKAGE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_files_that_the_page_names_are_there(page: Path) -> None:
    missing = [path for path in named(page) if not (REPOSITORY / path).exists()]
    assert missing == []
