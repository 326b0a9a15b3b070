"""Names and parents that the tree as a whole allows, and which providers can be removed.  Pure.

A move, rename or creation that is not allowed is undone.  A provider to be removed is only
emptied while a provider that stays is below it.  One that leaves later gives its name to another.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

from agent.ownership.ledger import Ledger
from agent.ownership.policy import Policy
from reportclient.model import LONGEST_NAME, Provider, name_when_removed
from reportclient.plan import Plan, UpdateProvider
from reportclient.snapshot import Snapshot

Changes = dict[str, Provider | None]
"""Changed providers by UUID; ``None`` for removed ones."""


def correct_places(
    observed: Snapshot,
    policy: Policy,
    changes: Changes,
    leaving: frozenset[str],
    later: frozenset[str],
) -> tuple[list[str], list[tuple[Provider, str]]]:
    """Undo in ``changes`` what is not allowed, and remove the providers that leave.

    Those that leave ``later`` give up their name if another provider gets it.  Return the UUIDs of
    leaving providers that have to stay, since a provider below them stays, and the providers of
    which something was undone, as they were wanted, each with the reason.
    """
    staying_names = {
        each.name.casefold() for uuid, each in changes.items() if each and uuid not in later
    }
    for uuid in later:
        provider = changes[uuid]
        if provider is not None and provider.name.casefold() in staying_names:
            changes[uuid] = replace(provider, name=name_when_removed(provider))
    leaving -= later
    undone: list[tuple[Provider, str]] = []

    def undo_disallowed(free: Collection[str]) -> None:
        while (problem := next(_disallowed(observed, policy, changes, free), None)) is not None:
            undone.append(problem)  # each may cause another one
            new, old = problem[0], observed.get(problem[0].uuid)
            if old is None:
                del changes[new.uuid]
            else:
                changes[new.uuid] = replace(new, name=old.name, parent_uuid=old.parent_uuid)

    undo_disallowed(leaving)  # the names of leaving providers can be used at once
    staying: dict[str, None] = {}
    for uuid in {**observed.providers, **changes} if leaving else ():
        provider = None if uuid in leaving else _now(observed, changes, uuid)
        while provider is not None and provider.parent_uuid is not None:
            if provider.parent_uuid in leaving:
                staying[provider.parent_uuid] = None
            provider = _now(observed, changes, provider.parent_uuid)
    changes.update(dict.fromkeys(leaving.difference(staying)))
    undo_disallowed(())
    return list(staying), undone


def _disallowed(
    observed: Snapshot, policy: Policy, changes: Changes, free: Collection[str]
) -> Iterator[tuple[Provider, str]]:
    """Yield the changes that are not allowed, with the reason.

    ``free`` are the providers whose names can be used.
    """
    names: dict[str, str] = {}
    for uuid, new in changes.items():
        old = observed.get(uuid)
        if new is None or (old and (old.name, old.parent_uuid) == (new.name, new.parent_uuid)):
            continue
        first, named = names.setdefault(new.name, uuid), observed.named(new.name)
        now = None if named is None or named.uuid in free else _now(observed, changes, named.uuid)
        holder = now.uuid if now is not None and now.name == new.name else first
        root: Provider | None = new
        passed = set[str]()
        while root is not None and root.parent_uuid is not None:
            passed.add(root.uuid)
            above = root.parent_uuid
            root = None if above in passed else _now(observed, changes, above)
        if root is None:  # an ancestor is missing, or is below the provider
            yield new, "not created: its parent was not created"
        elif root.uuid in policy.foreign:
            yield new, "not created: its parent is owned by another service"
        elif root.uuid not in {policy.root, observed.root_of(uuid) if old else root.uuid}:
            yield new, "not moved: the new parent is in the tree of another root"
        elif holder != uuid:
            text = f"not created or renamed: provider {holder} of another owner has its name"
            yield new, text


def _now(observed: Snapshot, changes: Changes, uuid: str) -> Provider | None:
    return changes[uuid] if uuid in changes else observed.get(uuid)


def freeing_names(observed: Snapshot, root: str, ledger: Ledger) -> Plan:
    """Return the renames after which another node can have the names of a root and its providers.

    The root's UUID takes the place of its name in all of them.  The root is the last, so that a
    kill before that leaves a root that is freed again.
    """
    providers = observed.providers
    before = f"{providers[root].name}_"
    below = (providers[uuid] for uuid in ledger.claims if uuid in providers)
    renames = [
        UpdateProvider(it.uuid, new, it.parent_uuid, old_name=it.name)
        for it in below
        if ledger.owns(it.uuid) and it.name.startswith(before)
        for name in [f"{root}_{it.name.removeprefix(before)}"]
        for new in [it.uuid if len(name) > LONGEST_NAME else name]
    ]
    return Plan((*renames, UpdateProvider(root, root, None, old_name=providers[root].name)))
