"""The shipped fleet of two hundred hosts, as its scripted driver reports it, in a Placement."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from driverkit.scripted.driver import FakeDriver
from drivers.api import DriverContext
from reportclient.model import Provider
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot
from tests.integration.agent_host import Here
from tests.servers.bulk_load import load
from tests.servers.placement import RealPlacement

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "fake" / "fleet.yaml"
CEPH = "ceph.example.org"
DISABLED = "COMPUTE_STATUS_DISABLED"


def host(number: int) -> str:
    return f"host{number:03}.example.org"


def uuid(number: int) -> str:
    """As the script has it."""
    return f"00000000-0000-4000-8000-{number:012}"


def fleet(*, disabled: int = 0) -> Snapshot:
    """All trees of the fleet, as the driver leaves them; the last ``disabled`` are disabled."""
    conf = SimpleNamespace(fake=SimpleNamespace(script=str(SCRIPT)))
    driver = FakeDriver(DriverContext("host", Path("/nonexistent"), conf))
    nodes = driver.get_nodenames_by_uuid()
    found: dict[str, Provider] = {}
    for number, (own, name) in enumerate(nodes.items()):
        tree = ProviderTree()
        tree.new_root(name, own)
        driver.update_provider_tree(tree, name)
        if number >= len(nodes) - disabled:
            tree.add_traits(name, DISABLED)
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
