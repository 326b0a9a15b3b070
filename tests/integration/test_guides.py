"""The guides from Nova to here and back, and for a reinstalled host: each command is run, with Nova's own tracker."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.agent_host import AgentHost
from tests.integration.test_there_and_back import BESIDE, INSTEAD, NODE, OWNER, ROOT
from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement
from tests.servers.reference import NovaBeside, reference_python

DOCS = Path(__file__).resolve().parents[2] / "docs"
QUICK = "[DEFAULT]\nupdate_resources_interval = 1\nperiodic_fuzzy_delay = 0\n"
pytestmark = [pytest.mark.slow, pytest.mark.needs("nova")]


class Walk:
    """A host with nova-compute and this agent, on which the commands of a page are run."""

    def __init__(self, directory: Path, placement: RealPlacement) -> None:
        self.directory, self.placement = directory, placement
        self.host = AgentHost(directory / "agent", placement.url, NODE)
        self.agent = AgentProcess(directory / "agent", placement.url)
        self.agent.state_path.mkdir(parents=True)
        self.output = ""
        self.nova: NovaBeside | None = None
        self.commands: dict[str, Callable[[], object]] = {
            "systemctl enable --now compute-agent": self._start_agent,
            "systemctl disable --now compute-agent": lambda: self.agent.stop(),
            "systemctl enable --now nova-compute": self.start_nova,
            "systemctl disable --now nova-compute": self.stop_nova,
            "install -o compute-agent -g compute-agent /var/lib/nova/compute_id "
            "/var/lib/compute-agent/": lambda: self.host.compute_id.write_text(f"{ROOT}\n"),
        }

    def run(self, page: str, block: str) -> None:
        """Run each command of a block; each ends with 0."""
        text = (DOCS / page).read_text()
        found = re.search(rf"^( *):name: {block}\n\n((?:\1.*\n|\n)+)", text, re.MULTILINE)
        assert found, f"{page} has no block {block}"
        lines = [line.partition("#")[0].strip() for line in found[2].splitlines()]
        for line in filter(None, lines):
            program, *words = line.split()
            if program != "computectl":
                self.commands[line]()
                continue
            ended = self.host.ctl(*words)
            assert ended.code == 0, f"{line}\n{ended.out}{ended.err}"
            self.output = ended.out

    def start_nova(self) -> None:
        python = reference_python()
        assert python is not None
        self.nova = NovaBeside(python, self.placement.url, self.directory / "nova.log")
        self.nova.wish["children"] = 0
        for _ in range(2):
            self.nova.period()

    def stop_nova(self) -> None:
        if self.nova is not None:
            self.nova.stop()
            self.nova = None

    def _start_agent(self) -> None:
        self.agent.start()
        self.agent.until(lambda: self.host.ctl("status").code == 0)

    def stop(self) -> None:
        self.agent.kill()
        self.stop_nova()


@pytest.fixture
def walk(placement: RealPlacement, tmp_path: Path) -> Iterator[Walk]:
    walk = Walk(tmp_path, placement)
    yield walk
    walk.stop()


def test_beside_nova_and_back(walk: Walk) -> None:
    walk.start_nova()
    walk.host.configure(more=QUICK + "[compute]\nroot_provider = attach\n")
    walk.host.script(BESIDE)
    before = walk.placement.uuids().keys()
    walk.run("from-nova.rst", "beside")
    assert f"{NODE}_card" in walk.output
    walk.run("from-nova.rst", "beside-back")
    assert walk.placement.uuids().keys() == before
    assert walk.nova is not None
    walk.nova.period()


def test_instead_of_nova_and_back_with_a_guest(walk: Walk) -> None:
    stranger = walk.placement.stranger
    walk.start_nova()
    guest = stranger.put_allocation({ROOT: {"VCPU": 2}})
    walk.host.configure(
        more=QUICK + "[compute]\nowner_trait = CUSTOM_OWNER_COMPUTE_AGENT, OWNER_NOVA\n"
    )
    walk.host.script(INSTEAD)
    walk.run("from-nova.rst", "instead")
    assert OWNER in stranger.traits(ROOT)
    walk.run("from-nova.rst", "instead-back")
    assert OWNER not in stranger.traits(ROOT)
    assert stranger.allocation(guest)["allocations"][ROOT]["resources"] == {"VCPU": 2}


def test_a_reinstalled_host_takes_its_providers_over(walk: Walk) -> None:
    walk.host.configure(more=QUICK)
    walk.host.report(INSTEAD)
    before = uuids(walk.placement)
    shutil.rmtree(walk.agent.state_path)
    walk.agent.state_path.mkdir()
    refused = walk.host.agent()
    assert refused.code == 1 and "computectl adopt" in refused.err
    walk.run("reinstall.rst", "adopt")
    walk.run("reinstall.rst", "start")
    assert uuids(walk.placement) == before


def uuids(placement: RealPlacement) -> set[str]:
    return {*placement.uuids().values()}
