"""Attach mode: the roots of another service, and those that are waited for.

A host's name may be short where its compute node has the fully qualified one, or the other way
round.  So for a node without a root the provider is named that is probably meant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from agent.nodes.identity import NodeTable
from agent.period.attach import RootAwaited, root_awaited
from agent.period.traits import COMPUTE_NODE
from agent.state.document import Document
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.reader import provider_by_name, providers_with_trait


@dataclass(slots=True, kw_only=True)
class ForeignRoots(NodeTable):
    """UUIDs of roots by node name; nothing of them is saved."""

    owns_roots: ClassVar[bool] = False

    api: API
    by_name: dict[str, str] = field(default_factory=dict)
    _periods: int = 0
    """Number of periods in a row in which a root was waited for."""
    _hints: dict[str, str] = field(default_factory=dict)

    has_many = False  # the roots have no tag of this service

    def uuids(self, nodes: list[str], own: str, from_driver: Mapping[str, str]) -> dict[str, str]:
        """Return the root's UUID of each node that has one.

        It is the one that the driver reports (``from_driver``, by node), else that of the file
        ``compute_id`` (``own``, empty without the file) on a host with one node, else that of the
        root provider with the node's name; 1 GET for each name that is not known yet.
        """
        uuids = dict[str, str]()
        self.awaited = {}
        alone = own if len(nodes) == 1 else ""
        for name in nodes:
            uuid = from_driver.get(name) or alone or self.by_name.get(name)
            if uuid:
                uuids[name] = uuid
                continue
            try:
                provider = provider_by_name(name, self.api)
            except PlacementError as err:
                self.awaited[name] = err
                continue
            if provider is None:
                self.awaited[name] = root_awaited(name)
            elif provider["parent_provider_uuid"] is not None:
                text = f"provider {name} has a parent: an agent can attach to a root provider only"
                self.awaited[name] = RootAwaited(text)
            else:
                uuids[name] = self.by_name[name] = str(provider["uuid"])
        self._add_hints()
        return uuids

    def note_deleted(self, node: str) -> None:
        """Look for the root by its name: its owner may create it again with another UUID."""
        self.by_name.pop(node, None)

    def is_copied(self, saved: Document | None) -> bool:
        """Return whether another machine saved the root's document: there is no table."""
        return saved is not None and saved.of_other_machine

    def _add_hints(self) -> None:
        """Add the providers that are probably meant to the reasons.

        Placement's compute nodes are listed in the first, second, fourth, eighth … period in which
        a root is waited for.
        """
        waiting = [name for name, err in self.awaited.items() if isinstance(err, RootAwaited)]
        self._periods = self._periods + 1 if waiting else 0
        if waiting and self._periods & (self._periods - 1) == 0:
            self._hints = _hints(waiting, self.api)
        for name in waiting:
            self.awaited[name] = RootAwaited(f"{self.awaited[name]}{self._hints.get(name, '')}")


def _hints(nodes: list[str], api: API) -> dict[str, str]:
    """Return a hint for each node that only one root has the host name of; 1 GET."""
    try:
        listed = providers_with_trait(COMPUTE_NODE, api)
    except PlacementError:
        return {}
    hints = {}
    for node in nodes:
        host = _host_name(node)
        alike = [each for each in listed if _host_name(each["name"]) == host]
        if len(alike) == 1 and alike[0]["name"] != node:
            name, uuid = alike[0]["name"], alike[0]["uuid"]
            hints[node] = f"; if {name} ({uuid}) is this host: computectl adopt {name}"
    return hints


def _host_name(name: str) -> str:
    """Return the first part of a domain name."""
    return name.partition(".")[0].lower()
