"""Reports of periods and switches.  Pure.

Log, status file, metrics, systemd and commands show them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from agent.reporting.changes import summary
from agent.reporting.condition import PERIOD, PLACEMENT, Condition, Severity, of_period, texts_of
from reportclient.plain_text import first_few
from reportclient.plan import Operation, Plan

ENDS_PERIOD = (PLACEMENT, PERIOD)
"""Kinds of the condition that an error ended the period."""
_OF_A_SWITCH = ("occasion", "seconds", "done", "plan", "undone", "calls", "tries", "error")
"""Fields of a report that are about its own requests only."""


class Occasion(StrEnum):
    """The kind of a report."""

    PERIOD = "period"
    SWITCH = "switch"
    """COMPUTE_STATUS_DISABLED was set or removed; no driver was called."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one period or one switch of a root, which took ``seconds``.

    ``error`` ended it early; ``conditions`` has that, too.  ``driver_errors`` are by driver.
    ``calls`` counts the requests to Placement.  Listeners get the report of a switch with the
    conditions of the period before it; ``calls``, ``done`` and ``seconds`` are the switch's.
    """

    node: str
    occasion: Occasion = Occasion.PERIOD
    seconds: float = 0.0
    calls: int = 0
    tries: int = 1
    """Number of plans; more than one after conflicts."""
    done: tuple[Operation, ...] = ()
    plan: Plan = field(default_factory=Plan)
    conditions: tuple[Condition, ...] = ()
    driver_errors: Mapping[str, BaseException] = field(default_factory=dict)
    took: Mapping[str, float] = field(default_factory=dict)
    """Seconds that each source of the drivers took when it was last read."""
    reshape_pending: tuple[str, ...] = ()
    error: Exception | None = None
    fatal: bool = False
    """Whether the agent has to stop because of ``error``."""
    undone: tuple[str, ...] = ()
    """Changes of other clients that this period undid, in words."""

    def with_error(self, err: Exception | None, *, fatal: bool = False) -> "Report":
        """Return the report of a period that this error ended; itself without one."""
        if err is None:
            return self
        conditions = (*self.conditions, of_period(err))
        return replace(self, conditions=conditions, error=err, fatal=fatal)

    def with_switch(self, switch: "Report") -> "Report":
        """Return the report of a later switch with the conditions of this one, a period's."""
        its = {name: getattr(switch, name) for name in _OF_A_SWITCH}
        lasting = [each for each in self.conditions if each.kind not in ENDS_PERIOD]
        conditions = {each.identity: each for each in (*lasting, *switch.conditions)}
        return replace(self, **its, conditions=tuple(conditions.values()))

    @property
    def ok(self) -> bool:
        """Whether Placement has what was reported: no condition is an error."""
        return not self.texts(Severity.ERROR)

    def texts(self, *severities: Severity) -> list[str]:
        """Return the texts of the conditions of these severities, by default of all."""
        return texts_of(self.conditions, *(severities or Severity))

    def changes(self) -> str:
        """Return what was written, in words; empty if nothing was."""
        return "; ".join(filter(None, (summary(self.done, self.plan.names), self._undid)))

    @property
    def _undid(self) -> str:
        others = first_few(self.undone)
        return f"undid what another client had done: {others}" if others else ""

    def sentence(self) -> str:
        """Return what was written, in how many calls, and which drivers reported nothing."""
        calls = f"{self.calls} call{'' if self.calls == 1 else 's'} to Placement"
        called = self.occasion is Occasion.PERIOD
        failed = sorted(self.driver_errors.keys() - set(self.reshape_pending)) if called else []
        why = f"nothing was reported by driver {', '.join(failed)}" if failed else ""
        if self.error is not None:
            why = "then an error ended the period" if self.done else "nothing was reported"
        if self.done:
            written = f"{summary(self.done, self.plan.names)} in {calls}"
            return "; ".join(filter(None, (written, self._undid, why)))
        return f"{why or ('nothing to change' if self.ok else 'nothing was changed')}, {calls}"
