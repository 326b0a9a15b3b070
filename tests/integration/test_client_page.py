"""docs/client.rst and client-programs.rst: what their commands say is what they say."""

from __future__ import annotations

import asyncio
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from openstack.connection import Connection

from reportclient.client import Client, Result
from reportclient.errors import InUse, Unreachable
from tests.integration.transcripts import Command, steps
from tests.servers.placement import RealPlacement
from tests.servers.reference import reference_python

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = "00000000-0000-4000-8000-000000000001"
PAGE = (REPOSITORY / "docs" / "client.rst").read_text()
PROGRAMS_PAGE = (REPOSITORY / "docs" / "client-programs.rst").read_text()
PROGRAMS = sorted((REPOSITORY / "examples" / "client").glob("*.py"))


def said(command: Command, **environment: str) -> str:
    """By this interpreter, whatever ``python`` is."""
    words = re.sub(r"\bpython(?= )", sys.executable, command.words)
    environment = {**os.environ, **environment, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        ["bash", "-c", words],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0
    return done.stdout.strip()


@pytest.fixture
def root(placement: RealPlacement) -> str:
    """A compute node that Nova has created, with a child of a fourth service."""
    uuid = placement.stranger.create_provider("compute1")
    placement.stranger.set_inventory(uuid, {"VCPU": {"total": 8}})
    placement.stranger.add_trait(uuid, "COMPUTE_NODE")
    placement.stranger.create_child(uuid, "theirs")
    return uuid


def test_three_services_report_beneath_novas_root_and_leave_all_else(
    placement: RealPlacement, root: str
) -> None:
    environment = {"PLACEMENT_URL": placement.url, "PLACEMENT_TOKEN": "admin"}
    shown = [one for one in steps(PROGRAMS_PAGE) if isinstance(one, Command)]
    run = [one for one in shown if "examples/client" in one.words]
    assert {program.name for program in PROGRAMS} == {
        re.findall(r"(\w+\.py)", one.words)[0] for one in run
    }
    for command in run:
        assert said(command, **environment) == command.output, command.words
    agent = "compute1:Open vSwitch agent"
    listed = placement.providers(f"?in_tree={root}")
    assert {row["name"] for row in listed} == {
        "compute1",
        "theirs",
        "compute1_accel_0000:82:00.0",
        agent,
        f"{agent}:br-a",
        f"{agent}:br-b",
        "reservations_compute1",
    }
    assert placement.stranger.traits(root) == {"COMPUTE_NODE"}
    assert set(placement.stranger.inventory(root)) == {"VCPU"}
    bridges = {row["uuid"] for row in listed if row["name"].startswith(f"{agent}:")}
    assert {row["parent_provider_uuid"] for row in listed if row["uuid"] in bridges} == {
        next(row["uuid"] for row in listed if row["name"] == agent)
    }
    assert sorted(
        placement.stranger.inventory(uuid)["NET_BW_EGR_KILOBIT_PER_SEC"]["total"]
        for uuid in bridges
    ) == [10_000_000, 25_000_000]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_a_program_is_typed_strictly_and_uses_the_librarys_public_names(program: Path) -> None:
    words = [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", str(program)]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    table = PAGE.partition("\nNames\n")[2].partition("For Nova")[0]
    used = set(re.findall(r"from (reportclient\.\w+) import", program.read_text()))
    assert used and all(name in table for name in used)


def test_the_calls_of_other_services_are_those_of_the_table() -> None:
    shown = [one for one in steps(PROGRAMS_PAGE) if isinstance(one, Command)]
    [command] = [one for one in shown if "benchmarks.services" in one.words]
    assert said(command) == command.output


def test_each_public_name_is_there() -> None:
    table = PAGE.partition("\nNames\n")[2].partition("For Nova")[0]
    names = re.findall(r"``(reportclient\.[\w.]+)``", table)
    assert len(names) > 10
    for name in names:
        assert pkgutil.resolve_name(name)


def with_keystoneauth(url: str) -> Adapter:
    return Adapter(Session(Token(url, "admin")), service_type="placement")


def with_openstacksdk(url: str) -> Adapter:
    session = Session(Token(url, "admin"))
    return Connection(session=session, placement_endpoint_override=url).placement


@pytest.mark.parametrize("adapter", [with_keystoneauth, with_openstacksdk])
def test_it_works_with_the_adapters_that_services_have(
    adapter: Callable[[str], Adapter], placement: RealPlacement
) -> None:
    client = Client(adapter(placement.url))

    def vgpus(total: int) -> Result:
        tree = client.tree(ROOT, name="host1")
        tree.update_inventory(ROOT, {"VGPU": {"total": total}})
        tree.add_traits(ROOT, "CUSTOM_GOLD")
        return client.update(tree)

    assert vgpus(8).calls == 4  # a root, a name, traits, inventory
    placement.stranger.add_trait(ROOT, "HW_CPU_X86_AVX")
    assert vgpus(4).ok, "the conflict is resolved"
    assert placement.stranger.traits(ROOT) == {"CUSTOM_GOLD", "HW_CPU_X86_AVX"}
    with pytest.raises(InUse):
        client.delete_trait("CUSTOM_GOLD")
    assert client.delete(ROOT).ok
    client.delete_trait("CUSTOM_GOLD")
    placement.stop()
    with pytest.raises(Unreachable, match=placement.url):
        client.find_provider("host1")


def report_host(client: Client, number: int) -> Result:
    root = f"00000000-0000-4000-8000-{number:012}"
    tree = client.tree(root, name=f"host{number}")
    for child in range(6):
        tree.new_child(f"host{number}_{child}", root)
        tree.update_inventory(f"host{number}_{child}", {"VGPU": {"total": 1}})
    return client.update(tree)


def test_roots_are_reported_at_the_same_time_from_asyncio(placement: RealPlacement) -> None:
    client = Client(with_keystoneauth(placement.url))

    async def report() -> list[Result]:
        hosts = (asyncio.to_thread(report_host, client, number) for number in range(1, 9))
        return await asyncio.gather(*hosts)

    assert [result.calls for result in asyncio.run(report())] == [13] * 8


@pytest.mark.skipif(not list(metadata.distributions(name="eventlet")), reason="no eventlet")
def test_roots_are_reported_at_the_same_time_from_green_threads(placement: RealPlacement) -> None:
    words = [sys.executable, "-W", "ignore", "-c", GREEN, placement.url]
    ran = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert ran.stdout == "[13, 13, 13, 13]\n", ran.stderr


GREEN = """
import eventlet
eventlet.monkey_patch()
import sys
from tests.integration.test_client_page import Client, report_host, with_keystoneauth
client = Client(with_keystoneauth(sys.argv[1]))
results = eventlet.GreenPool().imap(lambda number: report_host(client, number), range(1, 5))
print([result.calls for result in results])
"""


@pytest.mark.faults
@pytest.mark.needs("nova")
def test_novas_quiet_period_is_one_call_when_allocations_are_read_lazily() -> None:
    [command] = [one for one in steps(PAGE) if isinstance(one, Command) and "lazily" in one.words]
    words = command.words.replace(".venv-nova/bin/python", str(reference_python()))
    assert said(Command(words, "")) == command.output
