"""Conditions: problems, as log, status file, systemd and commands show them.  Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

HOW_TO_RESHAPE = "to show it: computectl reshape --plan; to do it: computectl reshape"


class Severity(Enum):
    """How urgent a condition is."""

    ERROR = "error"
    """Needs an operator: Placement does not have what it should have."""
    WARNING = "warning"
    """Good to know; needs no operator now."""
    INFO = "info"
    """Ends by itself, such as draining."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A problem of ``subject``, such as a driver or a provider; an empty one is the whole node.

    ``next_step`` is what an operator should do, if ``text`` does not say it.
    """

    text: str
    subject: str = ""
    severity: Severity = Severity.ERROR
    next_step: str = ""

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}" if self.subject else self.text

    @property
    def sentence(self) -> str:
        """The condition with its next step."""
        return "; ".join(filter(None, (str(self), self.next_step)))


@dataclass(frozen=True, slots=True)
class Check:
    """The health of a part of the agent; ``text`` is what is wrong with it, empty if nothing."""

    name: str
    text: str = ""

    @property
    def ok(self) -> bool:
        """Whether the part is healthy."""
        return not self.text

    def __str__(self) -> str:
        return f"{self.name}: {self.text or 'ok'}"


def errors(conditions: Iterable[Condition]) -> list[Condition]:
    """Return the conditions that need an operator."""
    return [condition for condition in conditions if condition.severity is Severity.ERROR]
