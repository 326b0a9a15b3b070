"""computectl against a real Placement, beside a real agent with a scripted driver."""

import csv
import io
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from stevedore import ExtensionManager

from agent import config
from agent.nodes.nodes import BULK_PAYS_FROM
from agent.period.rules import Rules
from agent.placement import adapter_from_conf
from drivers import loader
from drivers.api import DriverContext
from reportclient.http import PlacementAPI
from reportclient.root import BulkWrites
from tests.agents import Agent
from tests.integration.agent_host import AgentHost, Here, gpus_on_children, one_line
from tests.kit.installed import MOVES_VGPUS, SICK
from tests.servers.placement import RealPlacement
from tests.servers.process import completed

NUMA1 = "      numa1: {inventory: {SRIOV_NET_VF: 8}}\n"
BELOW = "{vf: {inventory: {CUSTOM_VF: 2}}}"
NUMA_HOST = f"""
nodes:
  "{{host}}":
    inventory: {{VCPU: {{total: 8, reserved: 1, allocation_ratio: 4.0}}, MEMORY_MB: 16384}}
    traits: [HW_CPU_X86_AVX, HW_CPU_X86_AVX2, CUSTOM_RACK_7]
    children:
      numa0: {{inventory: {{SRIOV_NET_VF: 8}}}}
{NUMA1}"""


@pytest.fixture
def host(placement: RealPlacement, tmp_path: Path) -> Here:
    host = Here.configured(tmp_path, placement.url)
    host.script(NUMA_HOST)
    return host


@pytest.fixture
def process(placement: RealPlacement, tmp_path: Path) -> AgentHost:
    """A host whose commands run as processes."""
    host = AgentHost.configured(tmp_path, placement.url)
    host.script(NUMA_HOST)
    return host


@pytest.fixture(scope="module")
def reported(
    placement_server: RealPlacement, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Here]:
    """A host that has reported, for tests that change nothing; its tests stand first."""
    placement_server.start()
    placement_server.empty()
    host = Here.configured(tmp_path_factory.mktemp("reported"), placement_server.url)
    host.report(NUMA_HOST)
    yield host


# -- tree


def test_any_member_leads_to_its_tree_and_is_marked(reported: Here) -> None:
    said = reported.ctl("tree", "host1_numa1")
    assert [line.split()[1] for line in said.out.splitlines() if "◀" in line] == ["host1_numa1"]
    assert "\nhost1  " in said.out
    uuid = next(line.split()[2] for line in said.out.splitlines() if "◀" in line)
    assert reported.ctl("tree", uuid).out == said.out


@pytest.mark.parametrize("wanted", ["json", "yaml", "csv", "value", "table"])
def test_every_format_lists_every_inventory(reported: Here, wanted: str) -> None:
    said = reported.ctl("tree", "-f", wanted)
    assert (said.code, said.err) == (0, "")
    assert said.out.count("SRIOV_NET_VF") == 2
    assert said.out.count("MEMORY_MB") == 1


def test_csv_has_text_in_its_cells(reported: Here) -> None:
    rows = csv.DictReader(io.StringIO(reported.ctl("tree", "-f", "csv").out))
    [vcpu] = [row for row in rows if row["resource_class"] == "VCPU"]
    assert "CUSTOM_RACK_7 HW_CPU_X86_AVX HW_CPU_X86_AVX2" in vcpu["traits"]
    shown = [vcpu[name] for name in ("total", "reserved", "ratio", "capacity")]
    assert shown == ["8", "1", "4.0", "28"]


def test_a_column_that_there_is_not(reported: Here) -> None:
    assert "nope" in one_line(reported.ctl("tree", "-f", "value", "-c", "nope"), 2)


def test_drawing_a_tree_imports_no_driver(reported: Here) -> None:
    code = (
        "import sys; from computectl.app import ComputeCtl;"
        f"code = ComputeCtl().run(['--config-file', {str(reported.config)!r}, 'tree']);"
        "print(code, *(m for m in sys.modules if m.startswith(('driverkit.', 'drivers.', 'libvirt'))))"
    )
    done = completed(sys.executable, "-c", code)
    code, *modules = done.stdout.splitlines()[-1].split()
    assert code == "0"
    assert not [name for name in modules if name.startswith(DRIVERS)]


