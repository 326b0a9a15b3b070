"""``computectl status`` and ``adopt`` beside the real agent."""

import fcntl
import json
import os
import shutil
import signal
import uuid
from types import SimpleNamespace

import pytest

from agent.nodes.identity import NODES
from agent.reporting.status import ENDED, started_at
from agent.state.lock import StateDirectory, holder
from agent.state.saved_root import root_path
from computectl.app import main
from reportclient.forms import sealed, unsealed
from tests.integration.agent_host import Here
from tests.servers.agent import AgentProcess
from tests.waiting import eventually


@pytest.fixture
def agent(placement, tmp_path):
    process = AgentProcess(tmp_path, placement.url)
    process.write()
    yield process
    process.kill()


def computectl(agent, *arguments):
    return Here(agent.directory, agent.placement_url).ctl(*arguments)


def begin(agent):
    agent.start()
    agent.until_reported()


def written(agent):
    return json.loads((agent.state_path / "status.json").read_text())


def test_status_of_an_agent_from_before_its_start_until_it_is_killed(agent):
    said = computectl(agent, "status")
    assert said.code == 1
    assert "has compute-agent run here?" in said.err
    begin(agent)
    said = computectl(agent, "status")
    assert (said.code, said.err) == (0, "")
    assert "testhost: well" in said.out
    (row,) = json.loads(computectl(agent, "status", "-f", "json").out)
    assert row["ok"] is True
    assert row["conditions"] == []
    file = written(agent)
    assert row.items() >= {"host": "testhost", "service": file["service"]}.items()

    agent.send(signal.SIGSTOP)
    eventually(lambda: computectl(agent, "status").code == 1)
    said = computectl(agent, "status")
    assert "stuck" in said.err and "says why" in said.err
    # Where nobody waits for it, a killed process keeps its pid and its entry in /proc.
    os.kill(file["pid"], signal.SIGKILL)
    eventually(lambda: started_at(file["pid"]) == ENDED)
    eventually(lambda: holder(agent.state_path) is None)  # its other threads may end later
    said = computectl(agent, "status")
    assert said.code == 1
    assert "not running (its last pid was" in said.err and "journalctl -u" in said.err
    assert ": not running, its last status; last" in said.out


def test_an_agent_whose_pid_somebody_else_has_is_not_running(agent):
    """This test has the pid now, and began at another time."""
    assert agent.once().returncode == 0
    path = agent.state_path / "status.json"
    path.write_text(json.dumps({**written(agent), "pid": os.getpid()}))
    said = computectl(agent, "status")
    assert said.code == 1
    assert "not running" in said.err
    path.write_text(json.dumps({**written(agent), "started": started_at(os.getpid())}))
    assert "not running" not in computectl(agent, "status").err


def test_the_lock_says_who_runs_and_a_full_disk_is_not_ok(agent, monkeypatch, capsys):
    assert agent.once().returncode == 0
    assert "not running (its last pid was" in computectl(agent, "status").err
    held = StateDirectory.locked(agent.state_path)
    said = computectl(agent, "status")
    assert f"process {os.getpid()} runs, and has written no status yet" in said.err
    (agent.state_path / "status.json").unlink()
    assert "compute-agent runs, and has written no status yet" in computectl(agent, "status").err
    held.close()
    begin(agent)
    full = SimpleNamespace(f_flag=0, f_blocks=9, f_bavail=0)
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(SystemExit) as ended:
        main(["--config-file", str(agent.config), "status"])
    assert ended.value.code == 1
    assert f"disk: {agent.state_path} is full" in " ".join(capsys.readouterr().out.split())


COMPLETE = {"version": 1, "host": "h", "pid": 1, "started": 1, "updated": 1.0, "interval": 60}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"version": 99}',
        json.dumps({**COMPLETE, "nodes": [{"node": "h"}]}),
        json.dumps({**COMPLETE, "nodes": [], "pid": "one"}),
    ],
)
def test_a_status_file_that_can_not_be_used_says_what_to_do(agent, text):
    (agent.state_path / "status.json").write_text(text)
    said = computectl(agent, "status")
    assert said.code != 0
    assert "restart compute-agent" in said.err
    assert "Traceback" not in said.err


def test_a_second_node_leaves_the_first_its_provider_and_computectl_knows(agent, placement):
    agent.write(script="nodes: {testhost: {inventory: {VCPU: 4}}}\n")
    assert agent.once().returncode == 0
    own = (agent.state_path / "compute_id").read_text().strip()
    agent.write(script="nodes: {testhost: {inventory: {VCPU: 4}}, other: {inventory: {VCPU: 2}}}\n")
    planned = json.loads(computectl(agent, "plan", "-f", "json").out)
    said = agent.once()
    assert said.returncode == 0, said.stderr
    uuids = placement.uuids()
    assert uuids.keys() == {"testhost", "other"}
    assert uuids["testhost"] == own
    assert uuids["other"] in json.dumps(planned)
    (call,) = [call for call in planned if own in json.dumps(call)]
    assert call["kind"] == "set_traits"  # the mark of a service with many nodes
    tree = computectl(agent, "tree").out
    assert own in tree and uuids["other"] in tree


