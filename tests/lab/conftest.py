"""Tests on the lab hypervisor: ``tools/test.sh --lab`` starts it, runs these and stops it."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drivers.libvirt.driver import LibvirtDriver
from tests.agents import Agent
from tests.hosts import context
from tests.servers.lab import Lab
from tests.servers.placement import RealPlacement

WANTED = "COMPUTE_AGENT_TEST_LAB"
SETTINGS = """
[libvirt]
connection_uri = {uri}
virt_type = qemu
{libvirt}
{more}
"""
Start = Callable[..., Agent]
Measured = Callable[[str, float], None]
TIMES = pytest.StashKey[list[str]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.lab)
            item.add_marker(pytest.mark.one_at_a_time("lab"))
            if WANTED not in os.environ:
                item.add_marker(pytest.mark.skip(reason="only tools/test.sh --lab runs these"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if told := config.stash.get(TIMES, []):
        terminalreporter.section("measured on the lab")
        terminalreporter.write_line("\n".join(told))


@pytest.fixture
def measured(pytestconfig: pytest.Config) -> Measured:
    """Tell what was measured, in seconds, at the end of the run."""
    told = pytestconfig.stash.setdefault(TIMES, [])
    return lambda what, seconds: told.append(f"{what}: {seconds:.2f} s")


@pytest.fixture(scope="session")
def running() -> Lab:
    return Lab()


@pytest.fixture
def lab(running: Lab) -> Iterator[Lab]:
    """With nothing plugged in, before and after."""
    running.unplug()
    yield running
    running.revive()
    running.unplug()


@pytest.fixture
def start(lab: Lab, placement: RealPlacement, tmp_path: Path) -> Iterator[Start]:
    """Start an agent's working parts anew, with lines of ``[libvirt]`` and groups after it."""
    drivers: list[LibvirtDriver] = []

    def started(libvirt: str = "", more: str = "") -> Agent:
        text = SETTINGS.format(uri=lab.uri(), libvirt=libvirt, more=more)
        drivers.append(LibvirtDriver(replace(context(tmp_path, text), state_path=tmp_path)))
        agent = Agent(placement, drivers[-1], state=tmp_path)
        report = agent.period()
        assert report.ok, report.texts()
        assert drivers[-1].degraded("host1").keys() <= {"PCI device 0000:41:00.0"}
        return agent

    yield started
    for driver in drivers:
        driver.cleanup_host("host")
