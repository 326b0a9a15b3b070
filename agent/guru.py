"""Sections of the agent's Guru Meditation Report (SIGUSR2)."""

import time
from dataclasses import dataclass

from agent.loop import Loop
from agent.reporting.guru import Section, Sections
from agent.service import Service


@dataclass(frozen=True, slots=True)
class Guru:
    """Everything that it tells of."""

    service: Service
    loop: Loop

    @property
    def sections(self) -> Sections:
        """Return the sections by heading."""
        return {"Loop": self._loop, "Roots": self._roots, "Drivers": self._drivers}

    def _loop(self) -> Section:
        return {"waiting commands": self.loop.commands.qsize(), "stopping": self.loop.stopping}

    def _roots(self) -> Section:
        """Return each root's current step, the size and state of its view, and its refusals."""
        return {
            f"{one.node} ({one.uuid})": {
                "doing": one.activity or "nothing",
                "providers": len(one.view.snapshot.providers),
                "certain": one.view.certain,
                "refused": {key: str(err) for key, err in one.root.refusals.errors().items()},
            }
            for one in list(self.service.nodes.trackers.values())
        }

    def _drivers(self) -> Section:
        """Calls that have not returned yet."""
        now = time.monotonic()
        return {
            one.name: {
                "calls under way": [
                    f"{method} for {now - began:.1f} s" for began, method in list(one.calls.now)
                ]
            }
            for one in self.service.nodes.drivers
        }