def test_a_host_that_lost_its_identity_is_adopted_again(agent, placement):
    assert agent.once().returncode == 0
    was = (agent.state_path / "compute_id").read_text().strip()
    before = placement.request("GET", f"/resource_providers/{was}/traits")
    for name in ("compute_id", "nodes.json"):
        (agent.state_path / name).unlink()
    lost = agent.once()
    assert lost.returncode == 1
    assert "computectl adopt testhost" in lost.stderr
    assert was in lost.stderr
    now = (agent.state_path / "compute_id").read_text().strip()
    assert now != was
    assert now in lost.stderr
    said = computectl(agent, "adopt", "testhost")
    assert said.code == 0, said.err
    assert "restart compute-agent" in said.out
    assert (agent.state_path / "compute_id").read_text().strip() == was
    assert agent.once().returncode == 0
    assert placement.request("GET", f"/resource_providers/{was}/traits") == before


def test_a_provider_below_the_root_is_adopted_while_no_agent_runs(agent, placement):
    assert agent.once().returncode == 0
    own = (agent.state_path / "compute_id").read_text().strip()
    theirs = placement.stranger.create_child(own, "theirs")
    placement.stranger.set_inventory(theirs, {"FPGA": {"total": 1}})
    other = placement.stranger.create_child(own, "other")
    state = os.open(agent.state_path, os.O_RDONLY)
    fcntl.flock(state, fcntl.LOCK_EX)
    said = computectl(agent, "adopt", "theirs")
    assert said.code == 2
    assert "in use by another compute-agent" in said.err and "stop compute-agent" in said.err
    os.close(state)
    said = computectl(agent, "adopt", "theirs")
    assert (said.code, said.err) == (0, "")
    assert "start compute-agent" in said.out
    assert "already" in computectl(agent, "adopt", theirs).out
    assert placement.stranger.inventory(theirs), "Placement is only read"
    assert agent.once().returncode == 0
    assert {*placement.uuids(f"?in_tree={own}").values()} == {own, other}


def test_what_a_driver_reports_of_an_adopted_provider_counts(agent, placement):
    agent.write(script="nodes: {testhost: {inventory: {VCPU: 4}}}\n")
    assert agent.once().returncode == 0
    own = (agent.state_path / "compute_id").read_text().strip()
    theirs = placement.stranger.create_child(own, "testhost_gpu")
    placement.stranger.set_inventory(theirs, {"FPGA": {"total": 1}})
    for trait in ("CUSTOM_RACK", "COMPUTE_NODE"):
        placement.stranger.add_trait(theirs, trait)
    wanted = "{inventory: {VCPU: 4}, children: {gpu: {inventory: {VGPU: 2}}}}"
    agent.write(script=f"nodes: {{testhost: {wanted}}}\n")
    assert f"computectl adopt {theirs}" in agent.once().stderr
    assert computectl(agent, "adopt", "testhost_gpu").code == 0
    assert agent.once().returncode == 0
    assert placement.stranger.inventory(theirs).keys() == {"VGPU"}
    assert placement.stranger.traits(theirs) == {"CUSTOM_RACK"}, "an operator's, not Nova's"


def test_adopting_what_is_another_hosts_or_not_there_changes_nothing(agent, placement):
    assert agent.once().returncode == 0
    was = (agent.state_path / "compute_id").read_text()
    other = placement.stranger.create_provider("other", str(uuid.uuid4()))
    placement.stranger.create_child(other, "others-child")
    for name, words in (
        ("others-child", "nor below this host's root"),
        ("nobody", "no provider"),
        ("other", "already has the root provider"),
    ):
        said = computectl(agent, "adopt", name)
        assert said.code == 2
        assert words in said.err
    assert (agent.state_path / "compute_id").read_text() == was
    placement.stranger.create_child(was.strip(), "theirs")
    root_path(agent.state_path, was.strip()).unlink()
    said = computectl(agent, "adopt", "theirs")
    assert said.code == 2 and "compute-agent --once" in said.err


def test_what_another_machine_wrote_waits_for_an_operator(agent, placement):
    assert agent.once().returncode == 0
    root, path = (agent.state_path / "compute_id").read_text().strip(), agent.state_path / NODES
    path.write_bytes(sealed({**unsealed(path.read_bytes()), "machine": str(uuid.uuid4())}))
    mark = placement.mark()
    done, retired = agent.once(), computectl(agent, "retire", "--yes")
    assert (done.returncode, retired.code) == (1, 2)
    for text in (done.stderr, retired.err):
        assert "another machine wrote" in text and f"computectl adopt {root}" in text
    assert {each.method for each in placement.since(mark)} <= {"GET"}
    assert "now belongs to this machine" in computectl(agent, "adopt", root).out
    assert agent.once().returncode == 0


def test_yesterdays_state_takes_nothing_away_and_enables_no_host(agent, placement):
    small = agent.script
    agent.write(script=small.replace("MEMORY_MB: 2048}", "DISK_GB: 9}, traits: [CUSTOM_OLD]"))
    assert agent.once().returncode == 0
    shutil.copytree(agent.state_path, agent.directory / "yesterday")
    agent.write(script=small)
    root, stranger = placement.uuids()["testhost"], placement.stranger
    assert computectl(agent, "service", "disable", "testhost").code == 0
    assert agent.once().returncode == 0 and "DISK_GB" not in stranger.inventory(root)
    records = {**stranger.inventory(root), "DISK_GB": {"total": 7}}
    stranger.set_inventory(root, records)
    stranger.add_trait(root, "CUSTOM_OLD")
    shutil.rmtree(agent.state_path)
    shutil.copytree(agent.directory / "yesterday", agent.state_path)
    assert agent.once().returncode == agent.once().returncode == 0
    assert stranger.inventory(root)["DISK_GB"]["total"] == 7
    assert stranger.traits(root) >= {"CUSTOM_OLD", "COMPUTE_STATUS_DISABLED"}
    assert "to enable it: computectl service enable testhost" in computectl(agent, "status").out
