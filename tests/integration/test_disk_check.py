"""Health's ``disk`` covers every file that the agent writes to ``state_path``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.state.saved_root import root_path
from tests.integration.agent_host import AgentHost
from tests.servers.placement import RealPlacement

SCRIPT = "nodes: {host1: {inventory: {VCPU: 8}}}"


@pytest.mark.parametrize("name", ["root", "service.json", "provider-config.json"])
def test_a_directory_in_the_place_of_a_file_is_named(
    placement: RealPlacement, tmp_path: Path, name: str
) -> None:
    host = AgentHost(tmp_path, placement.url)
    files = tmp_path / "files"
    files.mkdir()
    host.configure(more=f"[compute]\nprovider_config_location = {files}\n")
    host.report(SCRIPT)
    state = host.compute_id.parent
    name = root_path(state, host.compute_id.read_text().strip()).name if name == "root" else name
    (state / name).unlink(missing_ok=True)
    (state / name).mkdir()
    (files / "a.yaml").write_text(
        "meta: {schema_version: '1.0'}\nproviders:\n- identification: {uuid: $COMPUTE_NODE}\n"
        "  traits: {additional: [CUSTOM_A]}\n"
    )
    host.script("nodes: {host1: {inventory: {VCPU: 9}}, host2: {inventory: {VCPU: 1}}}")
    host.agent()
    checks = json.loads((state / "status.json").read_text())["checks"]
    assert any(str(state / name) in json.dumps(check) for check in checks), checks
