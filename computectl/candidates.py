"""``computectl candidates``: allocation candidates as a scheduler gets them, explained."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from computectl.asking import explain
from computectl.asking.request import (
    LIMIT,
    add_request_options,
    parse_with_groups,
    query_of,
    read_request_file,
    unknown_names_error,
    whole_form,
)
from computectl.reading.trees import name_of, names_in, trees_of
from computectl.shared.commands import TEXT, Columns, DrawnOrListed, Table, argument
from computectl.shared.errors import PROBLEMS, CommandError
from computectl.shared.screen import Screen, counted, folded
from drivers.errors import BadFile
from reportclient.candidates import (
    AllocationCandidates,
    AllocationRequest,
    ProviderSummary,
    ResourceRequest,
    read_request,
)
from reportclient.candidates.asking import allocation_candidates
from reportclient.errors import Rejected, UnknownNames
from reportclient.http import API
from reportclient.root import Counting

SHOWN_HOSTS = 20
"""Hosts that are drawn; the formats for programs list all."""
EXAMPLES = (
    "computectl candidates --resources VCPU=2,MEMORY_MB=512; "
    "computectl candidates --resources VCPU=2 --required HW_CPU_X86_AVX2 --explain"
)
NAMES = frozenset({"host", "provider"})
"""Columns that need the names of providers, which takes further calls."""


class Row(NamedTuple):
    """A provider of a candidate, which has a number in Placement's answer.

    ``groups``: suffixes of the request's groups that the provider meets.
    """

    number: int
    host: str
    uuid: str
    answered: "Answered"
    resources: Mapping[str, int]
    groups: Sequence[str]

    def amounts(self, amount_of: Callable[[ProviderSummary, str], int]) -> dict[str, int]:
        """Return an amount of the provider for each requested resource class."""
        summaries = self.answered.answer.provider_summaries
        return {name: amount_of(summaries[self.uuid], name) for name in self.resources}


COLUMNS: Columns = {
    "candidate": lambda row: row.number,
    "host": lambda row: row.answered.names.get(row.host, row.host),
    "host_uuid": lambda row: row.host,
    "provider": lambda row: row.answered.names.get(row.uuid, row.uuid),
    "provider_uuid": lambda row: row.uuid,
    "resources": lambda row: dict(row.resources),
    "groups": lambda row: list(row.groups),
    "free": lambda row: row.amounts(ProviderSummary.free),
    "capacity": lambda row: row.amounts(lambda summary, name: summary.capacity[name]),
}


@dataclass(frozen=True, slots=True)
class Answered:
    """Candidates, names by provider UUID, the calls that they took, and the requested limit.

    ``explanation``: with ``--explain`` also what each constraint excludes.
    """

    answer: AllocationCandidates
    names: Mapping[str, str]
    calls: int
    limit: int | None = None
    explanation: explain.Explanation | None = None


class ShowCandidates(DrawnOrListed[Answered]):
    """Query Placement for allocation candidates, as a scheduler does.

    Disabled hosts are excluded, as by a scheduler. Exits with 1 if there are no candidates.
    """

    examples = """\
  computectl candidates --resources VCPU=2,MEMORY_MB=512 --required HW_CPU_X86_AVX2
  computectl candidates --resources VCPU=2 --group ACCEL:CUSTOM_FPGA=1 \\
      --required-ACCEL in:CUSTOM_TYPE1,CUSTOM_TYPE2 --in-tree-ACCEL host1
  computectl candidates --query 'resources=VCPU:2&required=!CUSTOM_OLD' --explain
  computectl candidates --file request.yaml -f json
