"""``computectl tree``: what Placement has, drawn as a tree."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from agent.cli.draw import capacity, children_by_name, draw_tree
from agent.cli.listing import DrawnOrListed, Table
from agent.cli.look import Look
from agent.cli.seen import Seen, find, look_at
from agent.cli.session import Session
from agent.cli.trouble import NOT_WELL, Trouble
from reportclient.http import API
from reportclient.model import Provider

COLUMNS = (
    "provider",
    "uuid",
    "parent",
    "generation",
    "resource_class",
    "total",
    "reserved",
    "ratio",
    "used",
    "capacity",
    "traits",
)


class ShowTree(DrawnOrListed[list[Seen]]):
    """Draw what Placement has for this host, or the tree that a provider is in."""

    drawn = "tree"
    examples = """\
  computectl tree                          this host, by its compute_id
  computectl tree host1_numa0 --no-traits  the tree that host1_numa0 is in, only amounts
  computectl tree -f json                  a row for each inventory, for programs
"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """One provider, and how much of it."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "provider",
            nargs="?",
            metavar="NAME_OR_UUID",
            help="any provider in Placement; left out: the root, or roots, of this host",
        )
        parser.add_argument(
            "--traits",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="whether to draw traits and aggregates",
        )
        return parser

    def ask(self, session: Session, options: argparse.Namespace) -> list[Seen]:
        """The trees; one but for a host with several nodes."""
        api = session.placement()
        if options.provider is None:
            return _of_this_host(session, api)
        listed = find(options.provider, api)
        root, uuid = listed["root_provider_uuid"], listed["uuid"]
        seen = look_at(root, api, marked=None if uuid == root else uuid)
        if seen is None:
            raise Trouble(f"{options.provider} has just gone from Placement", "try again", NOT_WELL)
        return [seen]

    def draw(self, answer: list[Seen], look: Look, options: argparse.Namespace) -> str:
        """One below the other."""
        look = replace(look, terse=not options.traits)
        trees = (draw_tree(s.snapshot, s.root, beside=s.beside, look=look) for s in answer)
        return "\n\n".join(trees)

    def table(self, answer: list[Seen]) -> Table:
        """A row for each inventory, and one for a provider that has none."""
        rows = (
            row for seen in answer for provider in _in_order(seen) for row in _rows(provider, seen)
        )
        return COLUMNS, list(rows)


def _of_this_host(session: Session, api: API) -> list[Seen]:
    roots = session.roots()
    if not roots:
        raise session.no_compute_id()
    found = (look_at(root, api) for root in roots)
    trees = [seen for seen in found if seen is not None]
    if not trees:
        raise Trouble(
            f"Placement has nothing of {session.settings.host} (compute_id {roots[0]}) yet",
            "`computectl plan` shows what compute-agent is going to report",
            NOT_WELL,
        )
    return trees


def _in_order(seen: Seen) -> Iterator[Provider]:
    """As they are drawn: the tree first, the sharing providers after it."""
    roots = [seen.snapshot.providers[seen.root]]
    roots += (each for each in children_by_name(seen.snapshot, None) if each not in roots)
    stack = [*reversed(roots)]
    while stack:
        provider = stack.pop()
        yield provider
        stack += reversed(children_by_name(seen.snapshot, provider.uuid))


def _rows(provider: Provider, seen: Seen) -> Iterator[Sequence[Any]]:
    parent = provider.parent_uuid
    place = (
        provider.name,
        provider.uuid,
        seen.snapshot.providers[parent].name if parent is not None else None,
        seen.beside.generations.get(provider.uuid),
    )
    used = (seen.beside.usages or {}).get(provider.uuid, {})
    traits = sorted(provider.traits)
    for name, record in sorted(provider.inventory.items()):
        amounts = (record.total, record.reserved, record.allocation_ratio)
        yield *place, name, *amounts, used.get(name, 0), capacity(record), traits
    if not provider.inventory:
        yield *place, *[None] * 6, traits
