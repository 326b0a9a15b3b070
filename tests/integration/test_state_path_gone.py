"""``state_path`` is removed or renamed while the agent runs: a condition says so until a start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement


@pytest.fixture
def agent(tmp_path: Path, placement: RealPlacement) -> Iterator[AgentProcess]:
    agent = AgentProcess(tmp_path, placement.url)
    agent.start()
    agent.until_reported()
    yield agent
    agent.kill()


def test_a_renamed_state_path_is_told_and_serves_again_once_it_is_back(agent: AgentProcess) -> None:
    state = agent.state_path
    moved = state.rename(state.with_name("elsewhere"))
    agent.until_logged("was removed, renamed or replaced")
    assert not state.exists(), "nothing is saved where nobody else is kept out"
    assert agent.stop() == 0
    moved.rename(state)
    assert agent.once().returncode == 0, "the same host"
