"""``computectl watch``: a live screen."""

import argparse
import os
import sys
from importlib.util import find_spec

from computectl.reading.services import Observed, Services
from computectl.shared.command_session import Session
from computectl.shared.commands import OperatorCommand, argument, positive
from computectl.shared.errors import CommandError
from computectl.status import observed_status
from computectl.watching.controls import Controls

NOT_A_TERMINAL = ("", "dumb", "unknown")
HOST_EVERY, FLEET_EVERY = 1, 5
"""Seconds between two reads: of the status file, and of the registry and Placement."""


class Watch(OperatorCommand):
    """Watch this host or all hosts on a live screen.

    Shows state, problems, recent changes and calls to Placement. Reads this host's data from the
    agent's status file, and from its metrics if [monitoring] is on; with --all from the
    registry, with one or two GETs to Placement for each update. Keys: q quits, PgUp and PgDn
    scroll; with --all, / filters, s sorts by the next column, r reverses the order.
    """

    examples = """\
  computectl watch                    this host
  computectl watch --all              all hosts of the registry
  computectl watch --all rack7 down   hosts of rack7 that are down
"""
    arguments = (
        argument(
            "words",
            nargs="*",
            metavar="WORD",
            help="with --all: only hosts with each WORD in name, status, state or reason",
        ),
        argument("--all", action="store_true", help="all hosts of the registry"),
        argument(
            "--interval",
            type=positive,
            metavar="SECONDS",
            help=f"seconds between two updates; default: {HOST_EVERY}, with --all {FLEET_EVERY}",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        _refuse_pipes(self.app.stdout, "service list" if parsed_args.all else "status")
        refuse_without_rich()
        if parsed_args.words and not parsed_args.all:
            raise CommandError("filter words need --all", "add --all")
        session = self.session()
        if parsed_args.all:
            _watch_fleet(session, " ".join(parsed_args.words), parsed_args.interval or FLEET_EVERY)
        else:
            _watch_host(session, parsed_args.interval or HOST_EVERY)
        return 0


def _refuse_pipes(stdout: object, other: str) -> None:
    term = os.environ.get("TERM", "")
    if not (sys.stdin.isatty() and getattr(stdout, "isatty", bool)()):
        raise CommandError("watch needs a terminal", f"use computectl {other} instead")
    if term in NOT_A_TERMINAL:
        what = f"watch needs a terminal that can do more than TERM={term or 'nothing'}"
        raise CommandError(what, f"use computectl {other} instead")


def refuse_without_rich() -> None:
    """:raises CommandError: the extra ``watch`` is not installed."""
    if find_spec("rich") is None:
        raise CommandError("watch needs the library rich", "pip install 'compute-agent[watch]'")


def _watch_host(session: Session, interval: float) -> None:
    from computectl.watching import host, live  # noqa: PLC0415  rich

    def read() -> host.ThisHost:
        return host.ThisHost(observed_status(session), host.numbers(session.settings.monitoring))

    feed = live.Feed(read, host.changes, interval, read())
    feed.changes = tuple(host.first_changes(feed.latest))
    live.show(sys.stdout, sys.stdin.fileno(), feed, host.host_view, Controls())


def _watch_fleet(session: Session, filter_text: str, interval: float) -> None:
    from computectl.watching import fleet, live  # noqa: PLC0415  rich

    services = Services(session)
    api = session.placement()

    def read() -> Observed:
        return services.observed(services.registry.list_services(), api)

    feed = live.Feed(read, fleet.changes, interval, read())
    live.show(sys.stdout, sys.stdin.fileno(), feed, fleet.fleet_view, Controls(filter_text))
