"""``state_path`` is removed or renamed while the agent runs: the host stays the same host."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement
from tests.waiting import eventually


@pytest.fixture
def agent(tmp_path: Path, placement: RealPlacement) -> Iterator[AgentProcess]:
    agent = AgentProcess(tmp_path, placement.url)
    agent.start()
    agent.until_reported()
    yield agent
    agent.kill()


def _removed(path: Path) -> bool:
    """Remove a directory into which the agent may write meanwhile."""
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


GONE: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: eventually(lambda: _removed(path)),
    "renamed": lambda path: path.rename(path.with_name("elsewhere")),
}


@pytest.mark.parametrize("what", GONE)
def test_the_next_period_notices_and_identity_and_lock_are_kept(
    agent: AgentProcess, what: str
) -> None:
    state = agent.state_path
    journals = {path.name for path in state.glob("root-*")}
    own = (state / "compute_id").read_text()
    GONE[what](state)
    agent.until_logged("was removed, renamed or replaced: it has this host's identity again")
    agent.until((state / "status.json").exists)
    checks = json.loads((state / "status.json").read_text())["checks"]
    assert [check["name"] for check in checks if check["text"]] == ["disk"]
    assert (state / "compute_id").read_text() == own
    assert {path.name for path in state.glob("root-*")} == journals
    second = agent.once()
    assert second.returncode == 1 and "is in use by another compute-agent" in second.stderr
    assert agent.stop() == 0
    assert agent.once().returncode == 0, "the same host, so its name is not taken"
