"""Reads which root providers of hosts Placement has, and which of them are disabled."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.period.traits import COMPUTE_NODE
from agent.registry.observed_service import Roots
from reportclient.candidates.asking import disabled_roots
from reportclient.http import API
from reportclient.reader import part_of

PRESENT_FOR = 15.0
"""Seconds for which the list of all roots is used again."""


@dataclass(slots=True)
class PlacementRoots:
    """The roots of hosts, for who reads them again and again."""

    _present: Mapping[str, str] = field(default_factory=dict)
    _present_until: float = 0.0

    def read(self, api: API, only: str = "") -> Roots:
        """Return the roots: one call, and another if the list of all is too old.

        ``only``: the root (UUID) that the caller needs; then the list of all is not read.

        :raises reportclient.errors.PlacementError: Placement can't be read.
        """
        disabled = disabled_roots(api)
        if only:
            return Roots(disabled, _hosts(f"&uuid={only}", api))
        if time.monotonic() > self._present_until:
            self._present = _hosts("", api)
            self._present_until = time.monotonic() + PRESENT_FOR
        return Roots(disabled, {**dict.fromkeys(disabled, ""), **self._present})


def _hosts(where: str, api: API) -> dict[str, str]:
    path = f"/resource_providers?required={COMPUTE_NODE}{where}"
    return {each["uuid"]: each["name"] for each in part_of(path, "resource_providers", api)}
