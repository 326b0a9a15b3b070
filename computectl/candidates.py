"""``computectl candidates``: allocation candidates as a scheduler gets them, explained."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from computectl.asking.constraints import Question
from computectl.asking.explanation import COLUMNS as EXPLAINED_COLUMNS
from computectl.asking.explanation import Explained, explanations, paragraphs
from computectl.asking.habits import unknown_names_error
from computectl.asking.request_file import read_request_file
from computectl.asking.request_options import (
    add_group_options,
    add_request_options,
    add_selection,
    given_request_options,
    request_from_options,
    rewrite_group_options,
)
from computectl.asking.why import Explainer, Why
from computectl.drawing.candidates import (
    SHOWN_HOSTS,
    NamedCandidates,
    draw_candidates,
    used_only,
)
from computectl.reading.trees import find_provider, names_in, trees_of
from computectl.shared.command_session import Session
from computectl.shared.commands import DrawnOrListed, Table, argument
from computectl.shared.errors import PROBLEMS, CommandError, Once
from computectl.shared.screen import Screen, counted, filled
from drivers.diagnostics import BadFile
from reportclient.asking import QueryOptions, allocation_candidates
from reportclient.calls import Counting
from reportclient.candidates import AllocationCandidates, ResourceRequest, read_request
from reportclient.errors import UnknownNames
from reportclient.http import API

LIMIT = 1000
"""Candidates requested unless ``--limit`` is given; the default of Nova's scheduler."""
NAMES = frozenset({"host", "provider"})
"""Columns that need the names of providers, which takes further calls."""
COLUMNS = (
    "candidate",
    "host",
    "host_uuid",
    "provider",
    "provider_uuid",
    "resources",
    "groups",
    "free",
    "capacity",
)


@dataclass(frozen=True, slots=True)
class Answered:
    """Candidates, and with ``--explain`` their explanation."""

    named: NamedCandidates
    why: Why | None = None
    explained: tuple[Explained, ...] = ()


