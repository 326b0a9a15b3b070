"""A scripted fleet and its pages in a browser: ``python -m tests.servers.fleet_pages DIRECTORY``.

It writes pictures of both pages in each size into the directory; without one, those of the
documentation into ``docs/registry``.
"""

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from werkzeug.serving import WSGIRequestHandler, make_server

from agent.errors import UnknownHost
from agent.registry.record import ServiceRecord
from compute_registry import observed_placement
from compute_registry.control import Control
from compute_registry.page.trees import PlacementReads
from compute_registry.web import registry_app
from reportclient.model import SHARES_VIA_AGGREGATE
from tests.servers.browser import Browser
from tests.stranger import FakePlacement

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "registry"
HOSTS = 40
FULL = 13
"""The host whose tree is shown."""
ABSENT, DIFFERS = 31, 33
"""Hosts of which Placement does not have the root, or not the trait."""
DISABLED = "COMPUTE_STATUS_DISABLED"
AGGREGATE = "0f7ee0dc-3f0b-4a37-9b5d-5a8b1d3c2e11"
LATE = timedelta(days=2, hours=5)
ODD: dict[int, dict[str, object]] = {
    3: {"silent_for": 1520.0, "disabled": True, "disabled_reason": "power supply, ticket 4711"},
    7: {"contested_by": "cn7-new (boot 5f0c, /var/lib/compute-agent)"},
    11: {"silent_for": 340.0},
    13: {
        "disabled": True,
        "disabled_reason": "AUTO: libvirt: Failed to connect socket to "
        "'/var/run/libvirt/libvirt-sock': Connection refused",
        "degraded": "hypervisor: connection lost\ndriver libvirt: libvirtd does not answer\n"
        "pci_0000_c1_00_0: ECC errors: reserved completely",
    },
    17: {"forced_down": True},
    21: {"degraded": "driver libvirt: no answer\ndisk: no space left"},
    22: {"disabled": True, "disabled_reason": "new disks"},
    29: {"attached": True},
    DIFFERS: {"disabled": True, "disabled_reason": "firmware of the network cards"},
}


NAMES = {
    5: "compute-005-of-the-second-generation-in-the-oldest-hall.rack1.some-other-site.example.net",
    6: "gpu-001.lab.example.net",
    14: "bastion",
}
"""Names unlike the others': of 89 characters, of another domain, without one."""


def name_of(number: int) -> str:
    return NAMES.get(number) or f"compute-{number:03}.rack{number // 10 + 1}.dc1.example.org"


def root_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def records(hosts: int = HOSTS) -> list[ServiceRecord]:
    now = datetime(2030, 5, 17, 9, 30, tzinfo=UTC)
    found = []
    for number in range(1, hosts + 1):
        record = ServiceRecord(
            number,
            f"6810453c-a8bc-5a3d-9e45-{number:012}",
            name_of(number),
            rpc_version="6.5",
            last_seen=now,
            silent_for=number % 10 + 0.5,
            roots=(root_of(number),),
            address=f"cn{number} (boot 9e0b, /var/lib/compute-agent)",
            agent_version="1.0.0" if number % 9 else "0.9.2",
        )
        record = replace(record, **ODD.get(number, {}))
        if record.disabled:
            record = replace(record, disabled_at=now - LATE / number)
        found.append(record)
    return found


class ScriptedRegistry:
    """As much of a registry as the page reads."""

    def __init__(self, listed: list[ServiceRecord]) -> None:
        self.listed = listed

    def list_services(self) -> list[ServiceRecord]:
        return self.listed

    def get_service(self, host: str) -> ServiceRecord:
        for record in self.listed:
            if record.host == host:
                return record
        raise UnknownHost(f"no service has the host name {host}")


def placement(listed: list[ServiceRecord]) -> FakePlacement:
    api = FakePlacement()
    stranger = api.stranger
    for record in listed:
        if record.id == ABSENT:
            continue
        root = stranger.create_provider(record.host, uuid=root_of(record.id))
        stranger.add_trait(root, "COMPUTE_NODE")
        if record.disabled and record.id != DIFFERS:
            stranger.add_trait(root, DISABLED)
    host_tree(api, root_of(FULL), name_of(FULL))
    return api


