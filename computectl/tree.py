"""``computectl tree``: draw provider trees of Placement."""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from compute_registry.observed_placement import ObservedTree, drains, read_tree
from computectl.drawing.dot import draw_dot
from computectl.drawing.text_tree import draw_fleet, draw_tree, heading
from computectl.reading.trees import CALLS, TREES, Trees, find_provider, read_trees
from computectl.shared.command_session import Session
from computectl.shared.commands import TEXT, Columns, DrawnOrListed, Table, argument, positive
from computectl.shared.errors import PROBLEMS, CommandError
from computectl.shared.screen import Screen, folded, iso
from reportclient.http import API
from reportclient.model import Inventory, Provider
from reportclient.snapshot import Snapshot


class Row(NamedTuple):
    """A resource class of a provider; empty for a provider without inventory."""

    provider: Provider
    tree: ObservedTree
    resource_class: str

    @property
    def record(self) -> Inventory | None:
        return self.provider.inventory.get(self.resource_class)

    def parent(self) -> str | None:
        uuid = self.provider.parent_uuid
        return None if uuid is None else self.tree.snapshot.providers[uuid].name

    def used(self) -> int | None:
        usages = (self.tree.usage.usages or {}).get(self.provider.uuid, {})
        return usages.get(self.resource_class, 0) if self.record else None

    def draining_for(self) -> list[str]:
        return list(self.tree.usage.draining.get(self.provider.uuid, ()))

    def draining_since(self) -> str | None:
        since = self.tree.usage.since.get(self.provider.uuid)
        return iso(since) if since and self.draining_for() else None


COLUMNS: Columns = {
    "provider": lambda row: row.provider.name,
    "uuid": lambda row: row.provider.uuid,
    "parent": lambda row: row.parent(),
    "generation": lambda row: row.tree.usage.generations.get(row.provider.uuid),
    "resource_class": lambda row: row.resource_class or None,
    "total": lambda row: row.record and row.record.total,
    "reserved": lambda row: row.record and row.record.reserved,
    "ratio": lambda row: row.record and row.record.allocation_ratio,
    "used": lambda row: row.used(),
    "capacity": lambda row: row.record and row.record.capacity,
    "traits": lambda row: sorted(row.provider.traits),
    "draining_for": lambda row: row.draining_for(),
    "draining_since": lambda row: row.draining_since(),
}


class ShowTree(DrawnOrListed[Trees]):
    """Draw this host's provider tree in Placement, another provider's tree, or all trees."""

    examples = """\
  computectl tree                          this host's tree, by its compute_id
  computectl tree host1_numa0 --no-traits  the tree of host1_numa0, amounts only
  computectl tree --all 'rack7-*'          all trees whose root name matches
  computectl tree -f json                  a row for each inventory, for programs
  computectl tree --dot | dot -Tsvg > host.svg    a picture by Graphviz
"""
    arguments = (
        argument(
            "provider",
            nargs="?",
            metavar="NAME_OR_UUID",
            help="any provider in Placement; default: the roots of this host; "
            "with --all a pattern for the names of roots, such as 'rack7-*'",
        ),
        argument(
            "--traits",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="show traits and aggregates",
        ),
        argument(
            "--dot", action="store_true", help="print the trees in the DOT language, for Graphviz"
        ),
        argument(
            "--afresh",
            action="store_true",
            help="ignore the agent's saved view and read everything from Placement",
        ),
        argument(
            "--all",
            action="store_true",
            help="all trees, sorted by the names of their roots, and the aggregates between them",
        ),
        argument(
            "--limit",
            type=positive,
            metavar="N",
            help=f"with --all: maximum number of trees; default: {TREES}",
        ),
        argument(
            "--most-calls",
            type=positive,
            metavar="N",
            help="with --all: maximum number of calls to Placement; trees beyond it are left out; "
            f"default: {CALLS}",
        ),
    )

    def execute(self, options: argparse.Namespace) -> Trees:
        """Read the trees: one, several for a driver with several nodes, or all with ``--all``."""
        if options.dot and options.formatter != TEXT:
            raise CommandError("--dot and -f can't be combined", "use only one of them")
        session = self.session()
        api = session.placement()
        if options.all:
            limit, most_calls = options.limit or TREES, options.most_calls or CALLS
            return read_trees(api, options.provider, limit, most_calls, self.progress)
        if options.limit or options.most_calls:
            raise CommandError("--limit and --most-calls need --all", "add --all")
        if options.provider is None:
            return Trees(tuple(_of_this_host(session, api, afresh=options.afresh)))
        listed = find_provider(options.provider, api)
        root, uuid = listed["root_provider_uuid"], listed["uuid"]
        observed = read_tree(root, api, marked=None if uuid == root else uuid)
        if observed is None:
            raise CommandError(
                f"{options.provider} has just been removed from Placement", "try again", PROBLEMS
            )
        return Trees((observed,))

    def draw(self, answer: Trees, screen: Screen, options: argparse.Namespace) -> Iterator[str]:
        if options.dot:
            yield from draw_dot(*answer.together(), terse=not options.traits)
            return
        screen = replace(screen, terse=not options.traits)
        if answer.fleet is not None:
            yield draw_fleet(answer, screen)
            return
        for observed in answer.observed:
            if observed is not answer.observed[0]:
                yield ""
            for condition in drains(
                observed.snapshot, observed.usage.draining, observed.usage.since
            ):
                yield folded(f"{condition.aged(time.time())}; {condition.next_step}", screen.width)
            yield draw_tree(observed.snapshot, observed.root, usage=observed.usage, screen=screen)

    def table(self, answer: Trees) -> Table:
        shown: dict[str, tuple[Provider, ObservedTree]] = {}
        for observed in answer.observed:
            every = observed.snapshot.providers.values()
            in_order = sorted(every, key=lambda it: (it.uuid != observed.root, it.name))
            for provider in Snapshot.build(in_order).walk():
                shown.setdefault(provider.uuid, (provider, observed))
        return COLUMNS, [
            Row(provider, tree, resource_class)
            for provider, tree in shown.values()
            for resource_class in sorted(provider.inventory) or [""]
        ]

    def exit_code(self, answer: Trees, options: argparse.Namespace) -> int:
        """Print which trees ``--all`` left out, and with ``--dot`` the heading; return 0."""
        if answer.fleet is not None:
            if options.dot:
                self.print_on_stderr(heading(answer))
            for sentence in answer.fleet.omitted:
                self.print_on_stderr(sentence)
        return 0


def _of_this_host(session: Session, api: API, *, afresh: bool) -> list[ObservedTree]:
    roots = session.roots()
    if not roots:
        raise session.no_compute_id()
    views = {root: None if afresh else session.saved_root(root).load() for root in roots}
    read = (read_tree(root, api, remembered=view) for root, view in views.items())
    trees = [tree for tree in read if tree is not None]
    if not trees:
        raise CommandError(
            f"Placement has no provider of {session.settings.host} (compute_id {roots[0]}) yet",
            "`computectl plan` shows what compute-agent will report",
            PROBLEMS,
        )
    return trees
