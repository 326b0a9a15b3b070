"""Drivers that want to hear whether this host takes new guests are told, once for each change."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from drivers.loaded import words
from drivers.loader import LoadedDriver

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class HostEnabled:
    """What each driver was told last; used by the loop's thread only."""

    drivers: Sequence[LoadedDriver]
    told: dict[str, bool] = field(default_factory=dict)

    def tell(self, disabled: bool | None) -> None:
        """Never raises: the trait is the agent's own, whatever a driver makes of it."""
        if disabled is None:
            return
        for loaded in self.drivers:
            if loaded.switched is None or self.told.get(loaded.name) is (not disabled):
                continue
            if loaded.opening.failed is not None:
                continue  # it hears once it is open
            try:
                loaded.set_host_enabled(enabled=not disabled)
            except (Exception, SystemExit) as err:  # noqa: BLE001  the agent lives on
                LOG.warning(
                    "Driver %s failed to hear that this host is %s, and is told again: %s",
                    loaded.name,
                    "disabled" if disabled else "enabled",
                    words(err),
                )
            else:
                self.told[loaded.name] = not disabled
