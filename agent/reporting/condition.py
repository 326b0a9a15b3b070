"""The one record of what is wrong, made where the fault is found.  Pure.

``status.json``, ``/readyz``, log, metrics, systemd, service record, page and audit show it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from reportclient.errors import OF_OPTIONS, InUse, NameTaken, Next, PlacementError, Shared
from reportclient.plain_text import ago, error_text
from reportclient.plan import Problem

PLACEMENT, DRIVERS, HYPERVISOR = "placement", "drivers", "hypervisor"
REGISTRY, BROKER, DISK = "registry", "broker", "disk"
CHECKS = (PLACEMENT, DRIVERS, HYPERVISOR, REGISTRY, BROKER, DISK)
"""Kinds of conditions that fail the check of ``/readyz`` with this name."""
WRITE, PROVIDER, PART, PERIOD, HOST = "write", "provider", "part", "period", "host"
"""Other kinds: Placement refused a write; a change is not sent; a part of the host is ill, or can't
be read or reported; an error other than Placement's ended a period; anything else."""

RETRY_STEP = "the agent tries again by itself; to find the cause: compute-agent --check"
_OPTIONS = "see [placement]"
_STEPS: Mapping[Next, str] = {
    "retry": RETRY_STEP,
    "wait": "the agent tries again by itself once nothing uses it",
    "operator": "correct this; the agent tries again by itself",
    "code": "correct the driver or provider file that reports it; computectl plan shows the result",
}


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

    @property
    def rank(self) -> int:
        """Its place among all, the most urgent first."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Condition:
    """A problem of ``subject``, such as a driver or a provider; an empty one is the whole node.

    ``next_step`` is what an operator should do.  :raises ValueError: it is empty.
    """

    text: str
    next_step: str
    subject: str = ""
    severity: Severity = Severity.ERROR
    kind: str = HOST
    uuid: str = ""
    """Of the provider; empty if it is about something else."""
    since: float | None = None
    """When it began, in seconds since the epoch: where it is found only if that is recorded, as of
    what drains; of all others :class:`agent.reporting.status.StatusFile` notes it."""

    def __post_init__(self) -> None:
        if not self.next_step:
            raise ValueError(f"the condition {self.text!r} has no next step")

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}" if self.subject else self.text

    @property
    def identity(self) -> tuple[str, str]:
        """What stays the same while the problem lasts; a provider may have several problems."""
        if self.kind == PROVIDER:
            return self.kind, str(self)
        return self.kind, self.uuid or self.subject

    def aged(self, now: float) -> str:
        """Return the condition with how long it has lasted, if that is known."""
        return f"{self} (for {ago(max(0.0, now - self.since))})" if self.since else str(self)

    @property
    def sentence(self) -> str:
        """The condition with its next step."""
        return f"{self}; {self.next_step}"


def texts_of(conditions: Iterable[Condition], *severities: Severity) -> list[str]:
    """Return the texts of the conditions of these severities."""
    return [str(condition) for condition in conditions if condition.severity in severities]


def summarized(texts: Iterable[str]) -> str:
    """Return the first text, and the number of other ones; empty without any."""
    first, *others = [*dict.fromkeys(texts)] or [""]
    return f"{first} (and {len(others)} more)" if others else first


# -- conditions of errors


def with_agents_step(err: BaseException) -> str:
    """Return an error's text, with the agent's options, which the library does not know."""
    text = error_text(err)
    at_fault = isinstance(err, OF_OPTIONS) and "[placement]" not in text
    return f"{text}; {_OPTIONS}" if at_fault else text


def next_step(err: BaseException) -> str:
    """Return what an operator does about an error; it may have a ``next_step`` of its own."""
    if isinstance(err, OF_OPTIONS):
        return _OPTIONS
    if isinstance(err, PlacementError):
        return _STEPS.get(err.next, RETRY_STEP)
    return getattr(err, "next_step", "") or RETRY_STEP


def of_period(err: BaseException) -> Condition:
    """Return the condition that an error ended a period."""
    kind = PLACEMENT if isinstance(err, PlacementError) else PERIOD
    return Condition(error_text(err), next_step(err), kind=kind)


def of_driver(name: str, err: BaseException) -> Condition:
    """Return the condition that a driver failed."""
    step = "what it reported before stays in Placement"
    return Condition(error_text(err), step, f"driver {name}", kind=DRIVERS)


def of_disk(text: str, subject: str = DISK, step: str = "") -> Condition:
    """Return the condition that a file of ``state_path`` can't be written or read."""
    step = step or "correct this; the agent tries again by itself"
    return Condition(text, step, subject, kind=DISK)


def of_part(part: str, text: str) -> Condition:
    """Return the condition that a driver calls a part of the host ill, or can't read it."""
    step = "correct it on this host; the driver looks again in each period"
    return Condition(text, step, part, Severity.DEGRADED, PART)


def of_problem(problem: Problem) -> Condition:
    """Return the condition that a change is not sent."""
    subject, uuid = f"provider {problem.provider} ({problem.uuid})", problem.uuid
    if problem.kept:
        step = f"it goes once only this agent uses it; to see what it has: computectl tree {uuid}"
        return Condition(problem.text, step, subject, Severity.WARNING, PROVIDER, uuid)
    return Condition(problem.text, _STEPS["code"], subject, Severity.ERROR, PROVIDER, uuid)


def of_write(key: str, err: BaseException, names: Mapping[str, str], node: str) -> Condition:
    """Return the condition that Placement refused a write to a provider.

    :param key: the provider's UUID, or what else was written.
    :param names: of the providers, by UUID; ``node`` is the root's.
    """
    subject = names.get(key, key)
    if isinstance(err, InUse):
        step = ends_drain(key)
    elif isinstance(err, NameTaken) and subject == node:
        step = (
            "if that provider is this host, as after a reinstallation or with a new state_path: "
            f"computectl adopt {node}"
        )
    else:
        step = next_step(err)
    return Condition(error_text(err), step, subject, kind=WRITE, uuid=key)


def of_drain(
    key: str, err: BaseException, names: Mapping[str, str], since: float | None
) -> Condition:
    """Return the condition that guests, or other hosts, may use what is to be removed."""
    step, severity = ends_drain(key), Severity.INFO
    if isinstance(err, Shared):  # which of the hosts in its aggregates use it nobody can tell
        step = f"once no host uses it: openstack resource provider delete {key}"
        severity = Severity.WARNING
    text, subject = error_text(err), names.get(key, key)
    return Condition(text, step, subject, severity, WRITE, key, since)


def ends_drain(provider: str) -> str:
    """Return how an operator ends the draining of a provider (UUID) sooner."""
    return (
        "to end it sooner: migrate or delete these guests (openstack server migrate); if neither a "
        "server nor a migration has a consumer's UUID: openstack resource provider allocation "
        f"unset --provider {provider} CONSUMER"
    )
