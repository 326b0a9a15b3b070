"""Conditions: what is not as it should be, for log, status file, systemd and commands.  Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

HOW_TO_RESHAPE = "see it: computectl reshape --plan; do it: computectl reshape"


class Severity(Enum):
    """How urgent a condition is, and for whom."""

    ERROR = "error"
    """Somebody: Placement is not what it should be."""
    WARNING = "warning"
    """Nobody at once: it should be known."""
    INFO = "info"
    """Nobody: it ends by itself, such as what waits for the guests that use it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """``subject`` is what it is about, such as a driver or a provider; empty: the whole node.

    ``next_step`` says what to do where ``text`` does not.
    """

    text: str
    subject: str = ""
    severity: Severity = Severity.ERROR
    next_step: str = ""

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}" if self.subject else self.text

    @property
    def sentence(self) -> str:
        """With what to do."""
        return "; ".join(filter(None, (str(self), self.next_step)))


@dataclass(frozen=True, slots=True)
class Check:
    """A part of the agent's health; a text says what is wrong, an empty one that it is well."""

    name: str
    text: str = ""

    @property
    def ok(self) -> bool:
        """Whether it is well."""
        return not self.text

    def __str__(self) -> str:
        return f"{self.name}: {self.text or 'ok'}"


def errors(conditions: Iterable[Condition]) -> list[Condition]:
    """Those that somebody has to see to."""
    return [one for one in conditions if one.severity is Severity.ERROR]
