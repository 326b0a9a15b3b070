"""Calls of other services' reports: as they send them, and with ``reportclient``.

    python -m benchmarks.services

Both sides report to one real Placement, each below a compute node of its own.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from driverkit.placement.server import PlacementServer
from examples.client import accelerators, bandwidth, reservations
from examples.client.accelerators import Device
from examples.client.bandwidth import Bridge
from reportclient.client import Client, Result
from reportclient.errors import NotFound
from reportclient.http import API, PlacementAPI, token_adapter
from reportclient.saved_view import FileStore

FOREIGN = "CUSTOM_OF_ANOTHER_SERVICE"
LATER = 7200.0
"""Seconds after which a verification is due."""

Devices = Mapping[str, Device]
"""Devices by the names of their providers."""
Bridges = Mapping[str, Bridge]
"""Bridges by the names of their providers."""


@dataclass
class Requests:
    """An API that counts; ``meanwhile`` is called once, before a request that matches."""

    api: API
    number: int = 0
    meanwhile: tuple[str, Callable[[], object]] | None = None

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See ``reportclient.http.API``."""
        if self.meanwhile and re.fullmatch(self.meanwhile[0], f"{method} {path}"):
            (_, action), self.meanwhile = self.meanwhile, None
            action()
        self.number += 1
        return self.api.request(method, path, json=json, needs=needs)

    def named(self, name: str) -> str:
        """Return the UUID of the provider with this name; 1 request."""
        listed = self.request("GET", f"/resource_providers?name={name}")["resource_providers"]
        return str(listed[0]["uuid"])

    def create(self, name: str, uuid: str, parent: str | None) -> None:
        """Create a provider; 1 request."""
        body = {"name": name, "uuid": uuid, "parent_provider_uuid": parent}
        self.request("POST", "/resource_providers", json=body)

    def replace(self, uuid: str, part: str, value: Any) -> None:
        """Replace a part of a provider, with the generation of that moment; 2 requests."""
        path = f"/resource_providers/{uuid}"
        generation = self.request("GET", path)["generation"]
        body = {"resource_provider_generation": generation, part: value}
        self.request("PUT", f"{path}/{part}", json=body)

    def traits(self, uuid: str) -> set[str]:
        """Return the traits of a provider; 1 request."""
        return set(self.request("GET", f"/resource_providers/{uuid}/traits")["traits"])


# -- Cyborg: the devices of a host below its compute node


