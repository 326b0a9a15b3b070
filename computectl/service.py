"""``computectl service``: list, show, disable, enable, force down and delete services."""

import argparse
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import ClassVar

from agent.errors import RegistryUnavailable
from agent.ownership.policy import DISABLED
from agent.registry.checks import require_host
from agent.registry.record import is_alive
from agent.reporting.condition import Condition
from compute_registry.control import Switched
from compute_registry.observed_service import (
    CONTESTED,
    DEGRADED,
    DIFFERING,
    GROUPS,
    HEALTHY,
    ObservedService,
)
from computectl.reading.services import Observed, Services
from computectl.shared.commands import (
    SEVERITY_STYLES,
    Argument,
    Columns,
    DrawnOrListed,
    Table,
    argument,
    as_command_error,
)
from computectl.shared.errors import CommandError
from computectl.shared.screen import BETWEEN, Line, Screen, counted, folded, in_columns
from reportclient.plain_text import ago, plain, shortened

COLUMNS: Columns = {
    "host": lambda service: service.record.host,
    "status": lambda service: service.record.status,
    "state": lambda service: service.state,
    "reason": lambda service: service.record.disabled_reason,
    "rpc_version": lambda service: service.record.rpc_version,
    "last_seen": lambda service: service.record.last_seen and service.record.last_seen.isoformat(),
    "silent_for": lambda service: service.record.silent_for and round(service.record.silent_for, 1),
    "roots": lambda service: list(service.record.roots),
    "placement": lambda service: service.placement,
    "address": lambda service: service.record.address,
    "contested_by": lambda service: service.record.contested_by,
    "uuid": lambda service: service.record.uuid,
    "disabled_at": lambda service: (
        service.record.disabled_at and service.record.disabled_at.isoformat()
    ),
    "attached": lambda service: service.record.attached,
    "agent_version": lambda service: service.record.agent_version,
    "degraded": lambda service: service.record.degraded.splitlines(),
    "conditions": lambda service: [each.sentence for each in service.conditions],
}
LISTED: Columns = {
    "status": lambda service: service.status.partition(":")[0],
    "state": lambda service: service.state,
    "last seen": lambda service: service.silence,
    "placement": lambda service: service.placement,
}
"""Columns of the list for people; ``COLUMNS`` are for programs."""
MANY = 100
"""Services from which the list for people has only those that need attention."""
NARROWEST_NAME = 12
"""Columns that a host name has at least."""


class ServiceCommand(DrawnOrListed[Observed]):
    """Base of the ``service`` commands."""

    writes = False

    def execute(self, options: argparse.Namespace) -> Observed:
        """Run the command; after a lost answer the next step is to look at the record."""
        session = self.session()
        if "host" in options:
            require_host(options.host)
        try:
            return self.do(Services(session), options)
        except RegistryUnavailable as err:
            if not self.writes:
                raise
            failure = as_command_error(err, self.files)
            look = f"computectl service show {options.host} shows whether the record was changed"
            raise CommandError(str(err), f"{failure.next_step} {look}", failure.code) from err

    @abstractmethod
    def do(self, services: Services, options: argparse.Namespace) -> Observed:
        """Run the command."""

    def table(self, answer: Observed) -> Table:
        return COLUMNS, answer.services

    def conditions(self, answer: Observed) -> Iterator[Condition]:
        """Yield Placement's error, and each host name that two agents use."""
        if answer.placement_error is not None:
            text = f"Placement can't be reached: {answer.placement_error}"
            yield Condition(text, "computectl audit needs it, too")
        for service in answer.services:
            yield from (each for each in service.conditions if each.kind == CONTESTED)


