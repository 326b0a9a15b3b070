"""kill -9 at any moment, and the next start brings the same tree, and nothing of others is hurt.

The moments are after a random number of requests: before Placement gets the next
one, or after it has done it and before the agent hears.
"""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.servers.agent import AgentProcess
from tests.servers.fault_proxy import Exchange, FaultProxy
from tests.servers.placement import RealPlacement

ROUNDS = 5  # of two kills each
AGGREGATE, FOREIGN_AGGREGATE = str(uuid4()), str(uuid4())
SCRIPT = f"""
nodes:
  testhost:
    inventory: {{MEMORY_MB: 65536, DISK_GB: 100}}
    traits: [HW_CPU_X86_AVX2, CUSTOM_ROOT]
    aggregates: [{AGGREGATE}]
    children:
      numa{{n}}:
        count: 2
        inventory: {{VCPU: 16}}
        traits: [HW_NUMA_ROOT]
        children:
          pf{{n}}:
            count: 3
            inventory: {{SRIOV_NET_VF: 8, CUSTOM_SLOT: 2}}
            traits: [CUSTOM_PHYSNET_A]
"""
# What becomes of it while the agent is away: less, more, and other.
LATER = SCRIPT.replace("count: 3", "count: 2").replace("VCPU: 16", "VCPU: 24")
OPTIONS = "update_resources_interval = 1\nperiodic_fuzzy_delay = 0\n"

Tree = dict[str, Any]


def tree_of(placement: RealPlacement, root: str) -> Tree:
    """All of it, by name; only what differs between two runs by right is left out."""
    members = placement.request("GET", f"/resource_providers?in_tree={root}")["resource_providers"]
    names = {member["uuid"]: member["name"] for member in members}
    assert len(set(names.values())) == len(members), "a name is there twice"
    stranger = placement.stranger
    return {
        member["name"]: {
            "parent": names.get(member["parent_provider_uuid"]),
            "inventory": stranger.inventory(member["uuid"]),
            "traits": stranger.traits(member["uuid"]),
            "aggregates": stranger.aggregates(member["uuid"]),
        }
        for member in members
    }


def with_a_stranger(placement: RealPlacement, root: str) -> None:
    """A trait, an aggregate and a child with inventory that are none of the agent's."""
    stranger = placement.stranger
    stranger.create_provider("testhost", root)
    stranger.add_trait(root, "CUSTOM_FOREIGN")
    stranger.set_aggregates(root, {FOREIGN_AGGREGATE})
    child = stranger.create_child(root, "foreign-child")
    stranger.set_inventory(child, {"CUSTOM_FOREIGN_THING": {"total": 3}})
    stranger.add_trait(child, "CUSTOM_FOREIGN")


def assert_stranger_untouched(tree: Tree) -> None:
    assert "CUSTOM_FOREIGN" in tree["testhost"]["traits"]
    assert FOREIGN_AGGREGATE in tree["testhost"]["aggregates"]
    child = tree["foreign-child"]
    assert child["parent"] == "testhost"
    assert child["inventory"]["CUSTOM_FOREIGN_THING"]["total"] == 3
    assert child["traits"] == {"CUSTOM_FOREIGN"}
    assert not child["aggregates"]


def agent_in(directory: Path, url: str, root: str, script: str) -> AgentProcess:
    directory.mkdir()
    agent = AgentProcess(directory, url, script=script, options=OPTIONS)
    agent.write()
    (agent.state_path / "compute_id").write_text(f"{root}\n")
    return agent


@pytest.fixture
def proxy(placement: RealPlacement) -> Iterator[FaultProxy]:
    with FaultProxy(placement.port) as proxy:
        yield proxy


@dataclass(frozen=True)
class Run:
    """What a run that nobody disturbs leads to, and in how many writes."""

    tree: Tree
    writes: int


@pytest.fixture
def undisturbed(tmp_path: Path, placement: RealPlacement) -> dict[str, Run]:
    """By script: the first run, and the one after the change."""
    root = str(uuid4())
    with_a_stranger(placement, root)
    agent = agent_in(tmp_path / "undisturbed", placement.url, root, SCRIPT)
    runs = {}
    for script in (SCRIPT, LATER):
        agent.script = script
        agent.write()
        mark = placement.mark()
        assert agent.once().returncode == 0
        writes = sum(request.is_write for request in placement.since(mark))
        runs[script] = Run(tree_of(placement, root), writes)
        assert_stranger_untouched(runs[script].tree)
    return runs


def die_at(proxy: FaultProxy, agent: AgentProcess, countdown: int, done_first: bool) -> None:
    """Kill ``agent`` in its ``countdown``-th write from now."""
    lock = threading.Lock()
    left = [countdown]

    def fault(exchange: Exchange) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last and not done_first:
            agent.kill()
        reply = exchange.forward() if not last or done_first else None
        if last and done_first:
            agent.kill()
        if reply is not None:
            exchange.send(reply)

    for method in ("POST", "PUT", "DELETE"):
        proxy.harm(method, "", fault, times=1000)


def killed(proxy: FaultProxy, agent: AgentProcess, writes: int, chance: random.Random) -> str:
    """One life, ended in one of its ``writes``; says in which."""
    after, done_first = chance.randint(1, writes), chance.random() < 0.5
    die_at(proxy, agent, after, done_first)
    agent.start("--once")
    assert agent.process is not None
    agent.process.wait(90)
    told = f"{'after' if done_first else 'before'} write {after} of {writes}"
    assert agent.process.returncode == -signal.SIGKILL, f"it was not killed {told}: {agent.log}"
    return told


@pytest.mark.timeout(900)
def test_a_killed_agent_comes_to_the_same_tree(
    tmp_path: Path,
    placement: RealPlacement,
    proxy: FaultProxy,
    undisturbed: dict[str, Run],
) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    print(f"seed {seed}")
    for number in range(ROUNDS):
        placement.empty()
        root = str(uuid4())
        with_a_stranger(placement, root)
        agent = agent_in(tmp_path / str(number), proxy.url, root, SCRIPT)
        for script in (SCRIPT, LATER):
            agent.script = script
            agent.write()
            told = killed(proxy, agent, undisturbed[script].writes, chance)
            proxy.heal()
            done = agent.once()
            assert done.returncode == 0, f"seed {seed}, round {number}, {told}: {done.stderr}"
            tree = tree_of(placement, root)
            assert tree == undisturbed[script].tree, f"seed {seed}, round {number}, {told}"
            assert_stranger_untouched(tree)
