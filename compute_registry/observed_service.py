"""A service record together with what is observed of its host, and what is wrong there.  Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from agent.ownership.policy import DISABLED
from agent.registry.record import ServiceRecord, is_alive, place_of
from agent.reporting.condition import Condition, Severity
from reportclient.plain_text import ago, first_few

CONTESTED, DOWN, DEGRADED = "contested", "down", "degraded"
ABSENT, DIFFERING = "absent", "differing"
"""Kinds of a service's conditions; all others are about the host in general."""
HEALTHY = len(Severity)
"""The attention that a service needs of which nothing is wrong, and which is enabled."""


class Roots(NamedTuple):
    """The root providers of hosts in Placement: UUIDs of the disabled ones, and names by UUID."""

    disabled: frozenset[str]
    present: Mapping[str, str]
    """Those with COMPUTE_NODE."""


class Agreement(StrEnum):
    """How a service record compares with Placement."""

    AGREES = "agrees"
    DIFFERS = "DIFFERS"
    """COMPUTE_STATUS_DISABLED is on a root of an enabled host, or not on all of a disabled one."""
    ABSENT = "not in Placement"
    """Placement lacks a root, or its COMPUTE_NODE."""
    ATTACHED = "Nova's"
    NO_ROOT = "no root"
    NOT_READ = "not read"


@dataclass(frozen=True)
class ObservedService:
    """A service record, whether heartbeats arrive, and what Placement has of it.

    ``with_trait``: the number of its root providers with COMPUTE_STATUS_DISABLED; ``None`` if
    Placement could not be read.
    """

    record: ServiceRecord
    alive: bool
    """Whether heartbeats arrive, also if it is forced down."""
    with_trait: int | None = None
    absent: Sequence[str] = ()
    """UUIDs of its root providers that Placement does not have as compute nodes."""
    namesake: str = ""
    """The UUID of a root provider in Placement with the host's name."""
    renamed: ServiceRecord | None = None
    """The record of the same agent under another name: see :func:`renamed_hosts`"""

    @property
    def up(self) -> bool:
        """Whether heartbeats arrive and the service is not forced down."""
        return self.alive and not self.record.forced_down

    @property
    def state(self) -> str:
        """``up``, ``down`` or ``forced down``."""
        return "forced down" if self.record.forced_down else "up" if self.alive else "down"

    @property
    def status(self) -> str:
        """The status in lists; in attach mode the status is that of Nova's service."""
        return "attached: Nova's" if self.record.attached else self.record.status

    @property
    def silence(self) -> str:
        """The time since the last heartbeat for people, ``never``, or ``ended`` with its agent."""
        ended = self.record.last_seen is not None and self.record.silent_for is None
        return "ended" if ended else ago(self.record.silent_for)

    @property
    def placement(self) -> Agreement:
        """Whether Placement agrees with the record."""
        roots = len(self.record.roots)
        if self.absent:
            return Agreement.ABSENT
        if self.record.attached:
            return Agreement.ATTACHED
        if not roots:
            return Agreement.NO_ROOT
        if self.with_trait is None:
            return Agreement.NOT_READ
        agrees = self.with_trait == (roots if self.record.disabled else 0)
        return Agreement.AGREES if agrees else Agreement.DIFFERS

    @property
    def roots_with_trait(self) -> str:
        """On how many of its roots COMPUTE_STATUS_DISABLED is."""
        roots = len(self.record.roots)
        of_all = f"{self.with_trait} of {roots} root{'' if roots == 1 else 's'}"
        return of_all if self.with_trait else "none of its roots"

    @property
    def disabled_since(self) -> str:
        """When the host was disabled; empty if it is enabled, or that is unknown."""
        at = self.record.disabled_at
        return f"since {at:%Y-%m-%d %H:%M} UTC" if at else ""

    @cached_property
    def conditions(self) -> Sequence[Condition]:
        """Conditions that an operator may have to act on: audit, page, lists and groups show them.

        An error is what stops guests or misleads the scheduler; a warning is what an operator has
        caused, such as a disabled host that is down.
        """
        return [*self._of_heartbeats(), *self._of_the_agent(), *self._of_placement()]

    @property
    def problems(self) -> list[Condition]:
        """The conditions that are more than information."""
        return [each for each in self.conditions if each.severity is not Severity.INFO]

    @property
    def severity(self) -> Severity | None:
        """That of its worst problem; ``None`` without one."""
        return min((each.severity for each in self.problems), key=attrgetter("rank"), default=None)

    @property
    def attention(self) -> int:
        """How urgently it needs an operator: 0 is the most urgent."""
        least = Severity.INFO.rank if self.record.disabled else HEALTHY
        return least if self.severity is None else self.severity.rank

    @property
    def text(self) -> str:
        """The text that a search looks in, whatever a list shows of it."""
        record = self.record
        texts = record.host, self.state, self.status, self.placement, record.degraded
        more = record.disabled_reason, self.disabled_since, record.agent_version, record.address
        wrong = (each.text for each in self.conditions)
        return "\n".join((*texts, *filter(None, more), *wrong))

    def has(self, *kinds: str) -> bool:
        """Return whether it has a condition of one of these kinds."""
        return any(each.kind in kinds for each in self.conditions)

    def _of_heartbeats(self) -> Iterator[Condition]:
        record, host = self.record, self.record.host
        if record.contested_by is not None:
            text = (
                f"two agents use this host name: the agent at {record.address} is served, "
                f"the agent at {record.contested_by} is refused"
            )
            step = "set another [DEFAULT] host for one of the two agents"
            yield Condition(text, step, host, kind=CONTESTED)
        if not self.alive:
            yield self._silent()
        elif record.forced_down:
            text = "is forced down, though it sends heartbeats"
            step = f"if it is well: computectl service force-down {host} --unset"
            yield Condition(text, step, host, Severity.WARNING, DOWN)
        elif self.renamed is not None:
            other = self.renamed.host
            text = f"was renamed: the record of {other} has its root provider until that is down"
            step = f"wait; then: computectl service delete {other}"
            yield Condition(text, step, host, Severity.INFO)
        elif not record.roots:
            text = "sends heartbeats, but has not reported a root provider yet"
            step = "wait for its first report; computectl status on the host shows the cause"
            yield Condition(text, step, host, Severity.INFO)

    def _silent(self) -> Condition:
        record, host = self.record, self.record.host
        if self.renamed is not None:
            text, step = f"was renamed to {self.renamed.host}", f"computectl service delete {host}"
            return Condition(text, step, host, Severity.WARNING, DOWN)
        texts = {"never": "has never sent a heartbeat", "ended": "its agent does not run"}
        text = texts.get(self.silence, f"no heartbeat for {self.silence}")
        forced = ", forced down" if record.forced_down else ""
        # An agent disables its host itself when the hypervisor is lost: nobody intended that.
        intended = record.forced_down or (record.disabled and not record.is_auto)
        severity = Severity.WARNING if intended else Severity.ERROR
        force = "" if record.forced_down else f"computectl service force-down {host}, "
        retire = f"computectl retire {host}"
        if record.attached:
            retire = "delete its compute service in Nova"
        steps = f"{force}{retire}, computectl service delete {host}"
        step = f"start compute-agent on that host; if it died for good: {steps}"
        if self.silence == "ended":  # on this host, which has no registry
            step = "start compute-agent; to take this host out of Placement: computectl retire"
        return Condition(f"{text} ({self.status}{forced})", step, host, severity, DOWN)

    def _of_the_agent(self) -> Iterator[Condition]:
        record, host = self.record, self.record.host
        step = "run computectl status on the host"
        if record.degraded:
            first, *others = record.degraded.splitlines()
            text = f"degraded: {first}{f' (+{len(others)} more)' if others else ''}"
            yield Condition(text, step, host, Severity.DEGRADED, DEGRADED)
        if record.is_auto:
            since = f"{self.disabled_since}, " if self.disabled_since else ""
            text = f"disabled by its agent, {since}until its hypervisor is back"
            yield Condition(text, step, host, Severity.DEGRADED)
        if record.attached:
            text = "runs in attach mode: nova-compute owns its service, and enables and disables it"
            step = f"to disable it: openstack compute service set --disable {host} nova-compute"
            yield Condition(text, step, host, Severity.INFO)

    def _of_placement(self) -> Iterator[Condition]:
        record, host, absent = self.record, self.record.host, self.absent
        if self.placement is Agreement.ABSENT:
            text = f"its root provider {absent[0]} is not in Placement as a compute node"
            if len(record.roots) > 1:
                number = f"{len(absent)} of its {len(record.roots)} root providers"
                text = f"{number} are not in Placement as compute nodes: {first_few(absent)}"
            step = "run computectl status on the host to see why"
            if self.namesake:
                adopt = f"if that is this host: computectl adopt {host} on it"
                step = f"{host} is there as {self.namesake}; {adopt}"
            severity = Severity.ERROR if self.up else Severity.WARNING
            yield Condition(text, step, host, severity, ABSENT)
        elif self.placement is Agreement.DIFFERS:
            step = "start its agent; until then the scheduler follows Placement"
            if self.alive:
                step = (
                    "its agent corrects this at its next heartbeat or verification; if not: "
                    "computectl status on the host"
                )
            has = f"{DISABLED} is on {self.roots_with_trait}"
            text = f"{record.status} in its service record, but {has}"
            yield Condition(text, step, host, kind=DIFFERING)


