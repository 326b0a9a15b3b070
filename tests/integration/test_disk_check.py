"""Health's ``disk`` covers every file that the agent writes to ``state_path``."""

import json

from agent.state.saved_root import root_path
from tests.integration.agent_host import AgentHost

SCRIPT = "nodes: {host1: {inventory: {VCPU: 8}}}"


def test_a_directory_in_the_place_of_a_file_is_named(placement, tmp_path) -> None:
    host = AgentHost(tmp_path, placement.url)
    files = tmp_path / "files"
    files.mkdir()
    host.configure(more=f"[compute]\nprovider_config_location = {files}\n")
    host.report(SCRIPT)
    state = host.compute_id.parent
    root = root_path(state, host.compute_id.read_text().strip())
    (files / "a.yaml").write_text(
        "meta: {schema_version: '1.0'}\nproviders:\n- identification: {uuid: $COMPUTE_NODE}\n"
        "  traits: {additional: [CUSTOM_A]}\n"
    )
    host.script("nodes: {host1: {inventory: {VCPU: 9}}, host2: {inventory: {VCPU: 1}}}")
    for path in (root, state / "service.json", state / "provider-config.json"):
        path.unlink(missing_ok=True)
        path.mkdir()
        host.agent()
        checks = json.loads((state / "status.json").read_text())["checks"]
        assert any(str(path) in json.dumps(check) for check in checks), checks
        path.rmdir()
