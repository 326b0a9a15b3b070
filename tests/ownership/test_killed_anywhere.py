"""An agent that is killed between any two writes ends where one that lives on ends.

The state directory is taken as it is at that moment, before or after Placement got the write.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from drivers.api import ReshapeNeeded
from reportclient.testing.fake_placement import FakePlacement
from tests.agents import NODE, ROOT, Agent, Small
from tests.profiles import examples

GPU = f"{NODE}_gpu"
STRANGE = "dddddddd-0000-4000-8000-000000000001"
DEVICES = (f"{NODE}_dev1", f"{NODE}_dev2")


@dataclass(frozen=True)
class Says:
    """The reports of the host's two drivers."""

    classes: frozenset[str] = frozenset({"VCPU"})
    traits: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()
    gpu_below: bool = False
    """Whether ``VGPU``, of which a guest has one, is on a child or on the root."""


NOTHING_MORE = Says()
says = st.builds(
    Says,
    st.frozensets(st.sampled_from(["VCPU", "MEMORY_MB", "CUSTOM_SLOT"]), min_size=1),
    st.frozensets(st.sampled_from(["HW_CPU_X86_AVX", "CUSTOM_GOLD"])),
    st.frozensets(st.sampled_from(DEVICES)),
    st.booleans(),
)


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


@dataclass
class Mortal:
    """Placement for one agent, which is killed at its ``dies_at``-th write, if any.

    ``left`` is where its state directory is copied to then.
    """

    placement: FakePlacement
    state: Path
    left: Path
    dies_at: int | None = None
    after: bool = False

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        write = method != "GET"
        if write and self.dies_at is not None:
            self.dies_at -= 1
            if self.dies_at < 0:
                if self.after:
                    self.placement.request(method, path, json=json, needs=needs)
                shutil.copytree(self.state, self.left)
                raise Killed
        return self.placement.request(method, path, json=json, needs=needs)


class Host:
    """Two drivers, a stranger's device and a guest, and one agent after the other."""

    def __init__(self, directory: Path, first: Says) -> None:
        self.state, self.left, self.says = directory / "state", directory / "left", first
        self.placement = FakePlacement()
        self.drivers = (Small(self.root_and_gpu), Small(self.devices))
        self.started(self.state).settle()
        on = self.uuid_of(GPU) if first.gpu_below else ROOT
        self.guest = self.placement.stranger.put_allocation({on: {"VGPU": 1}})
        strange = self.placement.stranger.create_child(ROOT, "strange", STRANGE)
        self.placement.stranger.set_inventory(strange, {"FPGA": {"total": 2}})

    def started(self, state: Path, **dies: Any) -> Agent:
        mortal = Mortal(self.placement, state, self.left, **dies)
        return Agent(mortal, *self.drivers, state=state)

    def uuid_of(self, name: str) -> str:
        rows = self.placement.store.providers.values()
        return next(row.uuid for row in rows if row.name == name)

    def root_and_gpu(self, tree: Any, nodename: str, allocations: Any) -> None:
        amounts = {name: {"total": 8} for name in self.says.classes}
        old, new = (NODE, GPU) if self.says.gpu_below else (GPU, NODE)
        moves = tree.exists(old) and "VGPU" in tree.data(old).inventory
        if moves and allocations is None:
            raise ReshapeNeeded
        if self.says.gpu_below and not tree.exists(GPU):
            tree.new_child(GPU, nodename)
        source, target = (tree.data(one).uuid if tree.exists(one) else None for one in (old, new))
        for held in (allocations or {}).values():
            parts = held["allocations"]
            if "VGPU" in parts.get(source, {"resources": {}})["resources"]:
                amount = parts[source]["resources"].pop("VGPU")
                parts.setdefault(target, {"resources": {}})["resources"]["VGPU"] = amount
        if self.says.gpu_below:
            tree.update_inventory(GPU, {"VGPU": {"total": 4}})
        else:
            amounts["VGPU"] = {"total": 4}
            if tree.exists(GPU):
                tree.remove(GPU)
        tree.update_inventory(nodename, amounts)
        tree.update_traits(nodename, {"COMPUTE_NODE", *self.says.traits})

    def devices(self, tree: Any, nodename: str, allocations: Any) -> None:
        for name in DEVICES:
            if name in self.says.devices:
                if not tree.exists(name):
                    tree.new_child(name, nodename)
                tree.update_inventory(name, {"PGPU": {"total": 1}})
                tree.add_traits(name, "CUSTOM_DEVICE")
            elif tree.exists(name):
                tree.remove(name)

    def ends(self) -> Any:
        """All that Placement has, but for how often it was written to."""
        store = self.placement.store
        providers = {uuid: replace(row, generation=0) for uuid, row in store.providers.items()}
        held = self.placement.stranger.allocation(self.guest)["allocations"]
        return providers, {uuid: part["resources"] for uuid, part in held.items()}


def life(first: Says, then: Says, **dies: Any) -> tuple[bool, Any, Any]:
    """Whether it was killed, and what Placement has after ``then`` and after ``NOTHING_MORE``."""
    with tempfile.TemporaryDirectory() as directory:
        host = Host(Path(directory), first)
        host.says = then
        state, killed = host.state, False
        try:
            host.started(state, **dies).settle()
        except Killed:
            state, killed = host.left, True
            host.started(state).settle()
        there = host.ends()
        host.says = NOTHING_MORE
        host.started(state).settle()  # a process that starts may reshape
        return killed, there, host.ends()


@settings(
    deadline=None,
    max_examples=examples(6),
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(says, says)
def test_whenever_it_is_killed_the_end_is_the_same(first: Says, then: Says) -> None:
    _, *ends = life(first, then)
    for after in (False, True):
        killed, at = True, 0
        while killed:
            killed, *others = life(first, then, dies_at=at, after=after)
            assert others == ends, f"killed {'after' if after else 'before'} write {at}"
            at += 1
