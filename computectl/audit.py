"""``computectl audit``: where Placement, the registry and this host disagree."""

import argparse
from collections.abc import Iterator
from dataclasses import replace

from agent.period.traits import identifying_traits
from computectl.auditing.checks import TITLES, Audit
from computectl.auditing.fleet import FleetAudit
from computectl.auditing.host import HostAudit
from computectl.reading.services import Services
from computectl.shared.commands import SEVERITY_STYLES, Columns, DrawnOrListed, Table, argument
from computectl.shared.errors import PROBLEMS, UNUSABLE
from computectl.shared.screen import Screen, counted, folded
from reportclient.plain_text import plain
from reportclient.root import Counting

COLUMNS: Columns = {
    "check": lambda finding: finding.kind,
    "severity": lambda finding: finding.severity.value,
    "subject": lambda finding: finding.subject,
    "uuid": lambda finding: finding.uuid,
    "text": lambda finding: finding.text,
    "next_step": lambda finding: finding.next_step,
}
SHOWN = 20
"""Maximum number of findings printed for each check; ``-f json`` lists all."""


class AuditCloud(DrawnOrListed[Audit]):
    """Report inconsistencies of this host, or of the whole cloud.

    Finds providers without a host, hosts that do not report, traits and inventory without an
    owner, allocations beyond the inventory, and hosts that are disabled only in their service
    record or only in Placement. Prints the next step for each; changes nothing. Exits with 0 if
    there are no findings, 1 if there are any, 2 if a check could not be made. Findings of
    severity "info" do not count.
    """

    wraps = True
    examples = """\
  computectl audit                this host, against its ledger and its record
  computectl audit --all          all hosts of the registry, and all that Placement has
  computectl audit --all -f json  a row for each finding, for programs
"""
    arguments = (
        argument(
            "--all",
            action="store_true",
            help="audit all hosts; needs the fleet's registry, [registry] access = rpc",
        ),
    )

    def execute(self, options: argparse.Namespace) -> Audit:
        session = self.session()
        api = Counting(session.placement())
        settings = session.settings
        if not options.all:
            return replace(HostAudit(session, api).run(), calls=api.calls)
        owners = identifying_traits(settings.rules.owner_traits)
        down_after = settings.registry.down_after
        services = Services(session)
        alone = settings.host if settings.registry.access == "direct" else None
        fleet_audit = FleetAudit(services, api, owners, alone, down_after, self.progress)
        try:
            return replace(fleet_audit.run(), calls=api.calls)
        finally:
            self.progress("")

    def draw(self, answer: Audit, screen: Screen, options: argparse.Namespace) -> Iterator[str]:
        yield (
            f"{counted(answer.hosts, 'host')}, {counted(answer.providers, 'provider')}, "
            f"{counted(answer.calls, 'call')} to Placement"
        )
        for check, title in TITLES.items():
            findings = answer.findings_of(check)
            number = len(findings)
            count = str(number) if number else "not checked" if check in answer.unknown else "none"
            yield f"\n{screen.paint(title, 'bold')}: {count}"
            for finding in findings[:SHOWN]:
                severity = finding.severity
                painted = screen.paint(f"{severity:<8}", SEVERITY_STYLES[severity])
                uuid = f" ({finding.uuid})" if finding.uuid not in ("", finding.subject) else ""
                text = f"{plain(finding.subject)}{uuid}: {plain(finding.text)}"
                yield folded(f"  {painted} {text}", screen.width, 11)
                yield folded(f"{' ' * 11}→ {plain(finding.next_step)}", screen.width)
            if number > SHOWN:
                yield f"  and {number - SHOWN} more; -f json lists all"

    def table(self, answer: Audit) -> Table:
        return COLUMNS, [each for check in TITLES for each in answer.findings_of(check)]

    def exit_code(self, answer: Audit, options: argparse.Namespace) -> int:
        """Return 2 if a check could not be made, else 1 if there are findings, else 0."""
        for check, why in answer.unknown.items():
            self.print_on_stderr(f"{TITLES[check]}: not checked: {why}")
        if answer.unknown:
            return UNUSABLE
        return PROBLEMS if answer.faults else 0

    def report_failure(self, err: Exception) -> int:
        """Print the error; return 2: no check was made."""
        super().report_failure(err)
        return UNUSABLE
