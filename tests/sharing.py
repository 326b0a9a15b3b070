"""How tests share the machine when several workers run them (``pytest -n``, pytest-xdist).

A file is the smallest piece that a worker gets, so that its fixtures start once.  Files
that take long come first: the last ones to be given out should be short.  Tests that
name the same thing in ``@pytest.mark.one_at_a_time("…")`` never overlap, in whatever
files, workers or runs they are.
"""

import errno
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
LONGEST_FIRST = (
    "integration/test_uses_with_nova.py",
    "integration/test_set_host_enabled.py",
    "integration/test_all_over_tls.py",
    "integration/test_registry_service.py",
    "cost",
    "faults/test_every_fault_at_every_call.py",
    "integration/test_messaging.py",
    "integration/test_process.py",
    "integration/test_hypervisor_lost.py",
    "integration/test_systemd.py",
    "integration",
    "faults",
    "contract",
    "property",
    "spec",
    "ownership",
    "examples",
    "unit",
)
"""Files and folders of tests; what is not named comes first, as it may be anything."""


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(OneAtATime())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the files; the tests of each keep their order."""
    items.sort(key=lambda item: _place(item.path))


def _place(path: Path) -> int:
    parts = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    for place, name in enumerate(LONGEST_FIRST, 1):
        if Path(*parts).is_relative_to(name):
            return place
    return 0


class OneAtATime:
    """Waits until nobody on this machine has what a test names, and has it then.

    It is kept from before the test's fixtures start, of whatever scope, until a test
    follows that does not name it.
    """

    def __init__(self) -> None:
        self._name: str | None = None
        self._lock: socket.socket | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        self._have(_named(item))
        try:
            return (yield)
        finally:
            if nextitem is None or _named(nextitem) != self._name:
                self._have(None)

    def _have(self, name: str | None) -> None:
        if name == self._name:
            return
        if self._lock is not None:
            self._lock.close()
        self._name, self._lock = name, None
        if name is not None:
            self._lock = _taken(f"\0compute-agent-tests-{name}")


def _taken(address: str) -> socket.socket:
    """The abstract socket with this name, once nobody has it: it leaves no file behind."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    while True:
        try:
            made.bind(address)
        except OSError as err:
            if err.errno != errno.EADDRINUSE:
                raise
            time.sleep(0.05)
        else:
            return made


def _named(item: pytest.Item) -> str | None:
    mark = item.get_closest_marker("one_at_a_time")
    return None if mark is None else str(mark.args[0])
