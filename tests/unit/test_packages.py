"""A hypervisor gets few packages; docs/install.rst says what the largest are for."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.packages import packages_of

MOST = 60
REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "install.rst"
ELSEWHERE = {"sqlalchemy", "alembic", "oslo-db", "oslo-messaging", "eventlet"}
"""Only the extras registry and bus bring them."""


def test_a_hypervisor_gets_few_packages() -> None:
    names = packages_of("libvirt").keys()
    assert len(names) <= MOST, "python -m tests.unit.packages prints them"
    assert not names & ELSEWHERE


def test_the_page_says_what_the_largest_are_for() -> None:
    table = PAGE.read_text().partition("What it installs\n")[2]
    listed = re.findall(r"^``([\w.-]+)`` +[\d.]+ +\S", table, re.MULTILINE)
    assert len(listed) == 10
    assert set(listed) <= set(list(packages_of("libvirt"))[:15]), "their sizes differ a little"


def test_a_source_distribution_has_the_folders_of_the_readme() -> None:
    texts = ((REPOSITORY / name).read_text() for name in ("README.rst", "setup.cfg", "MANIFEST.in"))
    readme, setup, manifest = texts
    folders = set(re.findall(r"``(\w+)/``", readme))
    packages = setup.partition("[options.packages.find]")[2].partition("\n\n")[0]
    packed = {
        *re.findall(r"^    (\w+)\*$", packages, re.M),
        *re.findall(r"^graft (\w+)$", manifest, re.M),
    }
    assert len(folders) > 9 and sorted(folders - packed) == []
