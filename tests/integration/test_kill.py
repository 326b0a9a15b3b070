"""kill -9 at any moment, and the next start brings the same tree, and nothing of others is hurt.

The moments are after a random number of requests: before Placement gets the next
one, or after it has done it and before the agent hears.
"""

import random
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.integration.foreign import Tree, assert_stranger_untouched, tree_of, with_a_stranger
from tests.servers.agent import AgentProcess
from tests.servers.fault_proxy import Exchange, FaultProxy
from tests.servers.placement import RealPlacement

AGGREGATE = str(uuid4())
SCRIPT = f"""
nodes:
  testhost:
    inventory: {{MEMORY_MB: 65536, DISK_GB: 100}}
    traits: [HW_CPU_X86_AVX2, CUSTOM_ROOT]
    aggregates: [{AGGREGATE}]
    children:
      numa0: &cell
        inventory: {{VCPU: 16}}
        traits: [HW_NUMA_ROOT]
        children:
          pf0: &card
            inventory: {{SRIOV_NET_VF: 8, CUSTOM_SLOT: 2}}
            traits: [CUSTOM_PHYSNET_A]
          pf1: *card
          pf2: *card
      numa1: *cell
"""
# What becomes of it while the agent is away: less, more, and other.
LATER = SCRIPT.replace("          pf2: *card\n", "").replace("VCPU: 16", "VCPU: 24")
OPTIONS = "update_resources_interval = 1\nperiodic_fuzzy_delay = 0\n"


def agent_in(directory: Path, url: str, root: str, script: str) -> AgentProcess:
    agent = AgentProcess(directory, url, script=script, options=OPTIONS)
    agent.write()
    (agent.state_path / "compute_id").write_text(f"{root}\n")
    return agent


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
        agent.write(script=script)
        mark = placement.mark()
        assert agent.once().returncode == 0
        writes = sum(request.is_write for request in placement.since(mark))
        assert agent.once().returncode == 0, "what is missing goes in the second period"
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


def killed(proxy: FaultProxy, agent: AgentProcess, write: int, done_first: bool) -> None:
    """One life, ended before Placement gets this write, or after it has ``done`` it."""
    die_at(proxy, agent, write, done_first)
    agent.start("--once")
    assert agent.process is not None
    agent.process.wait(90)
    assert agent.process.returncode == -signal.SIGKILL, f"it was not killed: {agent.log}"
    proxy.heal()


@dataclass(frozen=True)
class Moments:
    """When to kill two lives of one host: in which write, and whether after it."""

    first: tuple[int, bool]
    second: tuple[int, bool]


def assert_that_it_recovers(
    directory: Path,
    placement: RealPlacement,
    proxy: FaultProxy,
    undisturbed: dict[str, Run],
    moments: Moments,
) -> None:
    placement.empty()
    root = str(uuid4())
    with_a_stranger(placement, root)
    agent = agent_in(directory, proxy.url, root, SCRIPT)
    for script, moment in ((SCRIPT, moments.first), (LATER, moments.second)):
        agent.write(script=script)
        killed(proxy, agent, *moment)
        for _ in range(2):
            done = agent.once()
            assert done.returncode == 0, f"{moments}: {done.stderr}"
        tree = tree_of(placement, root)
        assert tree == undisturbed[script].tree, str(moments)
        assert_stranger_untouched(tree)


def test_a_killed_agent_comes_to_the_same_tree(
    tmp_path: Path, placement: RealPlacement, proxy: FaultProxy, undisturbed: dict[str, Run]
) -> None:
    chance = random.Random()

    def moment(script: str) -> tuple[int, bool]:
        return chance.randint(1, undisturbed[script].writes), chance.random() < 0.5

    moments = Moments(moment(SCRIPT), moment(LATER))
    assert_that_it_recovers(tmp_path / "killed", placement, proxy, undisturbed, moments)


@pytest.mark.faults
def test_killed_at_each_of_its_writes_it_comes_to_the_same_tree(
    tmp_path: Path, placement: RealPlacement, proxy: FaultProxy, undisturbed: dict[str, Run]
) -> None:
    first, later = (
        [
            (write, done)
            for write in range(1, undisturbed[each].writes + 1)
            for done in (False, True)
        ]
        for each in (SCRIPT, LATER)
    )
    for number, moment in enumerate(first):
        moments = Moments(moment, later[number % len(later)])
        assert_that_it_recovers(tmp_path / str(number), placement, proxy, undisturbed, moments)
    assert len(first) >= len(later), "some write of the change was not killed in"
