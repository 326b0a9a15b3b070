"""A driver that hangs, raises for ever, forks, leaks until the memory limit, and then is well."""

import resource
from pathlib import Path

import pytest

from tests.faults.site import Site
from tests.kit.installed import install

pytestmark = pytest.mark.faults

# What it does in a call is what the file says at that time.
DRIVER = """
import os, time
from pathlib import Path
from driverkit.scripted.driver import FakeDriver

MODE = Path({mode!r})

class Sick(FakeDriver):
    kept = []

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        mode = MODE.read_text()
        print("mode", mode, flush=True)
        getattr(self, mode)()
        super().update_provider_tree(provider_tree, nodename, allocations)

    def well(self):
        self.kept.clear()

    def hangs(self):
        while MODE.read_text() == "hangs":
            time.sleep(0.1)

    def raises(self):
        raise RuntimeError("the hypervisor is on fire")

    def forks(self):
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)

    def leaks(self):
        self.kept.append(b"x" * (64 << 20))
"""
ROOM = 1 << 30
"""Bytes that it may take beside what it has when the limit is set."""


@pytest.fixture
def mode(site: Site, tmp_path: Path) -> Path:
    mode = tmp_path / "mode"
    mode.write_text("well")
    site.agent.compute_driver = "sick"
    site.agent.add_drivers(install(tmp_path / "site", "sick", DRIVER.format(mode=str(mode))))
    return mode


def becomes(site: Site, mode: Path, what: str, times: int = 2) -> None:
    """From now on; returns once it has been like that in so many calls."""
    before = site.agent.log.count(f"mode {what}")
    mode.write_text(what)
    site.agent.until_logged(f"mode {what}", times=before + times)


@pytest.mark.parametrize("what", ["raises", "forks"])
def test_it_is_tried_again_until_it_is_well(site: Site, mode: Path, what: str) -> None:
    site.begin()
    becomes(site, mode, what, times=5)
    site.change()
    mode.write_text("well")
    site.converges()


def test_one_that_hangs_is_named_and_waited_for(site: Site, mode: Path) -> None:
    site.begin("[compute]\ndriver_timeout = 3\n[DEFAULT]\n")
    becomes(site, mode, "hangs", times=1)
    site.change()
    site.agent.until_logged(
        "driver sick: update_provider_tree(testhost) has not returned within 3 s"
    )
    mode.write_text("well")
    site.converges()


def test_one_that_leaks_to_the_memory_limit_costs_only_periods(site: Site, mode: Path) -> None:
    site.begin()
    assert site.agent.process is not None
    pid = site.agent.process.pid
    size = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(pid, resource.RLIMIT_AS, (size + ROOM, resource.RLIM_INFINITY))
    mode.write_text("leaks")
    site.agent.until_logged("MemoryError")
    site.change()
    mode.write_text("well")
    site.converges()
