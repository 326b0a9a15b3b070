"""``computectl audit``: where Placement, the registry and this host disagree."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from agent.period.traits import identifying_traits
from computectl.auditing.checks import TITLES, Audit, Finding
from computectl.auditing.fleet import FleetAudit
from computectl.auditing.host import HostAudit
from computectl.reading.services import Services
from computectl.shared.command_session import Session
from computectl.shared.commands import DrawnOrListed, Table, argument
from computectl.shared.errors import NOT_WELL, UNUSABLE
from computectl.shared.screen import Screen, counted, filled
from reportclient.calls import Counting
from reportclient.plain_text import plain

COLUMNS = ("check", "severity", "subject", "uuid", "text", "next_step")
SHOWN = 20
"""Of one check, for people."""
STYLES = {"error": "red", "warning": "yellow", "info": None}


@dataclass(frozen=True, slots=True)
class Audited:
    """The findings of an audit, and its number of calls to Placement."""

    audit: Audit
    calls: int


class AuditCloud(DrawnOrListed[Audited]):
    """Report inconsistencies on this host, or in the whole cloud.

    Providers without a host, hosts that do not report, traits and inventory without an owner,
    allocations beyond the inventory, hosts that are disabled in their record or in Placement
    only. Each with its next step; nothing is changed. Exits with 0 if nothing is found, 1 if
    something is, 2 if something could not be checked. The severity "info" does not count.
    """

    drawn = "words"
    examples = """\
  computectl audit                this host, against its ledger and its record
  computectl audit --all          all hosts of the registry, and all that Placement has
  computectl audit --all -f json  a row for each finding, for programs
"""
    arguments = (
        argument(
            "--all",
            action="store_true",
            help="all hosts; with the registry of the fleet, [registry] access = rpc",
        ),
    )

    def execute(self, session: Session, options: argparse.Namespace) -> Audited:
        """Read all of it."""
        api = Counting(session.placement())
        settings = session.settings
        if not options.all:
            return Audited(HostAudit(session, api).run(), api.calls)
        owners = identifying_traits(settings.rules.owner_traits)
        down_after = settings.registry.down_after
        services = Services(session)
        whole = FleetAudit(services, api, owners, settings.host, down_after, self.progress)
        try:
            return Audited(whole.run(), api.calls)
        finally:
            self.progress("")

    def draw(self, answer: Audited, screen: Screen, options: argparse.Namespace) -> str:  # noqa: ARG002
        return "\n".join(_lines(answer, screen))

    def table(self, answer: Audited) -> Table:
        found = (one for check in TITLES for one in answer.audit.findings_of(check))
        return COLUMNS, [_row(one) for one in found]

    def exit_code(self, answer: Audited, options: argparse.Namespace) -> int:  # noqa: ARG002
        """Not to know comes before what is known."""
        for check, why in answer.audit.unknown.items():
            self.print_on_stderr(f"{TITLES[check]}: can't be checked: {why}")
        if answer.audit.unknown:
            return UNUSABLE
        return NOT_WELL if answer.audit.faults else 0

    def report_failure(self, err: Exception) -> int:
        """Then nothing is known."""
        super().report_failure(err)
        return UNUSABLE


def _row(one: Finding) -> tuple[str, ...]:
    said = one.condition
    return (one.check, said.severity.value, said.subject, one.uuid, said.text, said.next_step)


def _lines(answer: Audited, screen: Screen) -> Iterator[str]:
    audit = answer.audit
    yield (
        f"{counted(audit.hosts, 'host')}, {counted(audit.providers, 'provider')}, "
        f"{counted(answer.calls, 'call')} to Placement"
    )
    for check, title in TITLES.items():
        found = audit.findings_of(check)
        many = str(len(found)) if found else "not known" if check in audit.unknown else "none"
        yield f"\n{screen.paint(title, 'bold')}: {many}"
        for one in found[:SHOWN]:
            yield from _one(one, screen)
        if len(found) > SHOWN:
            yield f"  and {len(found) - SHOWN} more; -f json has all"


def _one(one: Finding, screen: Screen) -> Iterator[str]:
    said = one.condition
    word = said.severity.value
    uuid = f" ({one.uuid})" if one.uuid and one.uuid != said.subject else ""
    text = f"{plain(said.subject)}{uuid}: {plain(said.text)}"
    lines = filled(text, screen.width, " " * 11, " " * 11).splitlines()
    yield f"  {screen.paint(word, STYLES[word])}{lines[0][2 + len(word) :]}"
    yield from lines[1:]
    if said.next_step:
        arrow = screen.branches.arrow
        yield filled(f"{arrow} {plain(said.next_step)}", screen.width, " " * 11, " " * 13)
