"""IronicDriver: each node of Ironic's is a root provider, named by its UUID.

All nodes are read in one listing a period, when the agent asks which there are; what is
said about each of them comes from that listing.  It is good for one question a node:
who asks again without a new one gets an answer of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivers.api import Allocations, ComputeDriver, DriverContext, ProviderTree
from ironic_nodes import opts
from ironic_nodes.api import IronicAPI
from ironic_nodes.node import Node, inventory


class IronicDriver(ComputeDriver):
    """Many nodes, none of them this host."""

    api_version = (1, 0)
    thread_safe = True
    """A question about one node reads the listing, and its own traits, and nothing else."""

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self._api = IronicAPI(context.conf)
        self._names: list[str] = []
        self._listed: dict[str, Node] = {}
        self._unclassed: dict[str, str] = {}
        self._traits: dict[str, frozenset[str]] = {}

    @classmethod
    def list_opts(cls) -> list[tuple[str, list[Any]]]:
        """Registered by the agent before the driver is made."""
        return opts.list_opts()

    def init_host(self, host: str) -> None:
        """Nothing: Ironic may come later than this agent."""

    def cleanup_host(self, host: str) -> None:  # noqa: ARG002  it serves many
        """Close the connections."""
        self._api.close()

    def get_available_nodes(self) -> Sequence[str]:
        """UUIDs, as the provider's name and as its UUID: what Nova calls them too."""
        nodes = self._api.nodes()
        self._listed = {node.uuid: node for node in nodes}
        self._names = sorted(self._listed)
        self._unclassed = {
            f"node {node.uuid}": "it has no resource_class in Ironic"
            for node in nodes
            if not node.resource_class
        }
        return self._names

    def get_nodenames_by_uuid(self) -> Mapping[str, str]:
        """Each its own name."""
        return {uuid: uuid for uuid in self._names}

    def degraded(self) -> Mapping[str, str]:
        """Nodes that can't be scheduled to because nobody said what they are."""
        return self._unclassed

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Allocations | None = None,  # noqa: ARG002  nothing moves
    ) -> None:
        """One unit of the node's class, reserved while nobody can have it; its traits."""
        node = self._listed.pop(nodename, None) or self._api.node(nodename)
        provider_tree.update_inventory(nodename, inventory(node))
        provider_tree.remove_traits(
            nodename, *(self._traits.get(nodename, frozenset()) - node.traits)
        )
        provider_tree.add_traits(nodename, *node.traits)
        self._traits[nodename] = node.traits
