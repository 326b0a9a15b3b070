"""The dependency rules of design.md, enforced on the source."""

import ast

import pytest

from tests.unit.imports import ALSO_PURE, DOORS, OURS, RULES, Source, our_sources, pure_modules

PURE = '"""X.  Pure."""; '

BREACHES = {
    "direction": [
        ("reportclient/a.py", "import drivers.api", 1),
        ("drivers/a.py", "from agent import loop", 1),
        ("agent/a.py", "from driverkit.host import Host", 1),
        ("drivers/a.py", "from reportclient.apply import apply", 1),
    ],
    "doors": [
        ("agent/a.py", "import keystoneauth1.session", 1),
        ("drivers/libvirt/driver.py", "def f():\n    import libvirt", 2),
        ("agent/a.py", "import eventlet", 1),
        ("drivers/a.py", "from . import loaded", 1),
        ("drivers/a.py", "if True:\n    import requests", 2),
    ],
    "purity": [
        ("agent/a.py", PURE + "import logging", 1),
        ("agent/a.py", PURE + "from reportclient import http", 1),
        ("drivers/errors.py", "X = 1\ndef f():\n    return open('x')", 3),
        ("agent/a.py", PURE + "import datetime\nX = datetime.datetime.now()", 2),
    ],
    "state": [
        ("agent/a.py", "CACHE = {}", 1),
        ("agent/a.py", "SEEN: set[str] = set()", 1),
        ("agent/a.py", "from collections import defaultdict\nBY = defaultdict(list)", 2),
        ("agent/a.py", "current = None", 1),
    ],
}
FINE = {
    "direction": ("drivers/a.py", "from reportclient.model import Provider\nimport drivers.errors"),
    "doors": ("drivers/libvirt/connection/host.py", "import json, libvirt"),
    "purity": (
        "reportclient/a.py",
        PURE + "import copy\nfrom reportclient.model import Provider\n"
        "if TYPE_CHECKING:\n    from datetime import datetime",
    ),
    "state": (
        "drivers/libvirt/a.py",
        "LOG = 1\nNAMES = {'a': 1}\nAlias = dict[str, int]\n__all__ = ['f']\n"
        "class A:\n    count = 0\ndef f():\n    import libvirt\n    x = {}",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_structure_the_source_keeps_the_rules(rule: str) -> None:
    found = [
        f"{source.path}:{line}: {text}"
        for source in our_sources()
        for line, text in RULES[rule](source)
    ]
    assert not found, "\n".join(["", *found])


def test_structure_the_source_is_there_and_so_are_the_files_of_the_lists() -> None:
    sources = our_sources()
    assert {source.package for source in sources} == set(OURS)
    assert len(pure_modules()) > 50
    lists = (*DOORS, *ALSO_PURE)
    assert not [each for each in lists if not any(source.matches(each) for source in sources)]


@pytest.mark.parametrize(
    ("rule", "path", "text", "line"),
    [(rule, *breach) for rule, breaches in BREACHES.items() for breach in breaches],
)
def test_a_breach_is_found_where_it_is(rule: str, path: str, text: str, line: int) -> None:
    assert [found for found, _ in RULES[rule](Source(path, ast.parse(text)))] == [line]


@pytest.mark.parametrize("rule", RULES)
def test_what_is_allowed_is_no_breach(rule: str) -> None:
    path, text = FINE[rule]
    assert not list(RULES[rule](Source(path, ast.parse(text))))
