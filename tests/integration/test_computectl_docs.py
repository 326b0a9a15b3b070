"""Every command in docs/computectl.rst does what it says there."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from agent.registry.access import open_registry
from agent.registry.checks import Report
from computectl.shared.command_session import Session
from driverkit.scripted.driver import DEFAULT_SCRIPT
from tests.integration.agent_host import AgentHost, gpus_on_children
from tests.integration.transcripts import Uuids, replayed, steps
from tests.servers.placement import RealPlacement

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "computectl.rst"
ONE_GPU_HOST = """
nodes: {"{host}": {inventory: {VCPU: 16, VGPU: 8}}}
"""


class Story:
    """What happens in the document."""

    def __init__(self, placement: RealPlacement, directory: Path) -> None:
        self.placement = placement
        self.host = AgentHost(directory, placement.url)
        self.host.configure(more="[registry]\nservice_down_time = 3600")
        self.host.script(DEFAULT_SCRIPT.read_text())
        self.code = 0

    def report(self) -> None:
        assert self.host.agent().code == 0

    def record(self) -> None:
        settings = Session.from_config_files([str(self.host.config)], ()).settings.registry
        open_registry(settings, None).heartbeat(
            Report("host1", "here", "6.5", [self._uuid("host1")])
        )

    def allocate(self) -> None:
        for cpus, memory in ((100, 98304), (12, 16384)):
            uses = {"VCPU": cpus, "MEMORY_MB": memory}
            self.placement.stranger.put_allocation({self._uuid("host1_numa0"): uses})

    def rebuild(self) -> None:
        script = yaml.safe_load(DEFAULT_SCRIPT.read_text())
        [host] = script["nodes"].values()
        cell = host["children"].pop("numa{n}")
        del cell["count"]
        cells = {"numa0": cell, "numa1": deepcopy(cell)}
        cells["numa0"]["inventory"]["MEMORY_MB"] = {"total": 262144, "reserved": 4096}
        del cells["numa1"]["children"]["pf1"]
        host["children"] = cells
        self.host.script(yaml.safe_dump(script))

    def forget(self) -> None:
        self.placement.empty()
        self.lose()

    def reshape(self) -> None:
        self.host.script(ONE_GPU_HOST)
        self.report()
        self.placement.stranger.put_allocation({self._uuid("host1"): {"VCPU": 4, "VGPU": 2}})
        self.host.script(gpus_on_children(vcpus=16, vgpus=4))

    def lose(self) -> None:
        self.host.compute_id.unlink()
        (self.host.compute_id.parent / "nodes.json").unlink(missing_ok=True)

    def strange(self) -> None:
        self.placement.stranger.create_child(self._uuid("host1"), "left-over")

    @property
    def deeds(self) -> dict:
        names = "report allocate record rebuild forget reshape lose strange".split()
        return {name: getattr(self, name) for name in names}

    def run(self, words: str) -> str:
        if words == "echo $?":
            return str(self.code)
        program, *args = words.split()
        assert program == "computectl"
        said = self.host.ctl(*args)
        self.code = said.code
        return self._as_in_a_document(said.out + said.err)

    def _as_in_a_document(self, text: str) -> str:
        text = text.replace(str(self.host.compute_id.parent), "/var/lib/compute-agent")
        text = text.replace(str(self.host.config), "/etc/compute-agent/compute-agent.conf")
        return text.replace(self.placement.url, "http://placement.example")

    def _uuid(self, name: str) -> str:
        return self.placement.uuids()[name]


def test_the_document_has_transcripts() -> None:
    assert len(list(steps(DOCUMENT.read_text()))) > 10


@pytest.mark.timeout(900)
def test_every_command_says_what_the_document_says(
    placement: RealPlacement, tmp_path: Path
) -> None:
    story = Story(placement, tmp_path)
    written, real = Uuids(), Uuids()
    for command, output in replayed(DOCUMENT.read_text(), story.deeds, story.run):
        assert real.numbered(output) == written.numbered(command.output), command.words