DRIVERS = ("driverkit.scripted", "drivers.libvirt")


def test_a_reader_that_has_seen_enough_is_no_error(reported: Here) -> None:
    read, write = os.pipe()
    os.close(read)
    code = "from computectl.app import main; main()"
    args = [sys.executable, "-c", code, "--config-file", str(reported.config), "tree"]
    with os.fdopen(write) as gone:
        done = subprocess.run(args, stdout=gone, stderr=subprocess.PIPE, timeout=300, check=False)
    assert done.stderr == b""


def test_the_tree_of_this_host_is_drawn_with_what_is_used(process: AgentHost, placement) -> None:
    assert process.agent().code == 0
    uuid = process.compute_id.read_text().strip()
    placement.stranger.put_allocation({uuid: {"VCPU": 3, "MEMORY_MB": 1024}})
    placement.stranger.put_allocation({uuid: {"VCPU": 2}})
    said = process.ctl("tree")
    assert (said.code, said.err) == (0, "")
    assert f"\nhost1  {uuid}  generation 4  2 consumers\n" in said.out
    vcpu = next(line for line in said.out.splitlines() if "VCPU" in line)
    assert vcpu.split() == ["│", "VCPU", "8", "1", "4", "28", "5", "23"]
    assert "├─ host1_numa0  " in said.out
    assert "HW_CPU_X86_{AVX,AVX2}" in said.out


def test_another_hosts_tree_is_drawn_without_a_compute_id(host: Here, placement) -> None:
    placement.stranger.create_provider("other")
    assert host.ctl("tree", "other").out.startswith("other  ")
    assert not host.compute_id.exists()


def test_every_root_of_a_host_is_drawn_without_asking_the_driver(host: Here) -> None:
    host.report("nodes: {n1: {inventory: {VCPU: 1}}, n2: {inventory: {VCPU: 2}}}")
    host.script("this is no script: [")
    rows = host.ctl("tree", "-f", "json").json()
    assert sorted(row["provider"] for row in rows) == ["n1", "n2"]
    assert host.ctl("tree").out.count("capacity") == 2


# -- plan


@pytest.mark.parametrize("reported", [False, True])
def test_the_plan_is_what_the_next_period_sends(
    process: AgentHost, placement: RealPlacement, reported: bool
) -> None:
    host = process
    if reported:
        host.agent()
        host.script(NUMA_HOST.replace("16384", "32768").replace(NUMA1, ""))
    planned = host.ctl("plan", "-f", "json")
    assert planned.code == 0, planned
    mark = placement.mark()
    assert host.agent().code == 0
    writes = [(r.method, r.path) for r in placement.since(mark) if r.is_write]
    if not reported:  # the compute_id is made by then
        assert Counter(method for method, _ in writes) == Counter(
            row["method"] for row in planned.json()
        )
        assert planned.err.count("\n") == 1 and "compute_id" in planned.err
    else:
        assert [method for method, _ in writes] == ["PUT", "PUT"], "a missing cell is emptied first"
        assert writes == [(row["method"], row["path"]) for row in planned.json()]


