"""An accelerator manager: reports devices below the root that nova-compute has created.

    python accelerators.py COMPUTE_NODE ADDRESS=CLASS[,TRAIT...]...

It uses only ``reportclient`` and keystoneauth, and needs no agent.  Other children of the compute
node, and traits that others set on its devices, stay.
"""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import NAMESPACE_DNS, uuid3

from keystoneauth1 import adapter, session, token_endpoint

from reportclient import Client, ProviderData, Result

PREFIX = "CUSTOM_ACCEL_"
"""All traits of this service begin so; only its devices have any."""


@dataclass(frozen=True)
class Device:
    """A device: its resource class and its traits of this service."""

    resource_class: str
    traits: frozenset[str]


def report(client: Client, root: str, devices: Mapping[str, Device]) -> Result:
    """Report a host's devices, by provider name, below ``root``: the compute node's UUID."""
    tree = client.tree(root)
    for provider in map(tree.data, tree.get_provider_uuids(root)):
        if own_traits(provider) and provider.name not in devices:
            tree.remove(provider.uuid)
    for name, device in devices.items():
        if not tree.exists(name):
            tree.new_child(name, root, uuid_of(name))
        tree.update_inventory(name, {device.resource_class: {"total": 1}})
        tree.remove_traits(name, *(own_traits(tree.data(name)) - device.traits))
        tree.add_traits(name, *device.traits)
    return client.update(tree)


def own_traits(provider: ProviderData) -> set[str]:
    """Return the provider's traits of this service."""
    return {trait for trait in provider.traits if trait.startswith(PREFIX)}


def uuid_of(name: str) -> str:
    """Return the UUID of a device's provider, which guests keep over a restart."""
    return str(uuid3(NAMESPACE_DNS, name))


def parsed(node: str, words: list[str]) -> dict[str, Device]:
    """Return the devices of the command line by provider name."""
    devices = {}
    for word in words:
        address, _, described = word.partition("=")
        resource_class, *traits = described.split(",")
        own = frozenset({f"{PREFIX}DEVICE", *(PREFIX + trait for trait in traits)})
        devices[f"{node}_accel_{address}"] = Device(resource_class, own)
    return devices


def main(client: Client, node: str, words: list[str]) -> str:
    """Report once; return the result as a sentence."""
    root = client.find_provider(node)
    if root is None:
        return f"nova-compute has not created {node} yet"
    result = report(client, root, parsed(node, words))
    left = "; ".join(map(str, (*result.failed.values(), *result.waiting.values())))
    return f"{len(result.done)} changes, {result.calls} calls{left and '; left: '}{left}"


if __name__ == "__main__":
    auth = token_endpoint.Token(os.environ["PLACEMENT_URL"], os.environ["PLACEMENT_TOKEN"])
    placement = Client(adapter.Adapter(session.Session(auth), service_type="placement"))
    for _ in range(int(os.environ.get("PERIODS", "1000000000"))):
        print(main(placement, sys.argv[1], sys.argv[2:]), flush=True)
        time.sleep(float(os.environ.get("EVERY", "60")))
