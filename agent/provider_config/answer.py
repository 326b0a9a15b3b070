"""Claims of the provider files on one tree.  Pure.

Provider files are an owner like a driver: drivers do not see what the files add, a driver's
inventory takes precedence, and what is removed from the files is released.
"""

from dataclasses import replace
from typing import NamedTuple

from agent.ownership.answers import Answer, Reported
from agent.ownership.ledger import FILES, Ledger
from agent.ownership.policy import Policy
from agent.provider_config.entries import Entries, Entry, Key
from reportclient.plan import Problem
from reportclient.provider_tree import Claims
from reportclient.snapshot import Snapshot


class FilesAnswer(NamedTuple):
    """The files' answer; ``matched`` are the keys of entries whose provider exists."""

    answer: Answer
    problems: tuple[Problem, ...]
    matched: frozenset[Key]


def files_answer(entries: Entries, tree: Snapshot, policy: Policy, ledger: Ledger) -> FilesAnswer:
    """Return what the entries assert on ``tree``, the one that the drivers desire."""
    problems: list[Problem] = []
    matched: set[Key] = set()
    by_provider: dict[str, Entry] = {}
    for entry in entries.explicit:
        # As in Nova, a name may be a UUID and vice versa.
        by_name, by_uuid = tree.named(entry.identifier), tree.get(entry.identifier)
        provider = by_name or by_uuid if entry.by == "name" else by_uuid or by_name
        if provider is None:
            continue
        matched.add(entry.key)
        first = by_provider.setdefault(provider.uuid, entry)
        if first is not entry:
            text = f"{entry} ignored: {first} describes this provider, too; merge the two entries"
            problems.append(Problem(provider.uuid, provider.name, text))
    root = policy.root
    if entries.default is not None and root in tree:
        by_provider.setdefault(root, entries.default)
    reported: dict[str, Reported] = {}
    places: dict[tuple[str, str], str] = {}
    for uuid, entry in by_provider.items():
        provider = tree.providers[uuid]
        if not policy.may_describe(uuid, ledger):
            text = f"{entry.place}: not changed: owned by another service"
            problems.append(Problem(uuid, provider.name, text))
            continue
        claims = Claims(False, frozenset(entry.inventory), entry.traits)
        reported[uuid] = Reported(claims, replace(provider, inventory=entry.inventory))
        places |= {(uuid, name): place for name, place in entry.places.items()}
    return FilesAnswer(Answer(FILES, reported, places=places), tuple(problems), frozenset(matched))
