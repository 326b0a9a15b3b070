"""A hypervisor gets few packages; docs/install.rst says what the largest are for."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.packages import packages_of

MOST = 60
PAGE = Path(__file__).resolve().parents[2] / "docs" / "install.rst"
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
