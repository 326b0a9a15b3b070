"""The Placement that a driver is tested against: in memory, or a real one that we start.

Drivers know nothing of the agent, and neither does their kit: who can start a real
Placement says so by an entry point.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Protocol

from reportclient.http import API, PlacementAPI, token_adapter

GROUP = "compute_agent.placement_servers"
NAME = "embedded"


class PlacementServer(Protocol):
    """A Placement on this machine that believes ``token``."""

    token: str

    @property
    def url(self) -> str:
        """Where it answers, once it was started."""

    def start(self) -> None:
        """Return when it answers.  :raises Exception: it does not; with its own words."""

    def stop(self) -> None:
        """End it."""


def embedded(directory: Path) -> PlacementServer:
    """One that is not started; it keeps its data in ``directory``.

    :raises LookupError: nothing that is installed can start one.
    """
    for point in metadata.entry_points(group=GROUP, name=NAME):
        server: PlacementServer = point.load()(directory)
        return server
    raise LookupError(
        f"nothing that is installed can start a Placement (entry point {NAME} of {GROUP}): "
        "install compute-agent[dev] anew"
    )


def client_of(server: PlacementServer) -> API:
    """The agent's own client for it."""
    return PlacementAPI(token_adapter(server.url, server.token))


def empty(api: API) -> None:
    """Take away all that is there: allocations, then providers, children first."""
    listed = api.request("GET", "/resource_providers")["resource_providers"]
    parents = {item["uuid"]: item["parent_provider_uuid"] for item in listed}
    for uuid in sorted(parents, key=lambda uuid: -_depth(uuid, parents)):
        found = api.request("GET", f"/resource_providers/{uuid}/allocations")["allocations"]
        for consumer in found:
            api.request("DELETE", f"/allocations/{consumer}")
        api.request("DELETE", f"/resource_providers/{uuid}")


def _depth(uuid: str, parents: dict[str, str | None]) -> int:
    above, depth = parents[uuid], 0
    while above is not None:
        above, depth = parents[above], depth + 1
    return depth
