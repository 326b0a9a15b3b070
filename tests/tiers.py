"""The tiers of the tests: ``tools/test.sh --fast``, all of them, and ``tools/test.sh --faults``.

The fast tier starts no server, no browser and no process, and sleeps for nothing: what does is in
a folder of ``WITH_SERVERS``, asks for a fixture of ``SERVERS``, or is marked ``slow``.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
FAULTS = "COMPUTE_AGENT_TEST_FAULTS" in os.environ
"""Whether this run is the long one."""
FAST = "COMPUTE_AGENT_TEST_FAST" in os.environ
"""Whether this run is the short one."""
WITH_SERVERS = ("docs", "faults", "integration", "kit", "lab", "spec")
SERVERS = {"broker", "libvirtd", "own_broker", "own_placement", "placement_server"}
REAL = {"placement", "real"}
"""Values of parameters that choose the real Placement."""
LONGEST_SLEEP = 0.2
"""Seconds, at a time."""

left_out = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[left_out] = Counter()
    if FAST:
        sys.addaudithook(_refuse_processes)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Don't even read what is left out."""
    if FAST and collection_path.parent == TESTS and collection_path.name in WITH_SERVERS:
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is marked ``faults``, unless a smaller form of it runs always; keep the fast ones."""
    for item in items:
        mark = item.get_closest_marker("faults")
        if mark and not FAULTS and not mark.kwargs.get("always"):
            item.add_marker(pytest.mark.skip(reason="only tools/test.sh --faults runs this"))
    if FAST:
        reasons = {item.nodeid: _why_slow(item) for item in items}
        config.stash[left_out].update(filter(None, reasons.values()))
        config.hook.pytest_deselected(items=[one for one in items if reasons[one.nodeid]])
        items[:] = [one for one in items if not reasons[one.nodeid]]


def _why_slow(item: pytest.Item) -> str:
    """Empty for the fast ones."""
    chosen = getattr(getattr(item, "callspec", None), "params", {}).values()
    fixtures = {*getattr(item, "fixturenames", ())}
    if fixtures & SERVERS or any(one in REAL for one in chosen if isinstance(one, str)):
        return "with a server"
    if item.get_closest_marker("slow") or item.get_closest_marker("faults"):
        return "marked slow or faults"
    return ""


_running: list[str] = []
"""The test that runs now, in the fast tier."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """No process, and no sleep of more than a moment, in the fast tier."""
    if not FAST:
        return (yield)
    sleep = time.sleep

    def checked(seconds: float) -> None:
        if seconds > LONGEST_SLEEP and _running:
            pytest.fail(f"it sleeps for {seconds} s: mark it slow, or tell it the time")
        sleep(seconds)

    time.sleep = checked
    _running.append(item.nodeid)
    try:
        return (yield)
    finally:
        time.sleep = sleep
        _running.clear()


def _refuse_processes(event: str, _: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and _running:
        pytest.fail("it starts a process: mark it slow")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With pytest-xdist only its workers know."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = dict(session.config.stash[left_out])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every worker has left out the same."""
    node.config.stash[left_out] = Counter(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name what the fast tier has left out."""
    if FAST:
        folders = ", ".join(f"tests/{name}" for name in WITH_SERVERS)
        terminalreporter.section("left out by --fast")
        terminalreporter.line(f"whole folders: {folders}")
        for why, number in sorted(config.stash[left_out].items()):
            terminalreporter.line(f"{number} tests {why}")
        terminalreporter.line("tools/test.sh runs all of them")
