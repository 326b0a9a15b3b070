"""``computectl candidates``: what a scheduler would get from Placement, and why not more."""

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
from computectl.shared.errors import NOT_WELL, CommandError, Once
from computectl.shared.screen import Screen, counted, filled
from drivers.diagnostics import BadFile
from reportclient.asking import QueryOptions, allocation_candidates
from reportclient.calls import Counting
from reportclient.candidates import AllocationCandidates, ResourceRequest, read_request
from reportclient.errors import UnknownNames
from reportclient.http import API

LIMIT = 1000
"""Nova's scheduler asks for as many."""
NAMES = frozenset({"host", "provider"})
"""Columns for which providers have to be looked up."""
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
    """Candidates, and where it was asked for what explains them."""

    named: NamedCandidates
    why: Why | None = None
    explained: tuple[Explained, ...] = ()


class ShowCandidates(DrawnOrListed[Answered]):
    """Ask Placement for allocation candidates, as a scheduler would.

    Disabled hosts are left out, as by a scheduler. Exits with 1 if there are no candidates.
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
            help="the request in a YAML file whose keys are Placement's parameters, and `groups`; "
            "- is stdin",
        ),
        argument(
            "--limit",
            action=Once,
            type=int,
            metavar="N",
            help=f"how many candidates at most; default: {LIMIT}, as for Nova's scheduler",
        ),
        argument(
            "--explain",
            action="store_true",
            help="say which constraint rules out what, by asking again without it",
        ),
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The request in one of three forms, and how to answer it."""
        parser = super().get_parser(prog_name)
        parser.allow_abbrev = False  # --resource is something else to users of osc-placement
        add_group_options(parser)
        add_request_options(parser)
        hosts = "disabled hosts, which a scheduler leaves out"
        add_selection(parser, "request", hosts)
        return parser

    @classmethod
    def rewrite_arguments(cls, words: Sequence[str]) -> list[str]:
        """See :func:`computectl.asking.request_options.rewrite_group_options`."""
        return rewrite_group_options(words)

    def execute(self, session: Session, options: argparse.Namespace) -> Answered:
        """The candidates, the names of those that are drawn, and what explains them."""
        api = Counting(session.placement())
        request = _request(options, api)
        try:
            answer = allocation_candidates(
                request, api, QueryOptions(options.include_disabled, several=True)
            )
            why, found = self._explained(Question(request, options.include_disabled), options, api)
        except UnknownNames as err:
            raise unknown_names_error(err, api) from err
        names = names_in(trees_of(answer, self._named(answer, options)), api)
        return Answered(NamedCandidates(answer, names, api.calls, request.limit), why, tuple(found))

    def _named(self, answer: AllocationCandidates, options: argparse.Namespace) -> list[str]:
        """The hosts whose providers are shown by name."""
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
            filled(words, screen.width, bullet, "  " if bullet else "")
            for bullet, words in paragraphs(list(answer.explained), answer.why)
        )
        return "\n".join([text, "", *filled_in])

    def table(self, answer: Answered) -> Table:
        if answer.why is not None:
            return EXPLAINED_COLUMNS, [one.row() for one in answer.explained]
        return COLUMNS, list(_rows(answer.named))

    def exit_code(self, answer: Answered, options: argparse.Namespace) -> int:
        """No candidates is not well, nor are wrong ones."""
        wrong = answer.named.answer.miscounted
        if wrong:
            self.print_on_stderr(
                f"{counted(wrong, 'candidate')} of Placement's answer have other amounts than were "
                "asked for, an error of its own (docs/candidates.rst); do not claim them"
            )
        if len(answer.named.answer):
            return NOT_WELL if wrong else 0
        if not options.explain:
            self.print_on_stderr("no candidates; --explain says which constraint leaves none")
        return NOT_WELL


def _request(options: argparse.Namespace, api: API) -> ResourceRequest:
    said = list(given_request_options(options))
    forms = [f"--{name}" for name in ("query", "file") if getattr(options, name)]
    if len(forms) + bool(said) > 1:
        raise CommandError(
            f"{' and '.join([*forms, *said[:1]])} are two requests", "give one of them"
        )
    if options.query:
        request = read_request(options.query)
    elif options.file:
        request = _of_file(options.file)
    else:
        request = request_from_options(options, lambda name: str(find_provider(name, api)["uuid"]))
    limit = options.limit if options.limit is not None else request.limit
    return replace(request, limit=LIMIT if limit is None else limit)


def _of_file(file: str) -> ResourceRequest:
    try:
        return read_request_file(_text(file), file)
    except BadFile as err:
        raise CommandError(str(err), "correct the file; nothing was asked") from err


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
            name = named.names.get(uuid, uuid)
            summary = named.answer.provider_summaries.get(uuid)
            free = {one: summary.free(one) for one in resources} if summary else {}
            whole = {one: summary.capacity[one] for one in resources} if summary else {}
            rows.append([*place, name, uuid, resources, suffixes.get(uuid, []), free, whole])
    return rows