def test_what_is_in_use_waits_for_its_consumers_and_is_drained(host: Here, placement) -> None:
    """Also below a provider that goes as well, and once the agent has drained it."""
    host.report(NUMA_HOST.replace(NUMA1, f"{NUMA1.rstrip()[:-1]}, children: {BELOW}}}\n"))
    uuids = {row["provider"]: row["uuid"] for row in host.ctl("tree", "-f", "json").json()}
    guest = placement.stranger.put_allocation({uuids["host1_numa1_vf"]: {"CUSTOM_VF": 1}})
    host.script(NUMA_HOST.replace(NUMA1, "").replace(", MEMORY_MB: 16384", ""))
    planned = host.ctl("plan", "-f", "json")
    assert sorted((row["method"], row["provider"]) for row in planned.json()) == [
        ("PUT", "host1"),
        ("PUT", "host1_numa1"),
        ("PUT", "host1_numa1_vf"),
    ]
    assert planned.code == 0
    assert (
        f"host1: waits for consumers: host1_numa1_vf: draining: CUSTOM_VF is in use by {guest}"
        in planned.err
    )
    assert f"allocation unset --provider {uuids['host1_numa1_vf']}" in planned.err
    host.agent()
    planned = host.ctl("plan", "--exit-code")
    assert (planned.code, planned.err.count("waits for consumers: host1_numa1_vf")) == (0, 1)
    assert "nothing would change, while" in planned.out
    rows = {row["provider"]: row for row in host.ctl("tree", "-f", "json").json()}
    drain = rows["host1_numa1_vf"]
    assert (drain["draining_for"], rows["host1"]["draining_for"]) == ([guest], [])
    assert drain["draining_since"].endswith("+00:00")
    assert rows["host1"]["draining_since"] is None
    drawn = " ".join(host.ctl("tree").out.split())
    assert f"host1_numa1_vf: draining: in use by {guest} (for " in drawn
    assert f"allocation unset --provider {uuids['host1_numa1_vf']}" in drawn
    status = " ".join(host.ctl("status").out.split())
    assert (
        "host1_numa1_vf: draining: CUSTOM_VF is in use by" in status
        and " s) to end it sooner: migrate" in status
    )
    placement.stranger.delete_allocation(guest)
    assert "DELETE" in host.ctl("plan").out


@pytest.mark.parametrize("bulk", [0, 50])
def test_the_bodies_are_those_that_are_sent(host: Here, placement, bulk: int) -> None:
    host.configure(more=f"[compute]\nbulk_inventory_writes = {bulk}")
    host.compute_id.parent.mkdir()
    host.compute_id.write_text("c0ffee00-0000-4000-8000-000000000001\n")
    planned = host.ctl("plan", "-f", "json").json()
    sent = a_period(host)
    assert [(row["method"], row["path"], row["body"]) for row in planned] == sent
    assert len(sent) > 6


def test_a_reshape_is_pending_and_is_shown_at_the_start(
    process: AgentHost, placement: RealPlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.install_driver("moves", MOVES_VGPUS)
    monkeypatch.syspath_prepend(str(process.site))
    monkeypatch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})  # of this test process
    process.script('nodes: {"{host}": {inventory: {VCPU: 8, VGPU: 8}}}')
    process.agent()
    uuid = process.compute_id.read_text().strip()
    placement.stranger.put_allocation({uuid: {"VGPU": 2}})
    process.script(gpus_on_children(vcpus=8, vgpus=4))
    pending = process.ctl("plan")
    assert pending.code == 1
    assert "needs a reshape" in pending.err and "--at-start" in pending.err
    shown = process.ctl("plan", "--at-start")
    assert shown.code == 0, shown
    assert "reshape, all at once: " in shown.out
    assert "the allocations of 1 consumer" in " ".join(shown.out.split())
    planned = process.ctl("plan", "--at-start", "-f", "json").json()
    assert [(row["method"], row["path"], row["body"]) for row in planned] == a_period(process)
    assert "POST" in [row["method"] for row in planned]


def a_period(host: Here) -> list[tuple]:
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


def test_looking_sends_only_gets_and_leaves_no_file(host: Here, placement: RealPlacement) -> None:
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


def test_a_change_is_told_in_words_as_the_call_and_by_the_exit_code(host: Here) -> None:
    assert host.ctl("plan", "--exit-code").code == 3
    host.agent()
    quiet = host.ctl("plan", "--exit-code")
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.out.endswith(": nothing would change\n")
    host.script(NUMA_HOST.replace("16384", "32768"))
    uuid = host.compute_id.read_text().strip()
    said = host.ctl("plan")
    assert said.out.startswith(f"host1 ({uuid}): 1 change\n")
    assert "~ set inventory of MEMORY_MB on host1: total 16384 → 32768\n" in said.out
    assert f"      PUT /resource_providers/{uuid}/inventories\n" in said.out
    assert said.out.endswith("\nPlan: 0 to create, 1 to change, 0 to delete\n")
    body = json.loads(said.out[said.out.index("{") : said.out.index("\nPlan:")])
    assert body["inventories"]["MEMORY_MB"]["total"] == 32768
    assert "PUT" not in host.ctl("plan", "--no-calls").out