class ShowCandidates(DrawnOrListed[Answered]):
    """Query Placement for allocation candidates, as a scheduler does.

    Disabled hosts are excluded, as by a scheduler. Exits with 1 if there are no candidates.
    """

    drawn = "hosts"
    examples = """\
  computectl candidates --resources VCPU=2,MEMORY_MB=512 --required HW_CPU_X86_AVX2
  computectl candidates --resources VCPU=2 --group ACCEL:CUSTOM_FPGA=1 \\
      --required-ACCEL in:CUSTOM_TYPE1,CUSTOM_TYPE2 --in-tree-ACCEL host1
  computectl candidates --query 'resources=VCPU:2&required=!CUSTOM_OLD' --explain
  computectl candidates --file request.yaml -f json
"""

    arguments = (
        argument(
            "--file",
            action=Once,
            metavar="FILE",
            help="a YAML file with the request: Placement's parameters as keys, and `groups`; "
            "- is stdin",
        ),
        argument(
            "--limit",
            action=Once,
            type=int,
            metavar="N",
            help=f"maximum number of candidates; default: {LIMIT}, as for Nova's scheduler",
        ),
        argument(
            "--explain",
            action="store_true",
            help="show what each constraint excludes, by querying again without it",
        ),
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of the request: single options, ``--query`` or ``--file``."""
        parser = super().get_parser(prog_name)
        parser.allow_abbrev = False  # osc-placement has --resource with another meaning
        add_group_options(parser)
        add_request_options(parser)
        hosts = "disabled hosts, which a scheduler excludes"
        add_selection(parser, "request", hosts)
        return parser

    @classmethod
    def rewrite_arguments(cls, arguments: Sequence[str]) -> list[str]:
        """See :func:`computectl.asking.request_options.rewrite_group_options`."""
        return rewrite_group_options(arguments)

    def execute(self, session: Session, options: argparse.Namespace) -> Answered:
        """Return the candidates, the names of the shown providers, and the explanation."""
        api = Counting(session.placement())
        request = _request(options, api)
        try:
            answer = allocation_candidates(
                request, api, QueryOptions(options.include_disabled, several=True)
            )
            question = Question(request, options.include_disabled)
            why, explained = self._explained(question, options, api)
        except UnknownNames as err:
            raise unknown_names_error(err, api) from err
        names = names_in(trees_of(answer, self._named(answer, options)), api)
        named = NamedCandidates(answer, names, api.calls, request.limit)
        return Answered(named, why, tuple(explained))

    def _named(self, answer: AllocationCandidates, options: argparse.Namespace) -> list[str]:
        """Return the UUIDs of the hosts whose providers are shown by name."""
        if options.formatter == self.drawn:
            return answer.hosts()[:SHOWN_HOSTS]
        listed = not options.explain and (not options.columns or {*options.columns} & NAMES)
        return answer.hosts() if listed else []

    def _explained(
        self, asked: Question, options: argparse.Namespace, api: API
    ) -> tuple[Why | None, list[Explained]]:
        if not options.explain:
            return None, []
        why = Explainer(api).diagnose(asked)
        return why, explanations(why, asked, api)

    def draw(self, answer: Answered, screen: Screen, options: argparse.Namespace) -> str:  # noqa: ARG002
        text = draw_candidates(answer.named, screen)
        if answer.why is None:
            return text
        filled_in = (
            filled(text, screen.width, bullet, "  " if bullet else "")
            for bullet, text in paragraphs(list(answer.explained), answer.why)
        )
        return "\n".join([text, "", *filled_in])

    def table(self, answer: Answered) -> Table:
        if answer.why is not None:
            return EXPLAINED_COLUMNS, [explained.row() for explained in answer.explained]
        return COLUMNS, list(_rows(answer.named))

    def exit_code(self, answer: Answered, options: argparse.Namespace) -> int:
        """Return 1 if there are no candidates, or if Placement's answer has wrong amounts."""
        wrong = answer.named.answer.miscounted
        if wrong:
            self.print_on_stderr(
                f"do not claim {counted(wrong, 'candidate')} of Placement's answer: the amounts "
                "differ from the request because of a defect of Placement (docs/candidates.rst)"
            )
        if len(answer.named.answer):
            return PROBLEMS if wrong else 0
        if not options.explain:
            self.print_on_stderr("no candidates; --explain shows which constraint excludes them")
        return PROBLEMS


def _request(options: argparse.Namespace, api: API) -> ResourceRequest:
    given = list(given_request_options(options))
    forms = [f"--{name}" for name in ("query", "file") if getattr(options, name)]
    if len(forms) + bool(given) > 1:
        raise CommandError(
            f"{' and '.join([*forms, *given[:1]])} can't be combined", "use only one of them"
        )
    if options.query:
        request = read_request(options.query)
    elif options.file:
        request = _request_from_file(options.file)
    else:
        request = request_from_options(options, lambda name: str(find_provider(name, api)["uuid"]))
    limit = options.limit if options.limit is not None else request.limit
    return replace(request, limit=LIMIT if limit is None else limit)


def _request_from_file(file: str) -> ResourceRequest:
    try:
        return read_request_file(_text(file), file)
    except BadFile as err:
        raise CommandError(str(err), "correct the file; no request was sent") from err


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as err:
        reason = getattr(err, "strerror", None) or "it is not UTF-8"
        raise CommandError(f"--file {file}: {reason}", "name a file that can be read") from err


def _rows(named: NamedCandidates) -> list[Sequence[Any]]:
    rows: list[Sequence[Any]] = []
    for number, request in enumerate(named.answer.allocation_requests, 1):
        host = named.answer.host(request)
        place = (number, named.names.get(host, host), host)
        suffixes: dict[str, list[str]] = {}
        for suffix, uuids in sorted((request.mappings or {}).items()):
            for uuid in uuids:
                suffixes.setdefault(uuid, []).append(suffix)
        for uuid in (*request.allocations, *used_only(request)):
            resources = dict(request.allocations.get(uuid, {}))
            provider = named.names.get(uuid, uuid)
            summary = named.answer.provider_summaries.get(uuid)
            free = {name: summary.free(name) for name in resources} if summary else {}
            whole = {name: summary.capacity[name] for name in resources} if summary else {}
            rows.append([*place, provider, uuid, resources, suffixes.get(uuid, []), free, whole])
    return rows
