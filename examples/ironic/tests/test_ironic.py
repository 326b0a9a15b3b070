"""The driver on nodes of an Ironic: a stub of its API, and a real one where there is one.

The real one is used if the command ``ironic`` is on the PATH, or is named by IRONIC.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ironic_stub import IronicStub
from operator_of import Operator
from real_ironic import RealIronic

from drivers.api import DriverNotReady
from driverkit.contract import DriverContract
from driverkit.host import context
from ironic_nodes.driver import IronicDriver
from ironic_nodes.node import Node, inventory
from reportclient.model import Provider
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot

GONE = "9d6ba763-8e93-5284-b069-776c52a0868f"
FREE = Node("u", "gold.large", "available", "power off", False, None, frozenset())


@pytest.fixture(scope="module")
def real_ironic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealIronic]:
    command = os.environ.get("IRONIC") or shutil.which("ironic")
    if command is None:
        pytest.skip("no real Ironic: the command ironic is not there, and IRONIC does not name it")
    server = RealIronic(Path(command), tmp_path_factory.mktemp("ironic"))
    yield server
    server.stop()


@pytest.fixture
def stub() -> Iterator[IronicStub]:
    server = IronicStub()
    yield server
    server.stop()


@pytest.fixture(params=["stub", "real"])
def url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("stub" if request.param == "stub" else "real_ironic").url


@pytest.fixture
def operator(url: str) -> Iterator[Operator]:
    made = Operator(url)
    yield made
    for node in made.request("GET", "/v1/nodes?fields=uuid&limit=3")["nodes"]:
        made.maintain(node["uuid"], on=True)
        made.remove(node["uuid"])


def configuration(url: str) -> str:
    return f"[ironic]\nauth_type = none\nendpoint_override = {url}\n"


def driver_of(url: str, directory: Path) -> IronicDriver:
    return IronicDriver(context(directory, IronicDriver.list_opts(), configuration(url)))


@pytest.fixture
def driver(url: str, tmp_path: Path) -> Iterator[IronicDriver]:
    made = driver_of(url, tmp_path)
    yield made
    made.cleanup_host("host1")


def asked(driver: IronicDriver, node: str, *before: str):
    tree = ProviderTree(Snapshot.build([Provider(node, node, traits=frozenset(before))]))
    driver.update_provider_tree(tree, node)
    return tree.data(node)


@pytest.mark.parametrize(
    ("field", "value", "reserved"),
    [
        ("maintenance", False, 0),
        ("maintenance", True, 1),
        ("instance_uuid", "i", 1),
        ("power_state", "error", 1),
        ("power_state", None, 1),
        ("provision_state", None, 0),
        *(
            ("provision_state", s, 1)
            for s in ("enroll", "active", "cleaning", "clean wait", "error")
        ),
    ],
)
def test_a_node_that_nobody_can_have_is_reserved(field: str, value, reserved: int) -> None:
    node = Node(**{**FREE.__dict__, field: value})
    assert inventory(node)["CUSTOM_GOLD_LARGE"]["reserved"] == reserved
    assert (node.taken is not None) == bool(reserved)


def test_nodes_of_all_pages_are_roots_named_by_their_uuids(operator, driver) -> None:
    nodes = sorted(operator.enroll("gold.large") for _ in range(5))
    assert list(driver.get_available_nodes()) == nodes
    assert driver.get_nodenames_by_uuid() == dict(zip(nodes, nodes, strict=True))
    for node in nodes[3:]:
        operator.remove(node)


def test_a_node_is_one_unit_with_its_traits_and_free_once_it_is_provided(operator, driver) -> None:
    node = operator.enroll("gold.large", ("CUSTOM_RAID", "HW_CPU_X86_VMX"))
    driver.get_available_nodes()
    first = asked(driver, node, "CUSTOM_OPERATORS")
    assert first.inventory["CUSTOM_GOLD_LARGE"]["reserved"] == 1
    assert first.traits == {"CUSTOM_OPERATORS", "CUSTOM_RAID", "HW_CPU_X86_VMX"}
    operator.provide(node)
    driver.get_available_nodes()
    assert asked(driver, node).inventory["CUSTOM_GOLD_LARGE"] == {
        "total": 1,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": 1,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }
    operator.maintain(node, on=True)
    operator.request("PUT", f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_RAID"]})
    driver.get_available_nodes()
    third = asked(driver, node, "CUSTOM_OPERATORS", "CUSTOM_RAID", "HW_CPU_X86_VMX")
    assert third.inventory["CUSTOM_GOLD_LARGE"]["reserved"] == 1
    assert third.traits == {"CUSTOM_OPERATORS", "CUSTOM_RAID"}


def test_a_node_without_a_resource_class_has_no_inventory_and_is_named(operator, driver) -> None:
    node = operator.enroll(None)
    driver.get_available_nodes()
    assert asked(driver, node).inventory == {}
    assert driver.degraded(node) == {"resource_class": "it has no resource_class in Ironic"}


def only_east(operator: Operator, driver: IronicDriver, option: str) -> None:
    operator.enroll("gold.large")
    ours = operator.enroll("gold.large")
    change = {"op": "add", "path": f"/{option}", "value": "east"}
    operator.request("PATCH", f"/v1/nodes/{ours}", [change])
    driver.context.conf.set_override(option, "east", "ironic")
    assert list(driver.get_available_nodes()) == [ours]


def test_only_nodes_of_the_shard_are_listed(operator, driver) -> None:
    only_east(operator, driver, "shard")


def test_only_nodes_of_the_conductor_group_are_listed(stub, tmp_path: Path) -> None:
    """A real Ironic takes no group that has no conductor."""
    only_east(Operator(stub.url), driver_of(stub.url, tmp_path), "conductor_group")


def test_a_node_that_is_gone_is_left_as_it_is(operator, driver) -> None:
    with pytest.raises(DriverNotReady, match=f"Ironic does not show the node {GONE}"):
        driver.update_provider_tree(ProviderTree(), GONE)


def test_an_ironic_that_is_away_is_told_with_its_address(stub, tmp_path: Path) -> None:
    stub.stop()
    with pytest.raises(DriverNotReady, match=f"127.0.0.1:{stub.port}"):
        driver_of(stub.url, tmp_path).get_available_nodes()
    stub.start()


class TestIronicDriver(DriverContract):
    @pytest.fixture
    def driver_config(self, stub: IronicStub) -> str:
        return configuration(stub.url)

    @pytest.fixture
    def make_driver(self, stub: IronicStub, driver_context):
        operator = Operator(stub.url)
        for number in range(2):
            operator.provide(operator.enroll("gold.large", (f"CUSTOM_RACK_{number}",)))
        return lambda: IronicDriver(driver_context)

    @pytest.fixture
    def lose_backend(self, stub: IronicStub) -> Callable[[], Callable[[], object]]:
        def lose() -> Callable[[], object]:
            stub.stop()
            return stub.start

        return lose
