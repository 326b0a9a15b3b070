"""A root belongs to one host that is up: a copy of its state directory writes nothing to it."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.loop import Loop
from agent.nodes.identity import replace_compute_id
from agent.switching.heartbeat import Heartbeat
from agent.switching.host_status import HostStatus, status_document
from tests.agents import inventory
from tests.ownership.world import ROOT, Host
from tests.registries import MemoryDatabase, registry_at
from tests.stranger import FakePlacement

MACHINES = {"1": b"3d1219c7c4c5404aaa1f6d2a48adfda4\n", "2": b"00112233445566778899aabbccddeeff\n"}


@dataclass
class Fleet:
    """Hosts with state directories below ``directory``, and their registry."""

    directory: Path
    machine: Path
    has_registry: bool = True
    now: float = 1_800_000_000.0
    placement: FakePlacement = field(default_factory=FakePlacement)
    heartbeats: dict[str, Heartbeat] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.database = MemoryDatabase(lambda: self.now)
        self.store = registry_at(self.database)

    def start(self, state: str, name: str, total: int = 8, **options) -> Host:
        """Start the agent of a machine, the number of which ends the name of its directory."""
        self.machine.write_bytes(MACHINES[state[-1]])
        path = self.directory / state
        host = Host(self.placement, {"d": inventory(total)}, path, node=name, **options)
        status = HostStatus(status_document(path), Loop(), lambda *_: ())
        address = f"{name} (boot {state[-1]}, {path.with_name('state')})"
        beats = Heartbeat(lambda: self.store, name, address, host.nodes.roots, status)
        self.heartbeats[state] = beats
        if self.has_registry:
            beats.beat()
            host.nodes.denied_of = beats.denied_of
        return host

    def original(self, name: str = "host1") -> Host:
        """A host that has reported and is up; the directory of machine 2 is a copy of its own."""
        host = self.start("of1", name)
        host.settled()
        self.heartbeats["of1"].beat()
        shutil.copytree(self.directory / "of1", self.directory / "of2")
        return host

    def absent(self, host: Host) -> str:
        """The only text of a period and of a switch that write nothing."""
        mark = self.placement.mark()
        (text,) = host.period().texts()
        assert not host.switch(disabled=True).ok
        assert not [each for each in self.placement.since(mark) if each.is_write]
        return text


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    machine = tmp_path / "machine-id"
    monkeypatch.setattr("agent.state.document.MACHINE_ID", machine)
    made = Fleet(tmp_path, machine)
    yield made
    made.database.dispose()


@pytest.mark.parametrize("name", ["host1", "host2"])
def test_a_copy_of_a_host_that_is_up_writes_nothing_to_its_root(fleet: Fleet, name: str) -> None:
    original = fleet.original()
    before = original.everything()
    clone = fleet.start("of2", name, 64)
    text = fleet.absent(clone)
    assert f"the root provider {ROOT}: it belongs to host1, which is up, at host1 (boot 1" in text
    fleet.heartbeats["of2"].beat()
    fleet.database.away = True
    assert fleet.absent(clone) == text  # what the registry said last holds
    fleet.database.away = False
    assert original.settled().ok and original.everything() == before
    fleet.now += 61
    fleet.start("of2", name).settled()
    assert fleet.placement.stranger.provider(ROOT)["name"] == name
    fleet.database.away = True
    fleet.start("of2", name).settled()  # it is this machine's state now


def test_a_renamed_host_is_not_its_own_rival(fleet: Fleet) -> None:
    """The record of its old name is that of an agent with the same boot id and directory."""
    fleet.original()
    fleet.start("of1", "new-name").settled()
    assert fleet.placement.stranger.provider(ROOT)["name"] == "new-name"


@pytest.mark.parametrize("registry", ["none", "away"])
def test_without_a_registry_a_state_of_another_machine_waits(fleet: Fleet, registry: str) -> None:
    fleet.original()
    fleet.has_registry, fleet.database.away = registry == "away", True
    fleet.start("of1", "new-name").settled()
    for _ in range(2):
        clone = fleet.start("of2", "host2")
        assert not clone.switch(disabled=True).ok
        assert f"computectl adopt {ROOT}" in fleet.absent(clone)
    replace_compute_id(fleet.directory / "of2", ROOT)
    fleet.start("of2", "host2").settled()


def test_nodes_of_the_original_are_not_removed_as_the_copys_vanished_ones(fleet: Fleet) -> None:
    original = fleet.original("n1")
    original.is_called("n1", "n2").periods()
    fleet.heartbeats["of1"].beat()
    clone = fleet.start("of2", "n3")
    clone.is_called("n3", "n4")
    for _ in range(8):
        reports = clone.periods()
    assert [text for report in reports for text in report.texts() if "n1, which is up" in text]
    assert {original.is_there(name) for name in ("n1", "n2", "n3", "n4")} == {True}
