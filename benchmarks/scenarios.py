"""The scenarios that both clients run.

Every step that writes is checked in Placement afterwards, so that a step which failed is not
measured.  Only the standard library is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from benchmarks.host import FOREIGN_TRAIT, GPUS, ROOT, Host, uuid_of
from benchmarks.meter import Meter
from benchmarks.somebody import Somebody

COLD = "cold start"
COLD_BULK = "cold start, bulk writes"
RESTART = "restart"
RESTART_LOST = "restart, saved view lost"
REFRESH = "300 s refresh"
QUIET = "quiet period"
BETWEEN = "quiet period between verifications"
INVENTORY = "one inventory changed"
DISABLE = "disabled"
FOREIGN = "a foreign trait seen"
CONFLICT = "conflict on one provider"
RESHAPE = "reshape at start"
SCENARIOS = (
    COLD,
    COLD_BULK,
    RESTART,
    RESTART_LOST,
    REFRESH,
    QUIET,
    BETWEEN,
    INVENTORY,
    DISABLE,
    FOREIGN,
    CONFLICT,
    RESHAPE,
)

DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"
QUIET_TIMES = 3
PATIENCE = 20
"""Periods within which a client has to notice a foreign trait."""


class Side(Protocol):
    """A client under test.  Every method raises an exception if reporting fails."""

    def start(self) -> None:
        """Start the client and run its first period."""

    def forget(self) -> None:
        """Remove what the client saved for its next start, if anything."""

    def period(self, after: float) -> None:
        """Run a period ``after`` seconds later."""

    def quiet(self) -> None:
        """Run a quiet period that reads as much as a quiet period of this client ever does."""

    def refresh(self) -> None:
        """Run the first period after ``resource_provider_association_refresh`` seconds."""

    def set_enabled(self, *, enabled: bool) -> None:
        """Switch the host as the RPC call ``set_host_enabled`` does."""

    def has_guests(self, guests: list[str]) -> None:
        """Set the guests that the host tracks."""

    def sees(self, trait: str) -> bool:
        """Whether the client knows that the root has this trait."""


@dataclass(slots=True)
class Scenarios:
    """Runs all scenarios on one host with ``consumers`` guests, with a new Placement."""

    side: Side
    host: Host
    consumers: int
    somebody: Somebody
    meter: Meter

    def run(self) -> None:
        """Run all scenarios in an order in which each has its preconditions."""
        self.cold_start()
        self._starts()
        self._quiet()
        self._changes()
        self._foreign_trait()
        self._conflict()
        self._reshape()

    def cold_start(self, name: str = COLD) -> None:
        """Start with an empty Placement, then create the guests."""
        self.meter.step(name, self.side.start)
        _expect(self.somebody.members() == self.host.providers, "all providers")
        self._expect_changed()
        self.side.has_guests(self.somebody.allocate(self.consumers))
        self.side.refresh()  # the guests moved the root's generation

    def _starts(self) -> None:
        self.meter.step(RESTART, self.side.start)
        self.side.forget()
        self.meter.step(RESTART_LOST, self.side.start)

    def _quiet(self) -> None:
        self.meter.step(REFRESH, self.side.refresh)
        for _ in range(QUIET_TIMES):
            self.meter.step(QUIET, self.side.quiet)
            self.meter.step(BETWEEN, lambda: self.side.period(1.0))

    def _changes(self) -> None:
        self.host.changed += 1
        self.meter.step(INVENTORY, lambda: self.side.period(1.0))
        self._expect_changed()
        self.meter.step(DISABLE, lambda: self.side.set_enabled(enabled=False))
        _expect(DISABLED_TRAIT in self.somebody.traits(ROOT), "disabled")
        self.side.set_enabled(enabled=True)
        _expect(DISABLED_TRAIT not in self.somebody.traits(ROOT), "enabled")

    def _foreign_trait(self) -> None:
        self.side.refresh()
        self.somebody.add_trait(ROOT, FOREIGN_TRAIT)
        self.meter.step(FOREIGN, self._periods_until_seen)

    def _periods_until_seen(self) -> None:
        for _ in range(PATIENCE):
            self.side.period(60.0)
            if self.side.sees(FOREIGN_TRAIT):
                return
        _expect(False, "the foreign trait")

    def _conflict(self) -> None:
        leaf, _, _ = self.host.leaf
        self.side.refresh()
        self.somebody.add_trait(leaf, "HW_CPU_X86_AVX2")
        self.host.changed += 1
        self.meter.step(CONFLICT, lambda: self.side.period(1.0))
        self._expect_changed()
        _expect("HW_CPU_X86_AVX2" in self.somebody.traits(leaf), "the foreign trait unchanged")

    def _reshape(self) -> None:
        self.host.split = True
        self.meter.step(RESHAPE, self.side.start)
        gpus = [uuid_of(f"host1_gpu{number}") for number in range(GPUS)]
        _expect(self.somebody.total(ROOT, "VGPU") == 0, "no GPUs on the root")
        _expect(all(self.somebody.total(gpu, "VGPU") == 32 for gpu in gpus), "GPUs on children")
        used = sum(self.somebody.used(gpu, "VGPU") for gpu in gpus)
        _expect(used == self.consumers, "allocations moved")

    def _expect_changed(self) -> None:
        uuid, _, resource_class = self.host.leaf
        total = self.somebody.total(uuid, resource_class)
        _expect(total == self.host.changed, f"a total of {self.host.changed}, not {total}")


def _expect(reached: object, what: str) -> None:
    if not reached:
        raise RuntimeError(f"a step did not work: {what} expected in Placement")
