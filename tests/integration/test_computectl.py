"""computectl against a real Placement, beside a real agent with a scripted driver."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from agent import config
from agent.nodes.nodes import BULK_PAYS_FROM
from agent.period.rules import Rules
from agent.placement import adapter_from_conf
from drivers import loader
from drivers.api import DriverContext
from reportclient.http import PlacementAPI
from reportclient.root import BulkWrites
from tests.agents import Agent
from tests.integration.agent_host import AgentHost, Said, gpus_on_children, one_line
from tests.kit.installed import MOVES_VGPUS, SICK
from tests.servers.placement import RealPlacement

NUMA1 = "      numa1: {inventory: {SRIOV_NET_VF: 8}}\n"
NUMA_HOST = f"""
nodes:
  "{{host}}":
    inventory: {{VCPU: {{total: 8, reserved: 1, allocation_ratio: 4.0}}, MEMORY_MB: 16384}}
    traits: [HW_CPU_X86_AVX, HW_CPU_X86_AVX2, CUSTOM_RACK_7]
    children:
      numa0: {{inventory: {{SRIOV_NET_VF: 8}}}}
{NUMA1}"""


@pytest.fixture
def host(placement: RealPlacement, tmp_path: Path) -> AgentHost:
    host = AgentHost.configured(tmp_path, placement.url)
    host.script(NUMA_HOST)
    return host


# -- tree


def test_the_tree_of_this_host_is_drawn(host: AgentHost) -> None:
    assert host.agent().code == 0
    said = host.ctl("tree")
    assert (said.code, said.err) == (0, "")
    uuid = host.compute_id.read_text().strip()
    assert f"\nhost1  {uuid}  generation 2\n" in said.out
    vcpu = next(line for line in said.out.splitlines() if "VCPU" in line)
    assert vcpu.split() == ["│", "VCPU", "8", "1", "4", "28", "0", "28"]
    assert "├─ host1_numa0  " in said.out
    assert "HW_CPU_X86_{AVX,AVX2}" in said.out


def test_what_is_used_is_shown(host: AgentHost, placement: RealPlacement) -> None:
    host.agent()
    uuid = host.compute_id.read_text().strip()
    placement.stranger.put_allocation({uuid: {"VCPU": 3, "MEMORY_MB": 1024}})
    placement.stranger.put_allocation({uuid: {"VCPU": 2}})
    rows = {row["resource_class"]: row for row in host.ctl("tree", "-f", "json").json()}
    assert {name: rows[name]["used"] for name in ("VCPU", "MEMORY_MB", "SRIOV_NET_VF")} == {
        "VCPU": 5,
        "MEMORY_MB": 1024,
        "SRIOV_NET_VF": 0,
    }
    assert "2 consumers" in host.ctl("tree").out


def test_any_member_leads_to_its_tree_and_is_marked(host: AgentHost) -> None:
    host.agent()
    said = host.ctl("tree", "host1_numa1")
    assert [line.split()[1] for line in said.out.splitlines() if "◀" in line] == ["host1_numa1"]
    assert "\nhost1  " in said.out
    uuid = next(line.split()[2] for line in said.out.splitlines() if "◀" in line)
    assert host.ctl("tree", uuid).out == said.out


def test_another_hosts_tree_is_drawn_without_a_compute_id(
    host: AgentHost, placement: RealPlacement
) -> None:
    placement.stranger.create_provider("other")
    assert host.ctl("tree", "other").out.startswith("other  ")
    assert not host.compute_id.exists()


def test_every_root_of_a_host_with_many_nodes_is_drawn_without_asking_the_driver(
    host: AgentHost,
) -> None:
    host.report("nodes: {n1: {inventory: {VCPU: 1}}, n2: {inventory: {VCPU: 2}}}")
    host.script("this is no script: [")
    rows = host.ctl("tree", "-f", "json").json()
    assert sorted(row["provider"] for row in rows) == ["n1", "n2"]
    assert host.ctl("tree").out.count("capacity") == 2


@pytest.mark.parametrize("wanted", ["json", "yaml", "csv", "value", "table"])
def test_every_format_lists_every_inventory(host: AgentHost, wanted: str) -> None:
    host.agent()
    said = host.ctl("tree", "-f", wanted)
    assert (said.code, said.err) == (0, "")
    assert said.out.count("SRIOV_NET_VF") == 2
    assert said.out.count("MEMORY_MB") == 1


def test_csv_has_text_in_its_cells(host: AgentHost) -> None:
    host.agent()
    [vcpu] = [
        row
        for row in csv.DictReader(io.StringIO(host.ctl("tree", "-f", "csv").out))
        if row["resource_class"] == "VCPU"
    ]
    assert "CUSTOM_RACK_7 HW_CPU_X86_AVX HW_CPU_X86_AVX2" in vcpu["traits"]
    assert (vcpu["total"], vcpu["reserved"], vcpu["ratio"], vcpu["capacity"]) == (
        "8",
        "1",
        "4.0",
        "28",
    )


def test_a_terminal_that_knows_no_boxes_gets_ascii(host: AgentHost) -> None:
    host.agent()
    said = host.ctl("tree", PYTHONIOENCODING="ascii")
    assert said.out.isascii()
    assert "|- host1_numa0  " in said.out


def test_a_reader_that_has_seen_enough_is_no_error(host: AgentHost) -> None:
    host.agent()
    read, write = os.pipe()
    os.close(read)
    code = "from computectl.app import main; main()"
    args = [sys.executable, "-c", code, "--config-file", str(host.config), "tree"]
    with os.fdopen(write) as gone:
        done = subprocess.run(args, stdout=gone, stderr=subprocess.PIPE, timeout=300, check=False)
    assert done.stderr == b""


# -- plan


@pytest.mark.parametrize("reported", [False, True])
def test_the_plan_is_what_the_next_period_sends(
    host: AgentHost, placement: RealPlacement, reported: bool
) -> None:
    if reported:
        host.agent()
        host.script(NUMA_HOST.replace("16384", "32768").replace(NUMA1, ""))
    planned = host.ctl("plan", "-f", "json")
    assert planned.code == 0, planned
    mark = placement.mark()
    assert host.agent().code == 0
    writes = [(r.method, r.path) for r in placement.since(mark) if r.is_write]
    if not reported:  # the compute_id is made by then
        assert Counter(method for method, _ in writes) == Counter(methods(planned))
        assert planned.err.count("\n") == 1 and "compute_id" in planned.err
    else:
        assert sorted(method for method, _ in writes) == ["DELETE", "PUT"]
        assert writes == [(row["method"], row["path"]) for row in planned.json()]


def methods(planned: Said) -> list[str]:
    return [row["method"] for row in planned.json()]


@pytest.mark.parametrize("bulk", [0, 50])
def test_the_bodies_are_those_that_are_sent(
    host: AgentHost, placement: RealPlacement, bulk: int
) -> None:
    host.configure(more=f"[compute]\nbulk_inventory_writes = {bulk}")
    host.compute_id.parent.mkdir()
    host.compute_id.write_text("c0ffee00-0000-4000-8000-000000000001\n")
    planned = host.ctl("plan", "-f", "json").json()
    sent = a_period(host)
    assert [(row["method"], row["path"], row["body"]) for row in planned] == sent
    assert len(sent) > 6


def test_a_reshape_is_pending_and_is_shown_at_the_start(
    host: AgentHost, placement: RealPlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.install_driver("moves", MOVES_VGPUS)
    monkeypatch.syspath_prepend(str(host.site))
    host.script('nodes: {"{host}": {inventory: {VCPU: 8, VGPU: 8}}}')
    host.agent()
    uuid = host.compute_id.read_text().strip()
    placement.stranger.put_allocation({uuid: {"VGPU": 2}})
    host.script(gpus_on_children(vcpus=8, vgpus=4))
    pending = host.ctl("plan")
    assert pending.code == 1
    assert "needs a reshape" in pending.err and "--at-start" in pending.err
    shown = host.ctl("plan", "--at-start")
    assert shown.code == 0, shown
    assert "reshape, all at once: " in shown.out
    assert "the allocations of 1 consumer" in " ".join(shown.out.split())
    planned = host.ctl("plan", "--at-start", "-f", "json").json()
    assert [(row["method"], row["path"], row["body"]) for row in planned] == a_period(host)
    assert "POST" in [row["method"] for row in planned]


def a_period(host: AgentHost) -> list[tuple]:
    """What a period of this host sends, with the bodies, one request after the other."""
    conf = config.load_config(["--config-file", str(host.config)])
    settings = config.settings(conf)
    drivers = loader.load_drivers(
        settings.drivers, DriverContext(settings.host, settings.state_path, conf)
    )
    api = Recording(PlacementAPI(adapter_from_conf(conf)))
    rules = Rules(owner_traits=settings.rules.owner_traits)
    own = host.compute_id.read_text().strip()
    agent = Agent(
        api,
        named={one.name: one.driver for one in drivers},
        root=own,
        bulk=BulkWrites(settings.bulk_chunk, BULK_PAYS_FROM),
        state=settings.state_path,
        writing=False,
        rules=rules,
    )
    report = agent.period(time.monotonic())
    assert report.ok, report.texts()
    return api.writes


class Recording:
    def __init__(self, api: PlacementAPI) -> None:
        self.api = api
        self.writes: list[tuple] = []

    def request(self, method, path, *, json=None, needs=None):
        if method != "GET":
            self.writes.append((method, path, json))
        return self.api.request(method, path, json=json, needs=needs)


def test_looking_sends_only_gets_and_leaves_no_file(
    host: AgentHost, placement: RealPlacement
) -> None:
    mark = placement.mark()
    for args in (["plan"], ["plan", "--at-start"], ["tree"], ["tree", "host1"]):
        host.ctl(*args)
    assert not host.compute_id.parent.exists()
    host.agent()
    kept = {path: path.stat().st_mtime_ns for path in host.compute_id.parent.iterdir()}
    host.script(NUMA_HOST.replace("16384", "32768"))
    mark, before = placement.mark(), mark
    for args in (["plan"], ["plan", "--at-start"], ["tree"], ["tree", "host1"]):
        assert host.ctl(*args).code == 0
    assert {path: path.stat().st_mtime_ns for path in host.compute_id.parent.iterdir()} == kept
    assert {request.method for request in placement.since(mark)} == {"GET"}
    written_by_agent = [r for r in placement.since(before) if r.is_write]
    assert written_by_agent and not [r for r in placement.since(mark) if r.is_write]


def test_a_change_is_told_in_words_and_as_the_call(host: AgentHost) -> None:
    host.agent()
    host.script(NUMA_HOST.replace("16384", "32768"))
    uuid = host.compute_id.read_text().strip()
    said = host.ctl("plan")
    assert said.out.startswith(f"host1 ({uuid}): 1 change\n")
    assert "  set inventory of MEMORY_MB on host1: total 16384 → 32768\n" in said.out
    assert f"      PUT /resource_providers/{uuid}/inventories\n" in said.out
    body = json.loads(said.out[said.out.index("{") :])
    assert body["inventories"]["MEMORY_MB"]["total"] == 32768
    assert "PUT" not in host.ctl("plan", "--no-calls").out


def test_exit_codes_of_a_plan(host: AgentHost) -> None:
    assert host.ctl("plan", "--exit-code").code == 3
    host.agent()
    quiet = host.ctl("plan", "--exit-code")
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.out.endswith(": nothing would change\n")


def test_a_driver_that_fails_is_told_with_its_words(host: AgentHost) -> None:
    host.install_driver("sick", SICK)
    (host.directory / "deed.py").write_text("raise RuntimeError('no such device')")
    said = host_with_id(host).ctl("plan")
    assert said.code == 1
    assert said.err.startswith("computectl: host1: driver sick: RuntimeError: no such device (")
    assert said.err.count("\n") == 1
    assert "but there are errors" in said.text


def test_a_problem_is_told_and_the_rest_is_planned(host: AgentHost) -> None:
    host.script(NUMA_HOST.replace("total: 8", "total: 0"))
    said = host_with_id(host).ctl("plan")
    assert said.code == 1
    assert "inventory of VCPU: total is 0" in said.err
    assert "create root provider host1" in said.out


def test_a_name_that_another_provider_has_is_told_before_the_agent_runs_into_it(
    host: AgentHost, placement: RealPlacement
) -> None:
    uuid = placement.stranger.create_provider("host1")
    said = host_with_id(host).ctl("plan")
    assert said.code == 1
    assert f"already has a provider named host1 with UUID {uuid}" in said.err
    assert "computectl adopt host1" in said.err


def host_with_id(host: AgentHost) -> AgentHost:
    host.compute_id.parent.mkdir()
    host.compute_id.write_text("c0ffee00-0000-4000-8000-000000000001\n")
    return host


# -- what goes wrong


def test_a_host_where_no_agent_ran_says_so_and_stays_so(host: AgentHost) -> None:
    assert "has the agent run here?" in one_line(host.ctl("tree"), 2)
    assert not host.compute_id.exists()


def test_a_host_that_has_not_reported_says_so(host: AgentHost) -> None:
    text = one_line(host_with_id(host).ctl("tree"), 1)
    assert "no provider of host1" in text and "computectl plan" in text


def test_a_spoiled_compute_id_is_named(host: AgentHost) -> None:
    host_with_id(host).compute_id.write_text("me\n")
    assert str(host.compute_id) in one_line(host.ctl("tree"), 2)


def test_an_unknown_provider_is_named(host: AgentHost) -> None:
    assert "nobody" in one_line(host.ctl("tree", "nobody"), 2)


def test_an_unreachable_placement(host: AgentHost) -> None:
    host.url = "http://127.0.0.1:1"
    host.configure()
    assert "check that Placement is up" in one_line(host.ctl("tree", "host1"), 1)


def test_wrong_credentials(host: AgentHost) -> None:
    host.configure(token="")
    host.config.write_text(host.config.read_text().replace("auth_type = admin_token\n", ""))
    assert str(host.config) in one_line(host.ctl("tree", "host1"), 2)


def test_a_missing_configuration_file(host: AgentHost) -> None:
    assert "/nowhere.conf" in one_line(host.bare_ctl("--config-file", "/nowhere.conf", "tree"), 2)


def test_a_driver_that_there_is_not(host: AgentHost) -> None:
    host.configure(driver="fakr")
    text = one_line(host_with_id(host).ctl("plan"), 2)
    assert "'fakr'" in text and "is fake meant?" in text


def test_an_unknown_option(host: AgentHost) -> None:
    host.configure(more="[compute]\nowner_trai = CUSTOM_X")
    assert "no option owner_trai in [compute]" in one_line(host_with_id(host).ctl("plan"), 2)


def test_a_mistyped_command(host: AgentHost) -> None:
    assert "is tree meant?" in one_line(host.ctl("tre3"), 2)


def test_a_column_that_there_is_not(host: AgentHost) -> None:
    host.agent()
    assert "nope" in one_line(host.ctl("tree", "-f", "value", "-c", "nope"), 2)


def test_a_traceback_only_for_who_asks(host: AgentHost) -> None:
    said = host.ctl("--debug", "tree", "nobody")
    assert said.code == 2
    assert "Traceback" in said.err


# -- help


@pytest.mark.parametrize("command", ["tree", "plan"])
def test_help_has_examples(host: AgentHost, command: str) -> None:
    said = host.bare_ctl(command, "--help")
    assert said.code == 0
    assert said.out.partition("examples:")[2].count(f"computectl {command}") >= 2


def test_help_of_the_whole_lists_the_commands(host: AgentHost) -> None:
    for args in ([], ["--help"]):
        assert {"tree", "plan"} <= set(host.bare_ctl(*args).out.split())


def test_drawing_a_tree_imports_no_driver(host: AgentHost) -> None:
    host.agent()
    code = (
        "import sys; from computectl.app import ComputeCtl;"
        f"code = ComputeCtl().run(['--config-file', {str(host.config)!r}, 'tree']);"
        "print(code, *sorted(m for m in sys.modules if m.startswith(('driverkit.', 'drivers.', 'libvirt'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    code, *modules = done.stdout.splitlines()[-1].split()
    assert code == "0"
    assert not [
        name for name in modules if name.startswith(("driverkit.scripted", "drivers.libvirt"))
    ]
