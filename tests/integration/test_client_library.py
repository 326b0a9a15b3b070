"""The library in programs of other services: their adapters, asyncio and green threads."""

import asyncio
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
from tests.servers.placement import RealPlacement
from tests.servers.process import completed
from tests.servers.reference import reference_python

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = "00000000-0000-4000-8000-000000000001"


def test_the_programs_of_the_examples_are_typed_strictly() -> None:
    programs = (REPOSITORY / "examples" / "client").glob("*.py")
    words = [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", *programs]
    done = completed(*words, cwd=REPOSITORY)
    assert done.returncode == 0, done.stdout


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
    ran = completed(*words, cwd=REPOSITORY)
    assert ran.stdout == "[13, 13, 13, 13]\n", ran.stderr


GREEN = """
import eventlet
eventlet.monkey_patch()
import sys
from tests.integration.test_client_library import Client, report_host, with_keystoneauth
client = Client(with_keystoneauth(sys.argv[1]))
results = eventlet.GreenPool().imap(lambda number: report_host(client, number), range(1, 5))
print([result.calls for result in results])
"""


@pytest.mark.faults
@pytest.mark.needs("nova")
def test_novas_quiet_period_is_one_call_when_allocations_are_read_lazily() -> None:
    command = [sys.executable, "-m", "benchmarks.lazily", "--reference", reference_python()]
    ran = completed(*command, cwd=REPOSITORY)
    assert ran.stdout == (
        "11 providers, 5 consumers: a quiet period is 17 calls, and 1 when allocations are read lazily\n"
    ), ran.stderr
