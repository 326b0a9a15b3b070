"""Claims of the provider files on one tree.  Pure.

Provider files are a manager like a driver: drivers do not see what the files add, a driver's
inventory takes precedence, and what is removed from the files is released.
"""

from dataclasses import replace
from typing import NamedTuple

from agent.ownership.ledger import FILES, Holding, Ledger
from agent.ownership.policy import Policy
from agent.ownership.statement import Assertion, Statement
from agent.provider_config.entries import Entries, Entry, Key
from reportclient.plan import Problem
from reportclient.snapshot import Snapshot


class Asserted(NamedTuple):
    """The files' statement; ``matched`` are the keys of entries whose provider exists."""

    statement: Statement
    problems: tuple[Problem, ...]
    matched: frozenset[Key]


def asserted(entries: Entries, tree: Snapshot, policy: Policy, ledger: Ledger) -> Asserted:
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
    assertions: dict[str, Assertion] = {}
    places: dict[tuple[str, str], str] = {}
    for uuid, entry in by_provider.items():
        provider = tree.providers[uuid]
        not_ours = policy.attached and (uuid == root or not ledger.is_ours(uuid))
        if not_ours or uuid in policy.foreign:
            text = f"{entry.place}: not changed: owned by another service"
            problems.append(Problem(uuid, provider.name, text))
            continue
        holding = Holding(False, frozenset(entry.inventory), entry.traits)
        assertions[uuid] = Assertion(holding, replace(provider, inventory=entry.inventory))
        places |= {(uuid, name): place for name, place in entry.places.items()}
    return Asserted(
        Statement(FILES, assertions, places=places), tuple(problems), frozenset(matched)
    )