class OneHost(ServiceCommand):
    """A command about one host."""

    arguments: ClassVar[Sequence[Argument]] = (
        argument("host", metavar="HOST", help="name of the host"),
    )
    wraps = True

    def draw(self, answer: Observed, screen: Screen, options: argparse.Namespace) -> Iterator[str]:
        """Yield what was done, and all facts of each service, on several lines."""
        yield from answer.done
        for service in answer.services:
            record = service.record
            reason = f" ({plain(record.disabled_reason)})" if record.disabled_reason else ""
            last = _HEARTBEATS.get(service.silence, f"last heartbeat {service.silence} ago")
            status = f"{service.status}{reason}"
            yield f"{screen.paint(record.host, 'bold')}  {status}, {service.state}, {last}"
            if record.disabled_at is not None:
                yield f"  disabled  since {record.disabled_at:%Y-%m-%d %H:%M:%S} UTC"
            for each in service.conditions:
                label = screen.paint(f"{each.severity:<9}", SEVERITY_STYLES[each.severity])
                whole = record.degraded.splitlines() if each.kind == DEGRADED else [each.text]
                yield from (f"  {label} {text}" for text in whole)
                yield f"            → {each.next_step}"
            yield f"  placement {_placement(service)}"
            yield f"  agent     {record.address or 'unknown'}"
            yield f"  version   {record.agent_version or 'unknown'}"
            yield f"  rpc       {record.rpc_version or 'unknown'}"
            yield f"  roots     {' '.join(record.roots) or 'none yet'}"
            yield f"  uuid      {record.uuid}"


class ListServices(ServiceCommand):
    """List the services: status, state, and whether Placement agrees.

    The column "placement" is "agrees" if COMPUTE_STATUS_DISABLED is on all roots of a disabled
    host or on none of an enabled one, "DIFFERS" if not (the agent corrects that when it verifies
    its roots), "not in Placement" if a root is not there as a compute node, "no root" if the
    record has none yet (computectl audit says why), "not read" if Placement was not, "Nova's" in
    attach mode.
    """

    examples = """\
  computectl service list                  of more than 100 only those that need attention
  computectl service list --state down --match rack7
  computectl service list -f json          with UUIDs, addresses and seconds
"""
    arguments = (
        argument("--state", choices=GROUPS, help="only services of which this is true"),
        argument("--match", metavar="WORD", help="only services whose row contains it"),
    )

    def do(self, services: Services, options: argparse.Namespace) -> Observed:
        """Read the records page by page, and Placement with two GETs."""
        found = services.observed(services.registry.list_services())
        if not found.services:
            return found
        word = (options.match or "").casefold()
        chosen = [
            service
            for service in found.services
            if (options.state is None or GROUPS[options.state](service))
            and word in service.text.casefold()
        ]
        return replace(found, services=chosen, done=() if chosen else ("no service matches",))

    def draw(self, answer: Observed, screen: Screen, options: argparse.Namespace) -> Iterator[str]:
        shown = services = answer.services
        if not services:
            yield next(iter(answer.done), "no service has sent a heartbeat yet")
            return
        totals = ((name, sum(map(chosen, services))) for name, chosen in GROUPS.items())
        counts = ", ".join(f"{number} {name}" for name, number in totals if number)
        yield folded(f"{counted(len(services), 'service')}: {counts}", screen.width)
        if len(services) > MANY and options.state is options.match is None:
            chosen = (service for service in services if service.attention < HEALTHY)
            shown = sorted(chosen, key=attrgetter("attention"))[:MANY]
        rows = [tuple(cell(service) for cell in LISTED.values()) for service in shown]
        widths = (max(map(len, column)) for column in zip(LISTED, *rows, strict=True))
        room = max(screen.width - sum(width + len(BETWEEN) for width in widths), NARROWEST_NAME)
        lines = []
        for service, cells in zip(shown, rows, strict=True):
            severity = service.severity
            style = None if severity is None else SEVERITY_STYLES[severity]
            name = shortened(service.record.host, room)
            lines.append(Line("", ((name, "bold"),), cells, style))
            notes = (service.record.disabled_reason, *(each.text for each in service.problems))
            texts = (folded(f"  {plain(text)}", screen.width, 4) for text in notes if text)
            lines += [Line("", ((text, None),)) for text in texts]
        yield from in_columns(lines, tuple(LISTED), screen, "host")
        if len(shown) < len(services):
            others = len(services) - len(shown)
            yield f"and {counted(others, 'other service')}: choose with --state or --match"


class ShowService(OneHost):
    """Show one service in full."""

    examples = "  computectl service show host1\n"

    def do(self, services: Services, options: argparse.Namespace) -> Observed:
        """Read one record, and Placement with two GETs."""
        return services.observed([services.registry.get_service(options.host)])


