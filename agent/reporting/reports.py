"""Reports of periods and switches, and the conditions in them: problems.  Pure.

Log, status file, metrics, systemd and commands show them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from agent.reporting.changes import summary
from reportclient.errors import OF_OPTIONS, NameTaken, Shared
from reportclient.plain_text import ago, error_text, first_few
from reportclient.plan import Operation, Plan
from reportclient.snapshot import Snapshot

ENDED = "error"
"""Key of the condition that an error ended the period."""


class Severity(StrEnum):
    """How urgent a condition is."""

    ERROR = "error"
    """Needs an operator: Placement does not have what it should have."""
    DEGRADED = "degraded"
    """Part of the host is ill or can't be read; Placement has all that was reported."""
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
    since: float | None = None
    """When it began, in seconds since the epoch; ``None`` if that is not recorded."""

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}" if self.subject else self.text

    def aged(self, now: float) -> str:
        """Return the condition with how long it has lasted, if that is known."""
        return f"{self} (for {ago(max(0.0, now - self.since))})" if self.since else str(self)

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


def texts_of(conditions: Iterable[Condition], *severities: Severity) -> list[str]:
    """Return the texts of the conditions of these severities."""
    return [str(condition) for condition in conditions if condition.severity in severities]


def with_agents_step(err: BaseException, root: str = "") -> str:
    """Return an error's text, with the agent's option or command, which the library does not know.

    ``root`` is the name of the host's root, if the error is about that.
    """
    text = error_text(err)
    if isinstance(err, OF_OPTIONS) and "[placement]" not in text:
        return f"{text}; see [placement]"
    if root and isinstance(err, NameTaken):
        what, others, steps = text.partition(" If that provider is in use:")
        own = "If that provider is this host, as after a reinstallation or with a new state_path"
        return f"{what} {own}: computectl adopt {root}.{others}{steps}"
    return text


def ends_drain(provider: str) -> str:
    """Return how an operator ends the draining of a provider (UUID) sooner."""
    return (
        "to end it sooner: migrate or delete these guests (openstack server migrate); if neither a "
        "server nor a migration has a consumer's UUID: openstack resource provider allocation "
        f"unset --provider {provider} CONSUMER"
    )


def drains(
    tree: Snapshot, users: Mapping[str, Sequence[str]], since: Mapping[str, float | None]
) -> Iterator[Condition]:
    """Yield what drains in a tree: ``users`` has its consumers by provider UUID."""
    for uuid, consumers in users.items():
        text = f"draining: in use by {first_few(consumers)}"
        step, name = ends_drain(uuid), tree.providers[uuid].name
        yield Condition(text, name, Severity.INFO, step, since.get(uuid))


_OF_A_SWITCH = ("occasion", "seconds", "done", "undone", "calls", "tries", "error")
"""Fields of a report that are about its own requests only."""