@dataclass
class Conductor:
    """Cyborg's conductor: it sends the difference to its own database, ``known``."""

    api: Requests
    host: str
    known: Devices = field(default_factory=dict)

    def report(self, devices: Devices) -> None:
        """Find the compute node, then send what differs, device by device."""
        root = self.api.named(self.host)
        for uuid in map(accelerators.uuid_of, self.known.keys() - devices.keys()):
            self.api.request("GET", f"/resource_providers?in_tree={uuid}")
            self.api.request("DELETE", f"/resource_providers/{uuid}")
        for name, device in devices.items():
            known = self.known.get(name)
            if known is None:
                self._add(name, device, root)
                continue
            for trait in known.traits - device.traits:
                self._write_traits(name, remove={trait})
            if added := device.traits - known.traits:
                self._add_traits(name, added)
        self.known = devices

    def _add(self, name: str, device: Device, root: str) -> None:
        uuid = accelerators.uuid_of(name)
        if device.resource_class.startswith("CUSTOM_"):
            self.api.request("PUT", f"/resource_classes/{device.resource_class}")
        try:
            self.api.request("GET", f"/resource_providers/{uuid}")
        except NotFound:
            self.api.create(name, uuid, root)
        self.api.replace(uuid, "inventories", {device.resource_class: {"total": 1}})
        self._add_traits(name, device.traits)

    def _add_traits(self, name: str, traits: Iterable[str]) -> None:
        for trait in traits:
            self.api.request("PUT", f"/traits/{trait}")
        self._write_traits(name, add=traits)

    def _write_traits(self, name: str, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        """Read traits, then the generation: what is written in between is overwritten."""
        uuid = accelerators.uuid_of(name)
        traits = self.api.traits(uuid).union(add).difference(remove)
        self.api.replace(uuid, "traits", sorted(traits))


# -- Neutron: the bandwidth of an agent's bridges


def report_as_neutron(api: Requests, host: str, agent: str, bridges: Bridges) -> None:
    """Send everything, as Neutron's server does each time an agent starts."""
    root = api.named(host)
    for trait in (*(bridge.network for bridge in bridges.values()), *bandwidth.VNIC_TYPES):
        api.request("PUT", f"/traits/{trait}")
    for _ in bridges:  # the agent's provider once for each bridge
        _ensure(api, agent, root)
    for name in bridges:
        _ensure(api, name, bandwidth.uuid_of(agent))
    for name, bridge in bridges.items():
        api.replace(bandwidth.uuid_of(name), "traits", [bridge.network, *bandwidth.VNIC_TYPES])
    api.replace(bandwidth.uuid_of(agent), "traits", list(bandwidth.VNIC_TYPES))
    for name, bridge in bridges.items():
        api.replace(
            bandwidth.uuid_of(name),
            "inventories",
            {key: {"total": bridge.bandwidth} for key in bandwidth.CLASSES},
        )


def _ensure(api: Requests, name: str, parent: str) -> None:
    body = {"name": name, "parent_provider_uuid": parent}
    try:
        api.request("PUT", f"/resource_providers/{bandwidth.uuid_of(name)}", json=body)
    except NotFound:
        api.create(name, bandwidth.uuid_of(name), parent)


# -- the situations


class Ours:
    """A service with ``reportclient``; it looks up the UUID of its compute node once."""

    def __init__(self, api: Requests, host: str, directory: str) -> None:
        self.api, self.host = api, host
        self.root, self.now = "", 0.0
        self.store = FileStore(directory)
        self.restart(self.store)

    def restart(self, store: FileStore | None) -> None:
        """Forget all that the store does not have."""
        self.client = Client(self.api, store=store, clock=lambda: self.now)

    def report(self, function: Callable[..., Result], *arguments: Any) -> None:
        """Call the program's ``report``."""
        self.root = self.root or str(self.client.find_provider(self.host))
        assert function(self.client, self.root, *arguments).ok


def cyborg(placement: API, directory: str) -> None:
    """Print the situations of a host with four devices."""
    foreign = Requests(placement)
    theirs = Conductor(Requests(placement), "cyborg-theirs")
    ours = Ours(Requests(placement), "cyborg-ours", directory)
    for host in (theirs.host, ours.host):
        foreign.create(host, str(uuid4()), None)
    foreign.request("PUT", f"/traits/{FOREIGN}")

    def row(
        situation: str, function: str, gone: str = "", result: Callable[[str], str] = lambda _: ""
    ) -> None:
        first, second = (devices_of(side.host, function, gone) for side in (theirs, ours))
        print_row(
            f"  {situation}",
            calls(theirs.api, lambda: theirs.report(first)) + result(theirs.host),
            calls(ours.api, lambda: ours.report(accelerators.report, second)) + result(ours.host),
        )

    def meet(side: Conductor | Ours, request: str) -> None:
        """Let another service add a trait just before a request."""
        uuid = accelerators.uuid_of(f"{side.host}_fpga0")
        side.api.meanwhile = (
            request,
            lambda: foreign.replace(uuid, "traits", [*foreign.traits(uuid), FOREIGN]),
        )

    def has_foreign(host: str) -> str:
        return (
            ", kept"
            if FOREIGN in foreign.traits(accelerators.uuid_of(f"{host}_fpga0"))
            else ", lost"
        )

    def has_ssd(host: str) -> str:
        path = f"/resource_providers?uuid={accelerators.uuid_of(f'{host}_ssd0')}"
        return (
            ", mended" if foreign.request("GET", path)["resource_providers"] else ", never mended"
        )

    print_row("Cyborg, 4 devices", "theirs", "ours")
    row("cold start", "A")
    row("nothing has changed", "A")
    row("a trait swapped", "B")
    meet(theirs, "GET /resource_providers/[^/?]+")
    meet(ours, "PUT /resource_providers/.*/traits")
    row("another service adds a trait meanwhile", "C", result=has_foreign)
    row("a device gone", "C", "ssd1")
    for side in (theirs, ours):
        foreign.request(
            "DELETE", f"/resource_providers/{accelerators.uuid_of(f'{side.host}_ssd0')}"
        )
    ours.now += LATER
    row("a provider was deleted by hand", "C", "ssd1", has_ssd)
    ours.restart(ours.store)
    row("the service restarts", "C", "ssd1")
    ours.restart(None)
    row("the service restarts, without a store", "C", "ssd1")


def devices_of(host: str, function: str, gone: str) -> Devices:
    """Return two FPGAs, of which the first has a function, and two SSDs, without ``gone``."""
    fpga = {"CUSTOM_ACCEL_FPGA_INTEL", "CUSTOM_ACCEL_FPGA_PRODUCT_09C4"}
    ssd = frozenset({"CUSTOM_ACCEL_SSD_INSPUR", "CUSTOM_ACCEL_SSD_PRODUCT_1001"})
    devices = {
        "fpga0": Device("FPGA", frozenset({*fpga, f"CUSTOM_ACCEL_FPGA_FUNCTION_{function}"})),
        "fpga1": Device("FPGA", frozenset({*fpga, "CUSTOM_ACCEL_FPGA_FUNCTION_A"})),
        "ssd0": Device("CUSTOM_SSD", ssd),
        "ssd1": Device("CUSTOM_SSD", ssd),
    }
    return {f"{host}_{name}": device for name, device in devices.items() if name != gone}


def neutron(placement: API, directory: str) -> None:
    """Print the situations of an agent with three bridges."""
    theirs = Requests(placement)
    ours = Ours(Requests(placement), "neutron-ours", directory)
    for host in ("neutron", ours.host):
        Requests(placement).create(host, str(uuid4()), None)

    def row(situation: str, kbits: int) -> None:
        first, second = (
            (f"{host}:ovs", bridges_of(f"{host}:ovs", kbits)) for host in ("neutron", ours.host)
        )
        print_row(
            f"  {situation}",
            calls(theirs, lambda: report_as_neutron(theirs, "neutron", *first)),
            calls(ours.api, lambda: ours.report(bandwidth.report, *second)),
        )

    print_row("Neutron, 3 bridges", "theirs", "ours")
    row("cold start", 10_000_000)
    row("the agent restarts", 10_000_000)
    row("one number on all bridges", 25_000_000)
    ours.restart(ours.store)
    row("agent and service restart", 25_000_000)
    ours.restart(None)
    row("both restart, without a store", 25_000_000)


def bridges_of(agent: str, kbits: int) -> Bridges:
    """Return three bridges of physical networks."""
    return {
        f"{agent}:br-{number}": Bridge(kbits, f"CUSTOM_PHYSNET_{number}") for number in range(3)
    }


# -- Blazar: the reservations of a host


@dataclass
class Blazar:
    """Blazar's client: it looks up the provider, and reads what it changes."""

    api: Requests
    host: str

    def prepare(self) -> None:
        """Create the host's provider for reservations."""
        self.api.create(f"blazar_{self.host}", str(uuid4()), self.api.named(self.host))

    def reserve(self, name: str, units: int) -> None:
        """Change a reservation, whose class exists."""
        path = f"/resource_providers/{self.api.named(f'blazar_{self.host}')}/inventories"
        body = self.api.request("GET", path)
        body["inventories"][reservations.class_of(name)] = {"total": units, "max_unit": 1}
        self.api.request("PUT", path, json=body)


def blazar(placement: API) -> None:
    """Print the situations of a reservation on a host with 40 other children."""
    theirs, ours = Blazar(Requests(placement), "blazar-theirs"), Requests(placement)
    client = Client(ours)
    for host in (theirs.host, "blazar-ours"):
        root = str(uuid4())
        Requests(placement).create(host, root, None)
        for number in range(40):
            Requests(placement).create(f"{host}_{number}", str(uuid4()), root)
    Requests(placement).request("PUT", f"/resource_classes/{reservations.class_of('lease')}")

    def row(situation: str, function: str, *arguments: Any) -> None:
        first = calls(theirs.api, lambda: getattr(theirs, function)(*arguments))
        own = getattr(reservations, function)
        second = calls(ours, lambda: own(client, "blazar-ours", *arguments))
        print_row(f"  {situation}", first, second)

    print_row("Blazar, a host with 40 children", "theirs", "ours")
    row("the host's provider is created", "prepare")
    row("a reservation", "reserve", "lease", 4)
    row("it is changed", "reserve", "lease", 8)


def calls(api: Requests, report: Callable[[], object]) -> str:
    """Return the number of calls of a report."""
    before = api.number
    report()
    return str(api.number - before)


def print_row(*cells: str) -> None:
    """Print three cells below the others."""
    sys.stdout.write("{:<42}{:<17}{}\n".format(*cells))


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory(prefix="services-") as scratch,
        PlacementServer(Path(scratch)) as server,
    ):
        placement_api = PlacementAPI(token_adapter(server.url, server.token))
        cyborg(placement_api, f"{scratch}/cyborg")
        neutron(placement_api, f"{scratch}/neutron")
        blazar(placement_api)