"""

    arguments = (
        argument(
            "--explain",
            action="store_true",
            help="show how many hosts each constraint excludes, and the largest amounts to be had",
        ),
        argument(
            "--include-disabled",
            action="store_true",
            help="include disabled hosts, which a scheduler excludes",
        ),
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of the request."""
        parser = super().get_parser(prog_name)
        add_request_options(parser)
        parser.parse_args = partial(parse_with_groups, parser)  # type: ignore[assignment,method-assign]
        return parser

    def execute(self, options: argparse.Namespace) -> Answered:
        session = self.session()
        api = Counting(session.placement())
        request = _request(options, api)
        disabled = options.include_disabled
        explanation = None
        try:
            answer = allocation_candidates(request, api, include_disabled=disabled)
            if options.explain:
                explanation = explain.explain(request, api, include_disabled=disabled)
        except UnknownNames as err:
            raise unknown_names_error(err, api) from err
        except Rejected as err:
            raise CommandError(str(err), "--help shows the syntax") from err
        shown: list[str] = []  # hosts whose providers are shown by name, which takes calls
        if options.formatter == TEXT:
            shown = answer.hosts()[:SHOWN_HOSTS]
        elif not options.explain and (not options.columns or {*options.columns} & NAMES):
            shown = answer.hosts()
        names = names_in(trees_of(answer, shown), api)
        return Answered(answer, names, api.calls, request.limit, explanation)

    def draw(self, answer: Answered, screen: Screen, options: argparse.Namespace) -> Iterator[str]:
        found, hosts = answer.answer, answer.answer.hosts()
        many = len(found)
        at_least = "at least " if answer.limit is not None and many >= answer.limit else ""
        sharing = sum(found.provider_summaries[uuid].shares for uuid in hosts)
        counts = {"host": len(hosts) - sharing, "sharing provider": sharing}
        roots = " and ".join(counted(number, what) for what, number in counts.items() if number)
        where = f" on {roots}" if many else ""
        yield f"{at_least}{counted(many, 'candidate')}{where}, {counted(answer.calls, 'call')}"
        by_host: dict[str, list[AllocationRequest]] = {}
        for request in found.allocation_requests:
            by_host.setdefault(found.host(request), []).append(request)
        for host in sorted(hosts[:SHOWN_HOSTS], key=lambda host: name_of(host, answer.names)):
            yield ""
            yield f"{screen.paint(name_of(host, answer.names), 'bold')}  {host}"
            candidates = sorted(_candidate(request, answer) for request in by_host[host])
            yield from (folded(f"  - {text}", screen.width, 4) for text in candidates)
        if len(hosts) > SHOWN_HOSTS:
            more = sum(len(by_host[host]) for host in hosts[SHOWN_HOSTS:])
            yield ""
            others = counted(len(hosts) - SHOWN_HOSTS, "host")
            yield f"and {counted(more, 'candidate')} on {others} more; -f json lists all"
        if answer.explanation is not None:
            yield ""
            yield from explain.draw(answer.explanation, screen)

    def table(self, answer: Answered) -> Table:
        if answer.explanation is not None:
            return explain.COLUMNS, answer.explanation.rows
        return COLUMNS, _rows(answer)

    def exit_code(self, answer: Answered, options: argparse.Namespace) -> int:
        """Return 1 if there are no candidates, or if Placement's answer has wrong amounts."""
        wrong = answer.answer.miscounted
        if wrong:
            self.print_on_stderr(
                f"do not claim {counted(wrong, 'candidate')} of Placement's answer: the amounts "
                "differ from the request because of a defect of Placement (docs/candidates.rst)"
            )
        if len(answer.answer):
            return PROBLEMS if wrong else 0
        if not options.explain:
            self.print_on_stderr("no candidates; --explain shows which constraint excludes them")
        return PROBLEMS


def _request(options: argparse.Namespace, api: API) -> ResourceRequest:
    limits = [each for each in options.given if each.parameter == "limit"]
    given = [each for each in options.given if each.parameter != "limit"]
    if not given:
        raise CommandError("no resources are requested", f"for example: {EXAMPLES}")
    form = whole_form(given, ("query", "file"))
    if form is not None and form.parameter == "file":
        request = _request_from_file(form.value)
    else:
        request = read_request(form.value if form else query_of(given, api))
    limit = read_request(query_of(limits, api)).limit
    limit = request.limit if limit is None else limit
    return replace(request, limit=LIMIT if limit is None else limit)


def _request_from_file(file: str) -> ResourceRequest:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        return read_request_file(text, file)
    except BadFile as err:
        raise CommandError(str(err), "correct the file; no request was sent") from err
    except (OSError, UnicodeError) as err:
        reason = getattr(err, "strerror", None) or "it is not UTF-8"
        raise CommandError(f"--file {file}: {reason}", "name a file that can be read") from err


def _rows(answered: Answered) -> Iterator[Row]:
    for number, request in enumerate(answered.answer.allocation_requests, 1):
        host, groups = answered.answer.host(request), _groups(request)
        for uuid in {**request.allocations, **groups}:
            resources = request.allocations.get(uuid, {})
            yield Row(number, host, uuid, answered, resources, groups.get(uuid, []))


def _groups(request: AllocationRequest) -> dict[str, list[str]]:
    """Return the suffixes of the request's groups that each provider meets, by UUID."""
    suffixes: dict[str, list[str]] = {}
    for suffix, uuids in sorted(request.mappings.items()):
        for uuid in uuids:
            suffixes.setdefault(uuid, []).append(suffix)
    return suffixes


def _candidate(request: AllocationRequest, answered: Answered) -> str:
    """Return a candidate as ``a (VCPU 2 of 248 free (capacity 256)) + b (group _NIC)``."""
    parts = []
    named = ((name_of(uuid, answered.names), uuid) for uuid in request.allocations)
    for name, uuid in sorted(named):
        summary, amounts = answered.answer.provider_summaries[uuid], []
        for resource_class, amount in sorted(request.allocations[uuid].items()):
            free, whole = summary.free(resource_class), summary.capacity.get(resource_class, 0)
            capacity = "" if whole == free else f" (capacity {whole})"
            amounts.append(f"{resource_class} {amount} of {free} free{capacity}")
        shared = ", shared" if summary.shares else ""
        parts.append(f"{name} ({', '.join(amounts)}{shared})")
    for uuid, suffixes in _groups(request).items():
        if uuid not in request.allocations:
            parts.append(f"{name_of(uuid, answered.names)} (group {', '.join(suffixes)})")
    return " + ".join(parts)