def host_tree(api: FakePlacement, root: str, name: str) -> None:
    """Two NUMA nodes, network cards with functions, a GPU that is drained, and shared storage."""
    stranger = api.stranger
    for trait in ("COMPUTE_VOLUME_MULTI_ATTACH", "HW_CPU_X86_AVX2", "CUSTOM_RACK_2"):
        stranger.add_trait(root, trait)
    stranger.set_inventory(root, {"MEMORY_MB": {"total": 515072, "reserved": 4096}})
    stranger.set_aggregates(root, {AGGREGATE})
    guests: dict[str, dict[str, int]] = {root: {"MEMORY_MB": 16384}}
    for number in (0, 1):
        numa = stranger.create_child(root, f"{name}_NUMA_{number}")
        cpus = {"total": 64, "reserved": 2, "allocation_ratio": 4.0}
        stranger.set_inventory(numa, {"VCPU": cpus, "PCPU": {"total": 16}})
        guests[numa] = {"VCPU": 200 + 40 * number, "PCPU": 4}
        card = stranger.create_child(numa, f"{name}_pci_0000_{81 + number}_00_0")
        stranger.add_trait(card, "CUSTOM_PHYSNET_A")
        stranger.set_inventory(card, {"SRIOV_NET_VF": {"total": 16}})
        guests[card] = {"SRIOV_NET_VF": 3 + 7 * number}
    gpu = stranger.create_child(root, f"{name}_pci_0000_c1_00_0")
    stranger.set_inventory(gpu, {"VGPU": {"total": 4}})
    guests[gpu] = {"VGPU": 1}
    store = stranger.create_provider("ceph.dc1.example.org")
    stranger.set_inventory(store, {"DISK_GB": {"total": 400000}})
    stranger.set_aggregates(store, {AGGREGATE})
    stranger.add_trait(store, SHARES_VIA_AGGREGATE)
    guests[store] = {"DISK_GB": 1200}
    stranger.put_allocation(guests)
    # With its guest: a card that lost functions, and a GPU that is drained.
    stranger.set_inventory(card, {"SRIOV_NET_VF": {"total": 8}})
    stranger.set_inventory(gpu, {"VGPU": {"total": 4, "reserved": 4}})


class Quiet(WSGIRequestHandler):
    def log_request(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def served(hosts: int = HOSTS) -> Iterator[str]:
    """Where the page of the scripted fleet is."""
    listed = records(hosts)
    observed_placement.SUMMARY_FROM = 10**6  # the Placement in memory has no candidates
    reads = PlacementReads(placement(listed), lambda: "https://placement.dc1.example.org")
    app = registry_app(Control(ScriptedRegistry(listed), None), placement=reads)
    app.jinja_env.globals |= {"version": "1.0.0", "machine": "controller1"}
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/fleet"
    finally:
        server.shutdown()
        server.server_close()


HOST = f"/{name_of(FULL)}"
SHOTS = {
    "fleet-light": ("", 1280, 560, False),
    "fleet-dark": ("", 1280, 560, True),
    "host-light": (HOST, 1280, 860, False),
    "host-dark": (HOST, 1280, 860, True),
}
"""Path, width, height and whether dark, by the name of a picture of the documentation."""
SIZES = ((1600, 900), (1280, 800), (800, 1100), (390, 844))
"""Widths and heights in which somebody who changes the pages looks at them."""


def every_size() -> dict[str, tuple[str, int, int, bool]]:
    """Both pages in each size, light and dark."""
    return {
        f"{name}-{width}-{'dark' if dark else 'light'}": (path, width, height, dark)
        for name, path in (("fleet", ""), ("host", HOST))
        for width, height in SIZES
        for dark in (False, True)
    }


def draw(folder: Path, shots: Mapping[str, tuple[str, int, int, bool]]) -> None:
    """Write the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with served() as url, Browser() as browser:
        for name, (path, width, height, dark) in shots.items():
            browser.shown_as(width, height, dark=dark)
            browser.open(url + path)
            browser.screenshot(folder / f"{name}.png")


if __name__ == "__main__":
    draw(*(Path(sys.argv[1]), every_size()) if sys.argv[1:] else (FOLDER, SHOTS))
