"""Reports of a period or switch of one root; status, log and systemd's line are made of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from agent.reporting.conditions import HOW_TO_RESHAPE, Condition, Severity, errors
from reportclient.plain_text import error_text
from reportclient.plan import Operation, Plan, Problem

ENDED = "error"
"""The key of the condition that a period ended early."""


class Occasion(Enum):
    """The kind of a report."""

    PERIOD = "period"
    SWITCH = "switch"
    """The trait that says whether the host is disabled was written; no driver was asked."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one period or one switch of a root; it took ``seconds``.

    ``error`` ended it; ``driver_errors`` are by driver, ``failed`` by provider; of those in
    ``draining`` all is as it should be while guests use what is to go.  ``calls`` counts the
    requests to Placement.  What listeners hear of a switch has besides what the period before
    it found wrong; ``calls``, ``done`` and ``seconds`` are the switch's own.
    """

    node: str
    occasion: Occasion = Occasion.PERIOD
    seconds: float = 0.0
    calls: int = 0
    tries: int = 1
    """More than one where somebody else wrote in between."""
    done: tuple[Operation, ...] = ()
    plan: Plan = field(default_factory=Plan)
    problems: tuple[Problem, ...] = ()
    driver_errors: Mapping[str, BaseException] = field(default_factory=dict)
    failed: Mapping[str, Exception] = field(default_factory=dict)
    draining: frozenset[str] = frozenset()
    degraded: Mapping[str, str] = field(default_factory=dict)
    """What drivers, and others, can't say fully: by part."""
    took: Mapping[str, float] = field(default_factory=dict)
    """Seconds by source of the drivers, of the last time that each was asked."""
    reshape_pending: tuple[str, ...] = ()
    reshape_error: BaseException | None = None
    """Why the reshape that is pending was not done; ``None``: none is allowed now."""
    error: Exception | None = None
    fatal: bool = False
    """The service must not go on: somebody has to look."""
    besides: tuple[Condition, ...] = ()
    """What is so for the host as a whole."""

    @property
    def ok(self) -> bool:
        """Whether Placement now has all that the drivers said, and they said all; or drains
        what they don't say any more.
        """
        return not errors(self.conditions().values())

    def texts(self, *severities: Severity) -> list[str]:
        """The conditions, or those of these severities, each as a sentence."""
        wanted = severities or tuple(Severity)
        return [str(one) for one in self.conditions().values() if one.severity in wanted]

    def conditions(self) -> dict[str, Condition]:
        """All there is to tell, by a key that stays the same while it lasts."""
        found = {
            f"problem {one}": Condition(one.text, f"provider {one.provider} ({one.uuid})")
            for one in self.problems
        }
        for name, err in self.driver_errors.items():
            found[f"driver {name}"] = Condition(error_text(err), f"driver {name}")
        for uuid, failure in self.failed.items():
            drains = Severity.INFO if uuid in self.draining else Severity.ERROR
            subject = self.plan.names.get(uuid, uuid)
            found[f"failed {uuid}"] = Condition(error_text(failure), subject, drains)
        for part, reason in self.degraded.items():
            found[f"degraded {part}"] = Condition(reason, part)
        for name in self.reshape_pending:
            found[f"reshape {name}"] = self._pending(name)
        for one in self.besides:
            found[f"degraded {one.subject}"] = one
        if self.error is not None:
            found[ENDED] = Condition(error_text(self.error))
        return found

    def changes(self) -> str:
        """Counts of what was written: ``2 CreateProvider, 1 SetTraits``."""
        counts = Counter(type(operation).__name__ for operation in self.done)
        return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))

    def _pending(self, driver: str) -> Condition:
        why = "is not allowed now"
        if self.reshape_error is not None:
            why = f"failed: {error_text(self.reshape_error)}"
        text = f"driver {driver} needs a reshape, which {why}"
        return Condition(text, next_step=HOW_TO_RESHAPE)