class Occasion(StrEnum):
    """The kind of a report."""

    PERIOD = "period"
    SWITCH = "switch"
    """COMPUTE_STATUS_DISABLED was set or removed; no driver was called."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one period or one switch of a root, which took ``seconds``.

    ``error`` ended it early.  ``driver_errors`` are by driver, ``failed`` by provider; failures of
    providers in ``draining`` are expected: guests use what is to be removed.  ``calls`` counts the
    requests to Placement.  Listeners get the report of a switch with the conditions of the period
    before it; ``calls``, ``done`` and ``seconds`` are the switch's.
    """

    node: str
    occasion: Occasion = Occasion.PERIOD
    seconds: float = 0.0
    calls: int = 0
    tries: int = 1
    """Number of plans; more than one after conflicts."""
    done: tuple[Operation, ...] = ()
    plan: Plan = field(default_factory=Plan)
    driver_errors: Mapping[str, BaseException] = field(default_factory=dict)
    failed: Mapping[str, Exception] = field(default_factory=dict)
    draining: frozenset[str] = frozenset()
    draining_since: Mapping[str, float] = field(default_factory=dict)
    """When each began to drain, in seconds since the epoch."""
    degraded: Mapping[str, str] = field(default_factory=dict)
    """Texts by part: why Placement has not what it should have."""
    ill: Mapping[str, str] = field(default_factory=dict)
    """Texts by part: why a driver calls it unhealthy, or can't read it."""
    took: Mapping[str, float] = field(default_factory=dict)
    """Seconds that each source of the drivers took when it was last read."""
    reshape_pending: tuple[str, ...] = ()
    reshape_error: BaseException | None = None
    """Why the pending reshape failed; ``None`` if it was not allowed."""
    error: Exception | None = None
    fatal: bool = False
    """Whether the agent has to stop because of ``error``."""
    undone: tuple[str, ...] = ()
    """Changes of other clients that this period undid, in words."""
    besides: tuple[Condition, ...] = ()
    """Conditions of the whole host."""

    def with_switch(self, switch: "Report") -> "Report":
        """Return the report of a later switch with the conditions of this one, a period's."""
        its = {name: getattr(switch, name) for name in _OF_A_SWITCH}
        failed, draining = {**self.failed, **switch.failed}, self.draining - switch.failed.keys()
        return replace(self, **its, failed=failed, draining=draining)

    @property
    def ok(self) -> bool:
        """Whether Placement has what was reported: no condition is an error."""
        return not errors(self.conditions().values())

    def texts(self, *severities: Severity) -> list[str]:
        """Return the texts of the conditions of these severities, by default of all."""
        return texts_of(self.conditions().values(), *(severities or Severity))

    def conditions(self) -> dict[str, Condition]:
        """Return the conditions, by a key that stays the same while the problem lasts."""
        conditions = {
            f"problem {problem}": Condition(
                problem.text,
                f"provider {problem.provider} ({problem.uuid})",
                Severity.WARNING if problem.kept else Severity.ERROR,
            )
            for problem in self.plan.problems
        }
        for name, err in self.driver_errors.items():
            subject, step = f"driver {name}", "what it reported before stays in Placement"
            conditions[subject] = Condition(error_text(err), subject, next_step=step)
        for uuid, failure in self.failed.items():
            subject = self.plan.names.get(uuid, uuid)
            text = with_agents_step(failure, self.node if subject == self.node else "")
            conditions[f"failed {uuid}"] = Condition(text, subject)
            if uuid in self.draining:
                step = "" if isinstance(failure, Shared) else ends_drain(uuid)
                drain = Condition(text, subject, Severity.INFO, step, self.draining_since.get(uuid))
                conditions[f"failed {uuid}"] = drain
        for part, reason in self.degraded.items():
            conditions[f"degraded {part}"] = Condition(reason, part)
        for part, reason in self.ill.items():
            conditions[f"ill {part}"] = Condition(reason, part, Severity.DEGRADED)
        for name in self.reshape_pending:
            why = "is not allowed now"
            if self.reshape_error is not None:
                why = f"failed: {error_text(self.reshape_error)}"
            conditions[f"reshape {name}"] = Condition(
                f"driver {name} needs a reshape, which {why}",
                next_step="to show it: computectl plan --at-start; to do it: restart compute-agent",
            )
        for condition in self.besides:
            conditions[f"degraded {condition.subject}"] = condition
        if self.error is not None:
            conditions[ENDED] = Condition(with_agents_step(self.error))
        return conditions

    def exceptions(self) -> Iterator[BaseException]:
        """Yield all errors of this report."""
        yield from (*self.driver_errors.values(), *self.failed.values())
        yield from filter(None, (self.error, self.reshape_error))

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
        silent = sorted(self.driver_errors.keys() - set(self.reshape_pending)) if called else []
        why = f"nothing was reported by driver {', '.join(silent)}" if silent else ""
        if self.error is not None:
            why = "then an error ended the period" if self.done else "nothing was reported"
        if self.done:
            written = f"{summary(self.done, self.plan.names)} in {calls}"
            return "; ".join(filter(None, (written, self._undid, why)))
        return f"{why or ('nothing to change' if self.ok else 'nothing was changed')}, {calls}"