class EnableService(OneHost):
    """Enable a host: let it take new guests again.

    Updates the service record. If the host is up, its agent is called and removes the trait
    COMPUTE_STATUS_DISABLED before this command returns.
    """

    examples = "  computectl service enable host1\n"
    writes = True

    def do(self, services: Services, options: argparse.Namespace) -> Observed:
        """Enable the host; nothing is changed if it is enabled."""
        record = services.registry.get_service(options.host)
        if not (record.disabled or record.attached):
            sentences = [f"{options.host} is already enabled; nothing was changed"]
            return services.observed([record], done=sentences)
        done = services.control.switch(options.host, disabled=False, caller=services.caller)
        return _switched(done, services)


class DisableService(OneHost):
    """Disable a host: it takes no new guests; running guests stay.

    Updates the service record. If the host is up, its agent is called and sets the trait
    COMPUTE_STATUS_DISABLED before this command returns; if the host is down, the agent sets it
    when it starts. Disabling a disabled host changes the reason.
    """

    examples = """\
  computectl service disable host1
  computectl service disable host1 --reason "new disks, ticket 4711"
"""
    writes = True
    arguments = (
        *OneHost.arguments,
        argument("--reason", help="why the host is disabled; up to 255 characters"),
    )

    def do(self, services: Services, options: argparse.Namespace) -> Observed:
        """Update the record, call the agent, then read Placement."""
        done = services.control.switch(
            options.host, disabled=True, reason=options.reason, caller=services.caller
        )
        return _switched(done, services)


class ForceDownService(OneHost):
    """Mark a host as down regardless of its heartbeats, for example after fencing."""

    examples = """\
  computectl service force-down host1
  computectl service force-down host1 --unset
"""
    writes = True
    arguments = (
        *OneHost.arguments,
        argument("--unset", action="store_true", help="no longer force the host down"),
    )

    def do(self, services: Services, options: argparse.Namespace) -> Observed:
        forced = not options.unset
        record = services.control.force_down(options.host, services.caller, forced_down=forced)
        done = "is forced down" if forced else "is no longer forced down"
        return services.observed([record], done=[f"{record.host} {done}"])


class DeleteService(OneHost):
    """Delete the record of a service that is down. Its providers in Placement stay."""

    examples = "  computectl service delete host1\n"
    writes = True

    def do(self, services: Services, options: argparse.Namespace) -> Observed:
        control = services.control
        record = control.delete(options.host, services.caller)
        done = [f"the service record of {record.host} is deleted"]
        if is_alive(record, control.down_after):
            done.append(
                f"it sent a heartbeat {ago(record.silent_for)} ago: if its agent runs, stop it, or "
                "the next one creates a record that is not forced down"
            )
        return Observed([], done=done)


APPLIED_WITHIN = 2.0
"""Seconds in which an agent that runs sets or removes the trait; until then nothing is wrong."""
_HEARTBEATS = {"never": "never sent a heartbeat", "ended": "its agent does not run"}


def _switched(done: Switched, services: Services) -> Observed:
    record = done.record
    sentences = [
        f"{record.host} is {record.status} in its service record",
        *f"its agent was {done.outcome}".split("; "),
    ]
    if done.answer not in (None, record.status):
        sentences.append("its status was changed again meanwhile; it is now:")
        record = services.registry.get_service(record.host)
    give_up = time.monotonic() + APPLIED_WITHIN
    while True:
        observed = services.observed([record], done=sentences)
        differs = any(each.up and each.has(DIFFERING) for each in observed.services)
        if not differs or time.monotonic() > give_up:
            return observed
        time.sleep(APPLIED_WITHIN / 5)


def _placement(service: ObservedService) -> str:
    if service.with_trait is None:
        return "can't be reached"
    if not service.record.roots:
        return "not known: the service record has no root provider yet"
    if service.absent:
        roots = counted(len(service.record.roots), "root")
        return f"lacks {len(service.absent)} of {roots}, or its COMPUTE_NODE"
    has = f"has {DISABLED} on {service.roots_with_trait}"
    return f"{has}; nova-compute sets it" if service.record.attached else has
