"""A fleet of two hundred hosts with two network cards each, all on one Ceph, in a Placement."""

from collections.abc import Iterator
from pathlib import Path

from drivers.api import Device, DeviceDriver, DriverContext
from reportclient.model import Provider
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot
from tests.integration.agent_host import Here
from tests.servers.bulk_load import load
from tests.servers.placement import RealPlacement

HOSTS = 200
CEPH = "ceph.example.org"
RACKS = ["7a0e6a3c-52a5-4a39-8f4b-0d5b5f0c1e02"]
DISABLED = "COMPUTE_STATUS_DISABLED"


def host(number: int) -> str:
    return f"host{number:03}.example.org"


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


class Fleet(DeviceDriver):
    def devices(self, node: str) -> Iterator[Device]:
        cpus = {"total": 64, "reserved": 2, "allocation_ratio": 4.0}
        resources = {"VCPU": cpus, "MEMORY_MB": {"total": 262144, "reserved": 4096}}
        yield Device(node, resources, ["HW_CPU_X86_AVX2"], RACKS)
        for n in range(2):
            yield Device(f"pf{n}", {"SRIOV_NET_VF": 16}, [f"CUSTOM_PHYSNET_{n}"])
        yield Device(CEPH, {"DISK_GB": 1048576}, aggregates=RACKS, sharing=True)


def fleet(*, disabled: int = 0) -> Snapshot:
    """All trees of the fleet, as the driver leaves them; the last ``disabled`` are disabled."""
    driver = Fleet(DriverContext("host", Path("/nonexistent")))
    found: dict[str, Provider] = {}
    for number in range(HOSTS):
        tree = ProviderTree()
        tree.new_root(host(number), uuid(number))
        driver.update_provider_tree(tree, host(number))
        if number >= HOSTS - disabled:
            tree.add_traits(host(number), DISABLED)
        found |= tree.freeze().providers
    return Snapshot.build(found.values())


def load_fleet(placement: RealPlacement, *, disabled: int = 0) -> None:
    """Into a Placement that is emptied for it."""
    placement.start()
    placement.empty()
    load(placement, fleet(disabled=disabled))


def fleet_with_commands(placement: RealPlacement, directory: Path) -> Here:
    """The commands of one host, on a Placement with the fleet, of which two hosts are disabled."""
    load_fleet(placement, disabled=2)
    made = Here(directory, placement.url)
    made.configure()
    return made
