"""docs/client.rst: what its commands say is what they say."""

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


def test_a_stranger_hangs_devices_beneath_novas_root(placement: RealPlacement) -> None:
    root = placement.stranger.create_provider("compute1")
    placement.stranger.set_inventory(root, {"VCPU": {"total": 8}})
    placement.stranger.add_trait(root, "COMPUTE_NODE")
    environment = {"PLACEMENT_URL": placement.url, "PLACEMENT_TOKEN": "admin"}
    shown = [one for one in steps(PAGE) if isinstance(one, Command)]
    for command in (one for one in shown if "devices.py" in one.words):
        assert said(command, **environment) == command.output, command.words
    names = {
        row["name"] for row in placement.request("GET", "/resource_providers")["resource_providers"]
    }
    assert names == {"compute1", "compute1_accel_0000:82:00.0"}
    assert placement.stranger.traits(root) == {"COMPUTE_NODE"}
    assert set(placement.stranger.inventory(root)) == {"VCPU"}


def test_the_calls_of_other_services_are_those_of_the_table() -> None:
    [command] = [one for one in steps(PAGE) if isinstance(one, Command) and "services" in one.words]
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
@pytest.mark.skipif(reference_python() is None, reason="no environment with nova")
def test_novas_quiet_period_is_one_call_when_allocations_are_read_lazily() -> None:
    [command] = [one for one in steps(PAGE) if isinstance(one, Command) and "lazily" in one.words]
    words = command.words.replace(".venv-nova/bin/python", str(reference_python()))
    assert said(Command(words, "")) == command.output
