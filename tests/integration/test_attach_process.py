"""The real agent in attach mode: it waits, makes no identity of its own, answers no calls."""

from reportclient.provider_tree import own_uuid
from tests.integration.agent_host import Here
from tests.servers.agent import AgentProcess

ROOT = "c0ffee00-0000-4000-8000-00000000000a"
CARD = own_uuid(ROOT, "card0")
SCRIPT = (
    "nodes: {testhost: {traits: [CUSTOM_HAS_CARDS], children: {card0: {inventory: {FPGA: 2}}}}}\n"
)


def test_it_waits_for_the_root_and_hangs_its_devices_beneath(placement, tmp_path) -> None:
    agent = AgentProcess(tmp_path, placement.url, SCRIPT)
    agent.options += "transport_url = kombu+memory://\n[compute]\nroot_provider = attach\n"
    agent.write()
    host = Here(tmp_path, placement.url, host="testhost")  # whose configuration is the agent's
    waiting = host.ctl("plan")
    assert waiting.code == 1
    assert "waiting for the root provider testhost" in waiting.err
    assert "no root of this host is known" in host.ctl("tree").err
    with agent:
        agent.until_logged("waiting for the root provider testhost")
        placement.stranger.create_provider("testhost", ROOT)
        placement.stranger.set_inventory(ROOT, {"VCPU": {"total": 8}})
        agent.until_logged("resolved: waiting for")
        agent.until(lambda: len(placement.uuids(f"?in_tree={ROOT}")) == 2)
        assert agent.stop() == 0
    assert agent.log.count("WARNING compute_agent.") == 1, "told once"
    assert not (agent.state_path / "compute_id").exists()
    assert placement.stranger.traits(ROOT) == {"CUSTOM_HAS_CARDS"}
    assert placement.stranger.inventory(ROOT)["VCPU"]["total"] == 8
    assert "Serving RPC calls" not in agent.log
    status = host.ctl("status").text
    assert (
        "service: attach mode: the owner of the root provider enables and disables this host"
        in status
    )
    assert "not known" not in status
    quiet = agent.once()
    assert quiet.returncode == 0, quiet.stderr
    assert "calls to Placement" not in quiet.stderr
    assert host.ctl("plan").code == 0
    agent.write(script=SCRIPT.replace("FPGA: 2", "FPGA: 3"))
    assert "total 2 → 3" in host.ctl("plan").out, "plan knows which providers the agent made"
    assert agent.once().returncode == 0
    assert placement.stranger.inventory(CARD)["FPGA"]["total"] == 3
    assert "testhost_card0" in host.ctl("tree").out
