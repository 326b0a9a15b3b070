"""``pytest.mark.needs("rabbitmq")``: what a test needs of the machine; where that is missing, the test is skipped.

A fixture of ``FIXTURES`` says it for the tests that use it.
"""

import shutil
from collections.abc import Callable
from functools import cache

import pytest

from tests.servers import browser, keystone, libvirtd, prometheus, rabbitmq
from tests.servers.databases import MariaDB
from tests.servers.reference import reference_python

SERVERS: dict[str, Callable[[], str | None]] = {
    "browser": browser.missing,
    "keystone": keystone.missing,
    "libvirtd": libvirtd.missing,
    "mariadb": MariaDB.missing,
    "prometheus": prometheus.missing,
    "rabbitmq": rabbitmq.missing,
}
FIXTURES = {
    "broker": "rabbitmq",
    "libvirtd": "libvirtd",
    "mariadb": "mariadb",
    "own_broker": "rabbitmq",
}


@cache
def missing(name: str) -> str | None:
    """Why a server, Nova, or else a program can't be had here, or ``None``."""
    if name in SERVERS:
        return SERVERS[name]()
    if name == "nova":
        where = "tools/test.sh and benchmarks/run.sh make it"
        return None if reference_python() else f"no virtual environment with nova: {where}"
    return None if shutil.which(name) else f"{name} is not installed"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        needs = [FIXTURES[each] for each in fixtures if each in FIXTURES]
        needs += [each for mark in item.iter_markers("needs") for each in mark.args]
        for reason in filter(None, map(missing, needs)):
            item.add_marker(pytest.mark.skip(reason=reason))
