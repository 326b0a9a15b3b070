"""``computectl service``: which hosts there are, and switching them off and on."""

import argparse
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from agent.period.traits import DISABLED
from agent.registry.control import Switched
from agent.registry.observed_service import ObservedService
from agent.reporting.conditions import Condition
from computectl.reading.services import Services, registry_errors
from computectl.shared.command_session import Session
from computectl.shared.commands import Argument, DrawnOrListed, Table, argument
from computectl.shared.errors import CommandError
from computectl.shared.screen import Line, Screen, ago, counted, in_columns
from reportclient.plain_text import plain

COLUMNS = (
    *("host", "status", "state", "reason", "rpc_version", "last_seen", "silent_for", "roots"),
    *("placement_agrees", "address", "contested_by", "uuid", "disabled_at", "damaged", "attached"),
)
TITLES = ("status", "state", "rpc", "last seen", "roots", "placement")


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """Services, and why Placement could not be asked about them."""

    services: list[ObservedService]
    placement_error: str | None = None
    said: list[str] = field(default_factory=list)
    """What was done, for people."""

    def conditions(self) -> Iterator[Condition]:
        """What is not well."""
        if self.placement_error is not None:
            yield Condition(f"Placement can't be reached: {self.placement_error}")
        for seen in self.services:
            yield from seen.conditions()


class ServiceCommand(DrawnOrListed[ServiceAnswer]):
    """Base of the ``service`` commands."""

    drawn = "words"
    writes = False

    def execute(self, session: Session, options: argparse.Namespace) -> ServiceAnswer:
        """Do it, with what goes wrong told for an operator."""
        with registry_errors(options.host if self.writes else None):
            return self.do(Services(session), options)

    @abstractmethod
    def do(self, services: Services, options: argparse.Namespace) -> ServiceAnswer:
        """Run the command."""

    def draw(self, answer: ServiceAnswer, screen: Screen, options: argparse.Namespace) -> str:  # noqa: ARG002
        return "\n".join([*answer.said, *in_full(answer.services, screen)])

    def table(self, answer: ServiceAnswer) -> Table:
        return COLUMNS, [_row(seen) for seen in answer.services]

    def conditions(self, answer: ServiceAnswer, options: argparse.Namespace) -> Iterator[Condition]:  # noqa: ARG002
        """The same."""
        return answer.conditions()


class OneHost(ServiceCommand):
    """A command about one host."""

    arguments: ClassVar[Sequence[Argument]] = (argument("host", metavar="HOST"),)


class ListServices(ServiceCommand):
    """List the services: status, state, and whether Placement says the same.

    "placement" is agrees where Placement has COMPUTE_STATUS_DISABLED on all roots of a
    disabled host and on none of an enabled one, DIFFERS where it has not (the agent corrects
    that when it verifies its roots), ? where it is not known.
    """

    examples = """\
  computectl service list
  computectl service list -f json    with UUIDs, addresses and seconds
"""

    def do(self, services: Services, options: argparse.Namespace) -> ServiceAnswer:  # noqa: ARG002
        """One page of records at a time, and one GET to Placement."""
        return ServiceAnswer(*services.observed(services.registry.list_services()))

    def draw(self, answer: ServiceAnswer, screen: Screen, options: argparse.Namespace) -> str:  # noqa: ARG002
        if not answer.services:
            return "no service has sent a heartbeat yet"
        return "\n".join(in_lines(answer.services, screen))


class ShowService(OneHost):
    """Show one service in full."""

    examples = "  computectl service show host1\n"

    def do(self, services: Services, options: argparse.Namespace) -> ServiceAnswer:
        """One record, and one GET to Placement."""
        return ServiceAnswer(*services.observed([services.registry.get_service(options.host)]))


class EnableService(OneHost):
    """Let a host take new guests again.

    Changes its record. If it is up, its agent is called and takes the trait
    COMPUTE_STATUS_DISABLED away before this command ends.
    """

    examples = "  computectl service enable host1\n"
    writes = True

    def do(self, services: Services, options: argparse.Namespace) -> ServiceAnswer:
        """Refuses one that is enabled: whoever asks has another host in mind, maybe."""
        record = services.registry.get_service(options.host)
        if not (record.disabled or record.attached):
            raise CommandError(f"{options.host} is enabled already", "nothing was changed")
        done = services.control.switch(options.host, disabled=False, caller=services.caller)
        return _switched(done, services)


