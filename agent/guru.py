"""Sections of the agent's Guru Meditation Report (SIGUSR2)."""

import time
from dataclasses import dataclass

from agent.loop import Loop
from agent.reporting.guru import Section, Sections
from agent.service import Service


@dataclass(frozen=True, slots=True)
class Guru:
    """The sections on the loop, the roots and the drivers of one agent."""

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
            f"{tracker.node} ({tracker.uuid})": {
                "doing": tracker.activity or "nothing",
                "providers": len(tracker.view.snapshot.providers),
                "certain": tracker.view.certain,
                "refused": {key: str(err) for key, err in tracker.root.refusals.errors().items()},
            }
            for tracker in list(self.service.nodes.trackers.values())
        }

    def _drivers(self) -> Section:
        """Return each driver's calls that have not returned yet, with their seconds."""
        now = time.monotonic()
        return {
            loaded.name: {
                "calls under way": [
                    f"{method} for {now - began:.1f} s" for began, method in list(loaded.calls.now)
                ]
            }
            for loaded in self.service.nodes.drivers
        }
