"""The hosts of the fleet: 33 providers and 20 guests each."""

from collections.abc import Iterator
from typing import Any

from drivers.api import ComputeDriver
from reportclient.model import MAX_INT, Inventory, Provider
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot
from tests.servers.fleet import TRAITS
from tests.servers.fleet_hosts import name_of, uuid_of

DEVICES = 32
PROVIDERS = 1 + DEVICES
GUESTS = 20
TOTALS = {"VCPU": 64, "MEMORY_MB": 262144}
DEVICE, DEVICE_TRAIT = "SRIOV_NET_VF", "HW_NIC_SRIOV"
FIRST_RELEASE = "CUSTOM_RELEASE_1"


def device_uuid(number: int, device: int) -> str:
    """Return the UUID of a device, the same at each start."""
    return f"00000000-0000-4000-9{device:03}-{number:012}"


def number_of(host: str) -> int:
    """Return the number of a host."""
    return int(host.removeprefix("host"))


def tree(number: int) -> Snapshot:
    """Return the tree of a host as Placement has it after it was reported."""
    root = _provider(uuid_of(number), name_of(number), None, TOTALS, {*TRAITS, FIRST_RELEASE})
    return Snapshot.build([root, *_devices(number)])


def _devices(number: int) -> Iterator[Provider]:
    for each in range(DEVICES):
        name = f"{name_of(number)}_{each}"
        yield _provider(
            device_uuid(number, each), name, uuid_of(number), {DEVICE: 8}, {DEVICE_TRAIT}
        )


def _provider(
    uuid: str, name: str, parent: str | None, totals: dict[str, int], traits: set[str]
) -> Provider:
    inventory = {each: Inventory(total, 0, 1, MAX_INT, 1, 1.0) for each, total in totals.items()}
    return Provider(uuid, name, parent, inventory, frozenset(traits), frozenset())


def guests(number: int) -> Iterator[tuple[str, dict[str, dict[str, int]]]]:
    """Yield the guests of a host with their allocations."""
    for each in range(GUESTS):
        held = {
            uuid_of(number): {"VCPU": 2, "MEMORY_MB": 4096},
            device_uuid(number, each): {DEVICE: 1},
        }
        yield f"00000000-0000-4000-a{each:03}-{number:012}", held


class LargeHypervisor(ComputeDriver):
    """Reports one node with 32 devices; class attributes change all hosts of a process at once."""

    release = FIRST_RELEASE
    changed: dict[int, int] = {}  # noqa: RUF012  shared by all hosts of this process, on purpose
    """Number of removed VCPUs by host number."""

    def get_available_nodes(self) -> list[str]:
        """See :class:`ComputeDriver`."""
        return [self.context.host]

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Any = None,
    ) -> None:
        """See :class:`ComputeDriver`."""
        number = number_of(nodename)
        totals = {**TOTALS, "VCPU": TOTALS["VCPU"] - self.changed.get(number, 0)}
        provider_tree.update_inventory(
            nodename, {name: {"total": total} for name, total in totals.items()}
        )
        old = {each for each in provider_tree.data(nodename).traits if "_RELEASE_" in each}
        provider_tree.remove_traits(nodename, *old - {self.release})
        provider_tree.add_traits(nodename, self.release)
        for each in range(DEVICES):
            name = f"{nodename}_{each}"
            if not provider_tree.exists(name):
                provider_tree.new_child(name, nodename, device_uuid(number, each))
            provider_tree.update_inventory(name, {DEVICE: {"total": 8}})
            provider_tree.add_traits(name, DEVICE_TRAIT)
