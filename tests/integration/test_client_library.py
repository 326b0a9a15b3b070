"""The library in programs of other services: their adapters, asyncio and green threads."""

import asyncio
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from operator import methodcaller
from pathlib import Path

import pytest
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from openstack.connection import Connection

from reportclient import Client, Result
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


EVERY_NAME = """
from reportclient import Client, FileStore, Inventory, OneProvider, Problem, Provider, ProviderData
from reportclient import ProviderTree, Result, Store, Times, View, __version__, errors

def owns(provider: Provider) -> bool:
    return provider.name.startswith("mine")

def report(adapter: object, store: Store, root: str) -> tuple[Problem, ...]:
    client = Client(adapter, store=store or FileStore("views"), owns=owns, times=Times(60))
    tree: ProviderTree = client.tree(root)
    data: ProviderData = tree.data(root)
    tree.update_inventory(data.name, {"VGPU": Inventory(total=8)})
    one: OneProvider = client.provider(root)
    try:
        result: Result = client.update(tree)
        one.add_traits("CUSTOM_GOLD")
    except errors.PlacementError as err:
        step: errors.Next = err.next
        raise SystemExit(f"{__version__}: {step}") from err
    view: View = result.view
    return result.problems if view.certain else ()
"""


def test_a_program_of_all_public_names_is_typed_strictly_and_loads(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(EVERY_NAME)
    for words in (["-m", "mypy", "--strict"], []):
        ran = subprocess.run(
            [sys.executable, *words, program], cwd=REPOSITORY, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_programs_of_the_examples_run_in_two_threads_at_once(placement: RealPlacement) -> None:
    """With one client: on one compute node, and on one each."""
    client = Client(with_keystoneauth(placement.url))
    guests = [f"00000000-0000-4000-8000-0000000000c{number}" for number in range(4)]
    for number, host in enumerate(("host1", "host2"), 1):
        placement.stranger.create_provider(host, f"00000000-0000-4000-8000-00000000000{number}")

    def at_once(name: str, *calls: list[object]) -> list[str]:
        program = runpy.run_path(str(REPOSITORY / "examples" / "client" / f"{name}.py"))
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda words: program["main"](client, *words), calls))

    devices = [f"0000:8{number}:00.0=VGPU,INTEL" for number in range(2)]
    reported = at_once("accelerators", *[[host, devices] for host in ("host1", "host1", "host2")])
    assert all(text.endswith("calls") for text in reported), reported
    bridges = ["br-a=a,1000", "br-b=b,1000"]
    reported = at_once("bandwidth", *[[host, bridges] for host in ("host1", "host1", "host2")])
    assert all(text.endswith("all is reported") for text in reported), reported
    reserved = at_once("reservations", *[["host1", "reserve", f"l{n}", "4"] for n in range(4)])
    assert max(map(len, reserved)) > 100, "the four leases"
    claimed = at_once("claims", *[[guest, "claim", "VGPU=1"] for guest in guests])
    assert len({*claimed}) == 4, "there are four"
    assert at_once("claims", [guests[0], "release"], [guests[0], "release"]) == 2 * ["released"]
    (moved,) = at_once("claims", [guests[1], "move", "VGPU=1"])
    assert moved == claimed[0]


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


def test_reports_get_through_while_others_write_25_times_a_second(
    placement: RealPlacement,
) -> None:
    client, done = Client(with_keystoneauth(placement.url)), threading.Event()
    placement.stranger.create_provider("host1", ROOT)
    placement.stranger.set_inventory(ROOT, {"VCPU": {"total": 100_000}})

    def boot_guests() -> None:
        while not done.wait(0.04):
            placement.stranger.put_allocation({ROOT: {"VCPU": 1}})

    with ThreadPoolExecutor() as pool:
        guests = pool.submit(boot_guests)
        try:
            for number in range(1, 16):
                vgpus = {"VGPU": {"total": number}}
                set_vgpus = methodcaller(
                    "update_inventory", ROOT, {"VCPU": {"total": 100_000}, **vgpus}
                )
                assert client.edit(ROOT, set_vgpus).ok
        finally:
            done.set()
        guests.result()
    assert placement.stranger.inventory(ROOT)["VGPU"]["total"] == 15


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