class DisableService(OneHost):
    """Keep new guests away from a host; those that it has stay.

    Changes its record. If it is up, its agent is called and sets the trait
    COMPUTE_STATUS_DISABLED before this command ends; if it is down, it does so when it
    starts. Disabling it again changes the reason.
    """

    examples = """\
  computectl service disable host1
  computectl service disable host1 --reason "new disks, ticket 4711"
"""
    writes = True
    arguments = (
        *OneHost.arguments,
        argument("--reason", help="up to 255 characters, shown in lists"),
    )

    def do(self, services: Services, options: argparse.Namespace) -> ServiceAnswer:
        """Record first, then the agent, then what Placement has."""
        done = services.control.switch(
            options.host, disabled=True, reason=options.reason, caller=services.caller
        )
        return _switched(done, services)


class ForceDownService(OneHost):
    """Say that a host is down, whatever its heartbeats say: one that was fenced."""

    examples = """\
  computectl service force-down host1
  computectl service force-down host1 --unset
"""
    writes = True
    arguments = (
        *OneHost.arguments,
        argument("--unset", action="store_true", help="take it back"),
    )

    def do(self, services: Services, options: argparse.Namespace) -> ServiceAnswer:
        """The record; an agent that counts as up again is told what it says."""
        forced = not options.unset
        record = services.control.force_down(options.host, services.caller, forced_down=forced)
        said = "is forced down" if forced else "is no longer forced down"
        return ServiceAnswer(*services.observed([record]), [f"{record.host} {said}"])


class DeleteService(OneHost):
    """Forget a service that is down. Its providers in Placement stay."""

    examples = "  computectl service delete host1\n"
    writes = True

    def do(self, services: Services, options: argparse.Namespace) -> ServiceAnswer:
        """The record; none is shown then."""
        services.registry.delete(options.host)
        return ServiceAnswer([], None, [f"the record of {options.host} is deleted"])


def _switched(done: Switched, services: Services) -> ServiceAnswer:
    record = done.record
    said = [f"the record says: {record.host} is {record.status}"]
    if done.answer is not None:
        said.append(f"its agent was called, and answered: {done.answer}")
    elif done.called:
        said.append(f"its agent was called, without an answer: {done.why_not}")
    else:
        said.append(f"its agent was not called: {done.why_not}")
    if done.answer not in (None, record.status):
        said.append("it was switched again since; its state now:")
        record = services.registry.get_service(record.host)
    return ServiceAnswer(*services.observed([record]), said)


def in_lines(services: Iterable[ObservedService], screen: Screen) -> Iterator[str]:
    """A line for each service, its reason below it."""
    lines = []
    for seen in services:
        record = seen.record
        cells = (
            *(record.shown_status, seen.state, record.rpc_version or "?", ago(record.silent_for)),
            *(str(len(record.roots)), seen.agreement),
        )
        bad = seen.agrees is False or record.contested_by is not None or record.damaged
        style = "red" if bad else None if seen.up else "yellow"
        lines.append(Line("", ((record.host, "bold"),), cells, style))
        if record.disabled_reason:
            lines.append(Line("", ((f"  {plain(record.disabled_reason)}", None),)))
    return in_columns(lines, TITLES, screen)


def in_full(services: Iterable[ObservedService], screen: Screen) -> Iterator[str]:
    """Some lines for each service."""
    for seen in services:
        record = seen.record
        reason = f" ({plain(record.disabled_reason)})" if record.disabled_reason else ""
        seconds = ago(record.silent_for)
        last = f"last heartbeat {seconds} ago" if record.last_seen else "no heartbeat ever"
        status = f"{record.shown_status}{reason}"
        yield f"{screen.paint(record.host, 'bold')}  {status}, {seen.state}, {last}"
        if record.disabled_at is not None:
            yield f"  disabled  since {record.disabled_at:%Y-%m-%d %H:%M:%S} UTC"
        yield f"  uuid      {record.uuid}"
        yield f"  agent     {record.address or 'unknown'}"
        yield f"  rpc       {record.rpc_version or 'unknown'}"
        yield f"  roots     {' '.join(record.roots) or 'none yet'}"
        yield f"  placement {_placement(seen)}"


def _placement(seen: ObservedService) -> str:
    if seen.with_trait is None:
        return "can't be reached"
    roots = len(seen.record.roots)
    if not roots:
        return "has nothing of it, as far as the record tells"
    has = f"has {DISABLED} on {seen.with_trait} of {counted(roots, 'root')}"
    if seen.record.attached:
        return f"{has}; nova-compute sets it"
    return has if seen.agrees else f"{has}, and does not agree yet"


def _row(seen: ObservedService) -> list[object]:
    record = seen.record
    silent = record.silent_for
    reason = None if record.disabled_reason is None else plain(record.disabled_reason)
    return [
        *(record.host, record.status, seen.state, reason, record.rpc_version),
        record.last_seen.isoformat() if record.last_seen else None,
        None if silent is None else round(silent, 1),
        *(list(record.roots), seen.agrees, record.address, record.contested_by, record.uuid),
        record.disabled_at.isoformat() if record.disabled_at else None,
        list(record.damaged),
        record.attached,
    ]