def test_a_driver_that_fails_is_told_with_its_words(process: AgentHost) -> None:
    process.install_driver("sick", SICK)
    (process.directory / "deed.py").write_text("raise RuntimeError('no such device')")
    said = host_with_id(process).ctl("plan")
    assert said.code == 1
    assert said.err.startswith("computectl: host1: driver sick: RuntimeError: no such device (")
    assert said.err.count("\n") == 1
    assert "but there are errors" in said.text


def test_a_problem_is_told_and_the_rest_is_planned(host: Here) -> None:
    host.script(NUMA_HOST.replace("total: 8", "total: 0"))
    said = host_with_id(host).ctl("plan")
    assert said.code == 1
    assert "inventory of VCPU: total is 0" in said.err
    assert "create root provider host1" in said.out


def test_a_plan_names_another_provider_with_the_name_of_the_root(host: Here, placement) -> None:
    uuid = placement.stranger.create_provider("host1")
    said = host_with_id(host).ctl("plan")
    assert said.code == 1
    assert f"already has a provider named host1 with UUID {uuid}" in said.err
    assert "computectl adopt host1" in said.err


def host_with_id(host: Here) -> AgentHost:
    host.compute_id.parent.mkdir()
    host.compute_id.write_text("c0ffee00-0000-4000-8000-000000000001\n")
    return host


# -- what goes wrong


def test_a_host_where_no_agent_ran_says_so_and_stays_so(host: Here) -> None:
    assert "has the agent run here?" in one_line(host.ctl("tree"), 2)
    assert not host.compute_id.exists()


def test_a_spoiled_compute_id_is_named(host: Here) -> None:
    host_with_id(host).compute_id.write_text("me\n")
    assert str(host.compute_id) in one_line(host.ctl("tree"), 2)


def test_an_unreachable_placement(host: Here) -> None:
    host.url = "http://127.0.0.1:1"
    host.configure()
    assert "check that Placement is up" in one_line(host.ctl("tree", "host1"), 1)


def test_a_configuration_without_credentials_is_named(host: Here) -> None:
    host.configure(token="")
    host.config.write_text(host.config.read_text().replace("auth_type = admin_token\n", ""))
    assert str(host.config) in one_line(host.ctl("tree", "host1"), 2)


@pytest.mark.parametrize(
    ("options", "words", "code", "named"),
    [
        ({}, "tree", 1, "no provider of host1"),
        ({}, "tree", 1, "computectl plan"),
        ({}, "tree nobody", 2, "nobody"),
        ({}, "--config-file /nowhere.conf tree", 2, "/nowhere.conf"),
        ({"driver": "fakr"}, "plan", 2, "no driver 'fakr'"),
        ({"driver": "fakr"}, "plan", 2, "is fake meant?"),
        ({"more": "[compute]\nowner_trai = X"}, "plan", 2, "no option owner_trai in [compute]"),
    ],
)
def test_what_is_wrong_is_one_line_with_a_next_step(
    host: Here, options: dict[str, str], words: str, code: int, named: str
) -> None:
    host.configure(**options)
    assert named in one_line(host_with_id(host).ctl(*words.split()), code)


def test_a_traceback_only_for_who_asks(host: Here) -> None:
    said = host.ctl("--debug", "tree", "nobody")
    assert said.code == 2
    assert "Traceback" in said.err


def test_help_has_the_commands_and_examples_of_each(host: Here) -> None:
    assert {"tree", "plan"} <= set(host.ctl("--help").out.split())
    for command in ("tree", "plan"):
        examples = host.ctl(command, "--help").out.partition("examples:")[2]
        assert examples.count(f"computectl {command}") >= 2
