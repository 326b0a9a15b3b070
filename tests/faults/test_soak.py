"""Hundreds of periods, with changes, verifications and losses: nothing grows."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.site import Site
from tests.servers.fault_proxy import FaultProxy

pytestmark = pytest.mark.faults

WARM_UP, SOAK = 40.0, 240.0
"""Seconds; a period is one second instead of sixty, so this is four hours of a host's life."""


@dataclass(frozen=True)
class Size:
    memory: int
    """KiB resident."""
    descriptors: int
    threads: int
    files: int
    kept: int
    """Bytes in the state directory."""

    @classmethod
    def of(cls, pid: int, state: Path) -> Size:
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        files = [each for each in state.rglob("*") if each.is_file()]
        return cls(
            int(status["VmRSS"].split()[0]),
            len(os.listdir(f"/proc/{pid}/fd")),
            int(status["Threads"]),
            len(files),
            sum(each.stat().st_size for each in files),
        )


def live(site: Site, proxy: FaultProxy, seconds: float) -> Size:
    """So long, with a change every few seconds and Placement away now and then."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        site.changes()
        proxy.refuse()
        time.sleep(2)
        proxy.listen()
        site.placement.stranger.remove_trait(site.root, "HW_CPU_X86_AVX2")
        site.converges()
    assert site.agent.process is not None
    return Size.of(site.agent.process.pid, site.agent.state_path)


def test_nothing_grows(site: Site) -> None:
    with FaultProxy(site.placement.port) as proxy:
        site.agent.placement_url = proxy.url
        site.begin()
        before = live(site, proxy, WARM_UP)
        after = live(site, proxy, SOAK)
        site.agent.kill()
    print(before, after)
    assert after.memory - before.memory < 2048
    assert after.descriptors <= before.descriptors + 2
    assert after.threads <= before.threads
    assert after.files == before.files
    assert after.kept < 4 * before.kept + 65536
