"""IronicDriver: each node of Ironic is a root provider, named by its UUID.

All nodes are read in one listing a period, in ``get_available_nodes``; the report of each node
uses that listing once.  A further call for the same node reads the node from Ironic.
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
    """Calls for several nodes may run in parallel: each uses only its own node's data."""

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self._api = IronicAPI(context.conf)
        self._names: list[str] = []
        self._listed: dict[str, Node] = {}
        self._unclassed: dict[str, str] = {}
        self._traits: dict[str, frozenset[str]] = {}

    @classmethod
    def list_opts(cls) -> list[tuple[str, list[Any]]]:
        """Return the options; the agent registers them before it creates the driver."""
        return opts.list_opts()

    def init_host(self, host: str) -> None:
        """Do nothing: Ironic may start after this agent."""

    def cleanup_host(self, host: str) -> None:
        """Close the connections."""
        self._api.close()

    def get_available_nodes(self) -> Sequence[str]:
        """Return the nodes' UUIDs, which are also the names of their providers, as with Nova."""
        nodes = self._api.nodes()
        self._listed = {node.uuid: node for node in nodes}
        self._names = sorted(self._listed)
        self._unclassed = {
            node.uuid: "it has no resource_class in Ironic"
            for node in nodes
            if not node.resource_class
        }
        return self._names

    def get_nodenames_by_uuid(self) -> Mapping[str, str]:
        """Return each UUID as its own node name."""
        return {uuid: uuid for uuid in self._names}

    def degraded(self, node: str) -> Mapping[str, str]:
        """Return why the node can't be scheduled to: it has no resource class."""
        return {"resource_class": self._unclassed[node]} if node in self._unclassed else {}

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Allocations | None = None,
    ) -> None:
        """Report the node's traits and one unit of its class, reserved while it is unavailable."""
        node = self._listed.pop(nodename, None) or self._api.node(nodename)
        provider_tree.update_inventory(nodename, inventory(node))
        provider_tree.remove_traits(
            nodename, *(self._traits.get(nodename, frozenset()) - node.traits)
        )
        provider_tree.add_traits(nodename, *node.traits)
        self._traits[nodename] = node.traits
