"""An edit of one snapshot, done to a newer one.  Pure.

What the edit did not touch is as the newer one has it: traits and aggregates are
added and taken away one by one, inventory class by class.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reportclient.diff import parents_first
from reportclient.model import Inventory, Provider
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot


def rebased(base: Snapshot, desired: Snapshot, now: Snapshot) -> Snapshot:
    """Return ``now`` with the changes that ``desired`` made to ``base``.

    A provider that somebody else removed is made again if the edit changed it.  One that
    the edit removed stays if somebody else has put another below it.

    :raises ValueError: both gave two providers one name, or moved them below each other.
    """
    if now is base or now == base:
        return desired
    changed = list(desired.changed_since(base))
    tree = ProviderTree(now)
    gone = {uuid for uuid in changed if uuid not in desired}
    for uuid in gone:
        below = {one.uuid for one in now.walk(uuid)} if uuid in now else set()
        if tree.exists(uuid) and below <= gone:
            tree.remove(uuid)
    for provider in parents_first(desired, (uuid for uuid in changed if uuid in desired)):
        _lay(provider, base.get(provider.uuid), tree)
    return tree.freeze()


def _lay(provider: Provider, before: Provider | None, tree: ProviderTree) -> None:
    uuid = provider.uuid
    if not tree.exists(uuid):
        before = None
        if provider.parent_uuid is None:
            tree.new_root(provider.name, uuid)
        else:
            tree.new_child(provider.name, provider.parent_uuid, uuid)
    old = before or replace(provider, inventory={}, traits=frozenset(), aggregates=frozenset())
    if provider.name != old.name:
        tree.rename(uuid, provider.name)
    if provider.parent_uuid != old.parent_uuid:
        tree.move(uuid, provider.parent_uuid)
    tree.remove_traits(uuid, *old.traits - provider.traits)
    tree.add_traits(uuid, *provider.traits - old.traits)
    tree.remove_aggregates(uuid, *old.aggregates - provider.aggregates)
    tree.add_aggregates(uuid, *provider.aggregates - old.aggregates)
    tree.set_records(uuid, _records(provider.inventory, old.inventory, tree.records(uuid)))


def _records(
    desired: Mapping[str, Inventory], old: Mapping[str, Inventory], now: Mapping[str, Inventory]
) -> dict[str, Inventory]:
    kept = {name: record for name, record in now.items() if name in desired or name not in old}
    return {**kept, **{n: r for n, r in desired.items() if r != old.get(n) or n not in kept}}


def foreign_changes(base: Snapshot, desired: Snapshot, owned: Iterable[str]) -> list[Provider]:
    """Providers of ``base`` that are changed and not among those."""
    ours = frozenset(owned)
    before = (base.get(uuid) for uuid in desired.changed_since(base))
    return [
        one
        for one in before
        if one is not None and one.uuid not in ours and desired.get(one.uuid) != one
    ]
