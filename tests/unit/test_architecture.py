"""The dependency rules of design.md, enforced on the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.imports import DOORS, OURS, PURE, RULES, Source, read_sources

ROOT = Path(__file__).resolve().parents[2]

BREACHES = {
    "direction": [
        ("reportclient/a.py", "import drivers.api", 1),
        ("reportclient/a.py", "import os\nfrom agent.loop import Loop", 2),
        ("drivers/a.py", "from agent import loop", 1),
        ("agent/a.py", "from driverkit.host import Host", 1),
        ("drivers/a.py", "from reportclient import http", 1),
        ("drivers/a.py", "from reportclient.apply import apply", 1),
        ("drivers/x/a.py", "def f():\n    from ...agent import loop", 2),
    ],
    "doors": [
        ("agent/a.py", "import keystoneauth1.session", 1),
        ("drivers/libvirt/driver.py", "def f():\n    import libvirt", 2),
        ("agent/a.py", "import eventlet", 1),
        ("drivers/a.py", "if True:\n    import requests", 2),
    ],
    "purity": [
        ("reportclient/diff.py", "import logging", 1),
        ("reportclient/diff.py", "from time import monotonic", 1),
        ("reportclient/plan.py", "from reportclient import http", 1),
        ("agent/period/traits.py", "X = 1\ndef f():\n    return open('x')", 3),
        ("agent/registry/record.py", "import datetime\nX = datetime.datetime.now()", 2),
    ],
    "state": [
        ("agent/a.py", "def f():\n    import json", 2),
        ("drivers/libvirt/a.py", "def f():\n    import json", 2),
        ("agent/a.py", "CACHE = {}", 1),
        ("agent/a.py", "SEEN: set[str] = set()", 1),
        ("agent/a.py", "from collections import defaultdict\nBY = defaultdict(list)", 2),
        ("agent/a.py", "current = None", 1),
        ("agent/a.py", "N = 0\ndef f():\n    global N\n    N = 1", 3),
    ],
}
FINE = {
    "direction": ("drivers/a.py", "from reportclient.model import Provider\nimport drivers.errors"),
    "doors": ("drivers/libvirt/connection/host.py", "import json, libvirt"),
    "purity": (
        "reportclient/diff.py",
        "import copy\nfrom reportclient.model import Provider\n"
        "if TYPE_CHECKING:\n    from datetime import datetime",
    ),
    "state": (
        "drivers/libvirt/a.py",
        "LOG = 1\nNAMES = {'a': 1}\nAlias = dict[str, int]\n__all__ = ['f']\n"
        "class A:\n    count = 0\ndef f():\n    import libvirt\n    x = {}",
    ),
}


@pytest.fixture(scope="module")
def ours() -> list[Source]:
    return read_sources(ROOT)


@pytest.mark.parametrize("rule", RULES)
def test_structure_the_source_keeps_the_rules(rule: str, ours: list[Source]) -> None:
    found = [str(each) for source in ours for each in RULES[rule](source)]
    assert not found, "\n".join(["", *found])


def test_structure_the_source_is_there(ours: list[Source]) -> None:
    packages = {source.package for source in ours}
    assert packages == set(OURS)


@pytest.mark.parametrize(
    ("rule", "path", "text", "line"),
    [(rule, *breach) for rule, breaches in BREACHES.items() for breach in breaches],
)
def test_a_breach_is_found_where_it_is(
    tmp_path: Path, rule: str, path: str, text: str, line: int
) -> None:
    found = violations(tmp_path, rule, path, text)
    assert [(each.path, each.line) for each in found] == [(path, line)]
    assert str(found[0]).startswith(f"{path}:{line}: rule {list(RULES).index(rule) + 1}: ")


@pytest.mark.parametrize("rule", RULES)
def test_what_is_allowed_is_no_breach(tmp_path: Path, rule: str) -> None:
    assert violations(tmp_path, rule, *FINE[rule]) == []


def test_structure_what_says_that_it_is_pure_is_held_to_it(ours: list[Source]) -> None:
    sources = {source.path: source for source in ours}
    said = {path for path, source in sources.items() if source.says_it_is_pure}
    forgotten = "name them in PURE of tests/unit/imports.py, or say what they read"
    assert said - set(PURE) == set(), forgotten
    assert set(PURE) - sources.keys() == set(), "in PURE of tests/unit/imports.py, and not there"
    assert len(PURE) == len(set(PURE)), "twice in PURE of tests/unit/imports.py"
    assert not set(DOORS) & {"eventlet", "six"}


def violations(root: Path, rule: str, path: str, text: str) -> list:
    file = root / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return [each for source in read_sources(root) for each in RULES[rule](source)]
