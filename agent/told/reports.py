"""What came of one period of one root, as a value; health and log lines are made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from drivers.loaded import words
from reportclient.plan import Operation, Plan, Problem

ENDED = "error"
"""The key of the complaint that a period ended early."""


@dataclass(frozen=True, slots=True)
class Report:
    """One period of one root.

    ``error`` ended the period; ``driver_errors`` are by driver, ``failed`` by
    provider; of those in ``draining`` all is as it should be while guests use what is to go.
    ``calls`` counts the requests to Placement.
    """

    node: str
    calls: int = 0
    done: tuple[Operation, ...] = ()
    plan: Plan = field(default_factory=Plan)
    problems: tuple[Problem, ...] = ()
    driver_errors: Mapping[str, BaseException] = field(default_factory=dict)
    failed: Mapping[str, Exception] = field(default_factory=dict)
    draining: frozenset[str] = frozenset()
    degraded: Mapping[str, str] = field(default_factory=dict)
    took: Mapping[str, float] = field(default_factory=dict)
    """Seconds by source of the drivers, of the last time that each was asked."""
    reshape_pending: tuple[str, ...] = ()
    reshape_error: BaseException | None = None
    """Why the reshape that is pending was not done; ``None``: none is allowed now."""
    error: Exception | None = None
    fatal: bool = False
    """The service must not go on: somebody has to look."""

    @property
    def ok(self) -> bool:
        """Whether Placement now has all that the drivers said, and they said all; or drains
        what they don't say any more.
        """
        return not self.wrong()

    def wrong(self) -> dict[str, str]:
        """The complaints that somebody should see to."""
        drains = {_failed(uuid) for uuid in self.draining}
        return {key: text for key, text in self.complaints().items() if key not in drains}

    def drains(self) -> list[str]:
        """What is kept for the guests that use it, and goes with them."""
        kept = self.complaints()
        return [kept[key] for uuid in sorted(self.draining) if (key := _failed(uuid)) in kept]

    def complaints(self) -> dict[str, str]:
        """All there is to tell, each in a sentence, by a key that stays the same while it lasts."""
        found = {f"problem {problem}": str(problem) for problem in self.problems}
        for name, err in self.driver_errors.items():
            found[f"driver {name}"] = f"driver {name}: {words(err)}"
        for uuid, err in self.failed.items():
            found[_failed(uuid)] = f"{self.plan.names.get(uuid, uuid)}: {words(err)}"
        for part, reason in self.degraded.items():
            found[f"degraded {part}"] = f"{part}: {reason}"
        for name in self.reshape_pending:
            why = "is not allowed now"
            if self.reshape_error is not None:
                why = f"failed: {words(self.reshape_error)}"
            found[f"reshape {name}"] = f"driver {name} needs a reshape, which {why}"
        if self.error is not None:
            found[ENDED] = words(self.error)
        return found

    def changes(self) -> str:
        """Counts of what was written: ``2 CreateProvider, 1 SetTraits``."""
        counts = Counter(type(operation).__name__ for operation in self.done)
        return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def _failed(uuid: str) -> str:
    return f"failed {uuid}"