GROUPS: Mapping[str, Callable[[ObservedService], bool]] = {
    "up": lambda service: service.up,
    "down": lambda service: service.has(DOWN),
    "degraded": lambda service: service.has(DEGRADED),
    "enabled": lambda service: not service.record.disabled,
    "disabled": lambda service: service.record.disabled,
    "attached": lambda service: service.record.attached,
    "differing": lambda service: service.has(ABSENT, DIFFERING),
    "contested": lambda service: service.has(CONTESTED),
}
"""Groups of services, which lists count and choose, with their predicates."""


def observed_services(
    records: Sequence[ServiceRecord], down_after: float, roots: Roots | None
) -> list[ObservedService]:
    """Return the services of records.

    :param down_after: seconds without a heartbeat after which a service counts as down.
    :param roots: what Placement has, ``None`` if unknown.
    """
    same = renamed_hosts(records)
    services = [
        ObservedService(each, is_alive(each, down_after), renamed=same.get(each.host))
        for each in records
    ]
    if roots is None:
        return services
    present = roots.present.keys() | roots.disabled
    uuids = {name: uuid for uuid, name in roots.present.items()}
    return [
        replace(
            each,
            with_trait=len(roots.disabled.intersection(each.record.roots)),
            absent=[root for root in each.record.roots if root not in present],
            namesake=uuids.get(each.record.host, ""),
        )
        for each in services
    ]


def renamed_hosts(records: Iterable[ServiceRecord]) -> dict[str, ServiceRecord]:
    """Return, by host without a root, the record that has the roots of the same agent.

    Its host was renamed: the roots move to the record of the new name once the old one is down.
    """
    with_roots, without = dict[str, ServiceRecord](), dict[str, str]()
    for record in records:
        if record.roots:
            with_roots[place_of(record.address)] = record
        elif record.address:
            without[record.host] = place_of(record.address)
    return {host: with_roots[at] for host, at in without.items() if at in with_roots}
