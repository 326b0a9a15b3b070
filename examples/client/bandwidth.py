"""Bandwidth as Neutron's agents have it: a provider of the agent, and one of each bridge below it.

    python bandwidth.py COMPUTE_NODE BRIDGE=PHYSNET,KBITS...

Each call reports everything, and sends what differs.  In Neutron the UUIDs are derived from names
as they are here, since ports refer to them.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID, uuid5

from keystoneauth1 import adapter, session, token_endpoint

from reportclient import Client, Result

NAMESPACE = UUID("87ee7d5c-73bb-11e8-9008-c4d987b2a692")
"""Of the agent's UUIDs; an agent's hypervisors are in its configuration."""
VNIC_TYPES = frozenset({"CUSTOM_VNIC_TYPE_NORMAL", "CUSTOM_VNIC_TYPE_DIRECT"})
CLASSES = "NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC"


@dataclass(frozen=True)
class Bridge:
    """A bridge: kbit/s in each direction, and the trait of its physical network."""

    bandwidth: int
    network: str


def report(client: Client, root: str, agent: str, bridges: Mapping[str, Bridge]) -> Result:
    """Report an agent's bridges; ``agent`` is the name of its own provider below the root."""
    tree = client.tree(root)
    if not tree.exists(agent):
        tree.new_child(agent, root, uuid_of(agent))
    tree.add_traits(agent, *VNIC_TYPES)
    for child in map(tree.data, tree.get_provider_uuids(agent)[1:]):
        if child.name not in bridges:
            tree.remove(child.uuid)
    for name, bridge in bridges.items():
        if not tree.exists(name):
            tree.new_child(name, agent, uuid_of(name))
        tree.update_inventory(name, {key: {"total": bridge.bandwidth} for key in CLASSES})
        tree.update_traits(name, {bridge.network, *VNIC_TYPES})
    return client.update(tree)


def uuid_of(name: str) -> str:
    """Return the UUID of an agent's or a bridge's provider."""
    return str(uuid5(NAMESPACE, name))


def parsed(agent: str, words: list[str]) -> dict[str, Bridge]:
    """Return the bridges of the command line by provider name."""
    bridges = {}
    for word in words:
        name, _, described = word.partition("=")
        network, bandwidth = described.split(",")
        trait = f"CUSTOM_PHYSNET_{network.upper()}"
        bridges[f"{agent}:{name}"] = Bridge(int(bandwidth), trait)
    return bridges


def main(client: Client, node: str, words: list[str]) -> str:
    """Report once; return the result as a sentence."""
    root = client.find_provider(node)
    if root is None:
        return f"nova-compute has not created {node} yet"
    agent = f"{node}:Open vSwitch agent"
    result = report(client, root, agent, parsed(agent, words))
    left = (*result.failed.values(), *result.waiting.values(), *result.problems)
    text = "; ".join(map(str, left)) or "all is reported"
    return f"{len(result.done)} changes, {result.calls} calls; {text}"


if __name__ == "__main__":
    auth = token_endpoint.Token(os.environ["PLACEMENT_URL"], os.environ["PLACEMENT_TOKEN"])
    placement = Client(adapter.Adapter(session.Session(auth), service_type="placement"))
    print(main(placement, sys.argv[1], sys.argv[2:]))
