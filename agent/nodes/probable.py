"""Attach mode: the providers that are probably meant where a root is waited for.

A host's name may be short where its compute node has the fully qualified one, or the other way
round.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.period.attach import RootAwaited
from agent.period.traits import COMPUTE_NODE
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.reader import providers_with_trait


@dataclass(slots=True)
class ProbableRoots:
    """Names compute nodes whose host name is that of a node without a root.

    Placement's compute nodes are listed in the first, second, fourth, eighth … period in which a
    root is waited for.
    """

    _periods: int = 0
    _hints: dict[str, str] = field(default_factory=dict)

    def named(self, awaited: Mapping[str, Exception], api: API) -> dict[str, Exception]:
        """Return the reasons by node, with the providers that are probably meant."""
        waiting = [name for name, err in awaited.items() if isinstance(err, RootAwaited)]
        self._periods = self._periods + 1 if waiting else 0
        if waiting and self._periods & (self._periods - 1) == 0:
            self._hints = _hints(waiting, api)
        return {
            name: RootAwaited(f"{err}{self._hints.get(name, '')}") if name in waiting else err
            for name, err in awaited.items()
        }


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
